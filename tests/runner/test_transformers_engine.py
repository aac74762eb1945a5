"""Transformers' continuous batching behind the runner's interface, the real library."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_checks import check_answers, check_steps, settings_of, write_run
from real_engine import interpreter
from tiny_model import write_model
from tiny_tokenizer import save_tokenizer
from vllm_session import ROOT, Row, Session, backlog, exactly, session

from sortedf.engine import read_run, read_step_log

pytestmark = pytest.mark.vllm

N = 120
BLOCKS, BLOCK = 59, 32

SETTINGS: dict[str, Any] = {
    "num_gpu_blocks": BLOCKS + 1,
    "block_size": BLOCK,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 256,
    "max_model_len": 512,
}
"""A tight cache: a tenth of the backlogs of these tests."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transformers")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    """Write a model's folder: random weights, a tokenizer."""
    model = folder / "model"
    model.mkdir()
    tiny = save_tokenizer(model)
    write_model(model, context=4096, vocabulary=len(tiny))
    return tiny


@pytest.fixture(scope="module")
def rows(tokenizer: Any) -> list[Row]:
    drawn = backlog(N, 11, len(tokenizer))
    drawn[3][2:] = [1, exactly(1)]
    return drawn


@pytest.fixture(scope="module")
def inside(folder: Path) -> Iterator[Session]:
    with session(interpreter(), folder / "inside.stderr") as driver:
        yield driver


@pytest.fixture(scope="module")
def options(folder: Path, tokenizer: Any) -> dict[str, Any]:
    model = str(folder / "model")
    return {
        "model": model,
        "tokenizer": model,
        "handover": "planned",
        "settings": SETTINGS,
        "engine_arguments": {"load_format": "dummy", "dtype": "float32"},
        "kv_tokens": BLOCKS * BLOCK,
    }


def start(inside: Session, options: dict[str, Any], folder: Path, **changed: Any) -> dict[str, Any]:
    log = str(folder / "engine.log")
    told: dict[str, Any] = inside.ask(
        "start", engine="transformers", options=options | changed, log=log
    )
    return told


def admissions(outcomes: list[dict[str, Any]]) -> list[float]:
    by_place = sorted(outcomes, key=lambda outcome: outcome["job"])
    return [outcome["times"]["admitted"] for outcome in by_place]


class TestPlanned:
    """One engine that keeps to the plan."""

    @pytest.fixture(scope="class")
    @classmethod
    def started(
        cls, inside: Session, options: dict[str, Any], folder: Path
    ) -> Iterator[dict[str, Any]]:
        yield start(inside, options, folder)
        inside.ask("close")

    def test_plan_is_kept(
        self, inside: Session, started: dict[str, Any], rows: list[Row], folder: Path
    ) -> None:
        """No preemption, admission in the plan's order, every step as vLLM's would be."""
        settings = settings_of(started)
        assert settings.policy == "planned"
        assert settings.usable_blocks == BLOCKS
        steps = folder / "planned.csv"
        answer = inside.ask("execute", jobs=rows, steps=str(steps))
        check_answers(rows, answer["outcomes"])
        admitted = admissions(answer["outcomes"])
        assert admitted == sorted(admitted)
        assert not any(outcome["times"]["preemptions"] for outcome in answer["outcomes"])
        check_steps(rows, settings, steps)
        assert 0.9 < answer["most_kv"] <= 1
        assert answer["load"][:3] == [0, 0, 0.0]
        assert answer["load"][4] == 0

        write_run(folder / "run", rows, answer, started["meta"])
        run = read_run(folder / "run")
        assert run.settings == settings
        assert run.blocks_known
        (note,) = run.notes
        assert "run by transformers" in note

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_predictions_that_fail(
        self, inside: Session, started: dict[str, Any], tokenizer: Any, seed: int
    ) -> None:
        """Outputs up to twice as long as predicted, or half: all ends, whoever is evicted."""
        rows = backlog(60, seed, len(tokenizer))
        real = [row[2] for row in rows]
        for k, row in enumerate(rows):
            row[2] = max(1, row[2] // 2 if k % 3 else row[2] * 2)
        answer = inside.ask("execute", jobs=rows)
        outcomes = sorted(answer["outcomes"], key=lambda outcome: outcome["job"])
        assert [len(outcome["token_ids"]) for outcome in outcomes] == real
        preemptions = sum(outcome["times"]["preemptions"] for outcome in outcomes)
        assert preemptions > 0
        for outcome in outcomes:
            times = outcome["times"]
            assert times["queued"] <= times["admitted"] < times["first_token"]
            assert (times["first_token"] < times["last_token"]) == (len(outcome["token_ids"]) > 1)

    def test_greedy_is_that_of_generate(
        self, inside: Session, started: dict[str, Any], tokenizer: Any
    ) -> None:
        """Beside others that are drawn, and evicted on the way."""
        rows = backlog(40, 5, len(tokenizer))
        for k, row in enumerate(rows):
            row[3] = exactly(row[2], temperature=0 if k % 4 == 0 else 1.5, top_k=50, top_p=0.9)
            row[2] = 1
        answer = inside.ask("execute", jobs=rows)
        greedy = [outcome for outcome in answer["outcomes"] if outcome["job"] % 4 == 0]
        assert len(greedy) == 10
        assert any(outcome["times"]["preemptions"] for outcome in greedy)
        for outcome in greedy:
            _, prompt, _, sampling = rows[outcome["job"]]
            most = sampling["max_tokens"]
            assert outcome["token_ids"] == inside.ask("generate", prompt=prompt, tokens=most)

    def test_top_k(self, inside: Session, started: dict[str, Any]) -> None:
        """One token to choose from is the likeliest, however hot."""
        hot = [0, [5, 6, 7], 30, exactly(30, temperature=2.0, top_k=1)]
        (outcome,) = inside.ask("execute", jobs=[hot])["outcomes"]
        assert outcome["token_ids"] == inside.ask("generate", prompt=hot[1], tokens=30)

    def test_stop_tokens_text_and_logprobs(
        self, inside: Session, started: dict[str, Any], tokenizer: Any
    ) -> None:
        prompt = [5, 6, 7]
        tokens = inside.ask("generate", prompt=prompt, tokens=30)
        end = tokens[9]
        asked = {"max_tokens": 30, "temperature": 0, "ignore_eos": True}
        jobs = [
            [0, prompt, 30, asked | {"stop_token_ids": [end]}],
            [1, prompt, 12, exactly(12, logprobs=0)],
        ]
        outcomes = inside.ask("execute", jobs=jobs)["outcomes"]
        stopped, drawn = sorted(outcomes, key=lambda outcome: outcome["job"])
        assert stopped["token_ids"] == tokens[: tokens.index(end) + 1]
        assert (stopped["finish_reason"], stopped["stop_reason"]) == ("stop", end)
        shown = stopped["token_ids"][:-1]
        assert stopped["text"] == tokenizer.decode(shown, skip_special_tokens=True)
        assert (drawn["finish_reason"], drawn["stop_reason"]) == ("length", None)
        assert [list(row) for row in drawn["logprobs"]] == [[str(t)] for t in drawn["token_ids"]]
        assert all(value < 0 for row in drawn["logprobs"] for value in row.values())

    def test_refused_before(self, inside: Session, started: dict[str, Any], tokenizer: Any) -> None:
        """By the name of what the library cannot do."""
        size = len(tokenizer)
        sampling: list[tuple[dict[str, Any], str]] = [
            ({"seed": 3}, "seed"),
            ({"stop": ["x"]}, "stop"),
            ({"min_p": 0.1}, "min_p"),
            ({"presence_penalty": 1.0}, "presence_penalty"),
            ({"repetition_penalty": 1.1}, "repetition_penalty"),
            ({"logit_bias": {"1": 1.0}}, "logit_bias"),
            ({"structured_outputs": {"regex": "a"}}, "structured_outputs"),
            ({"allowed_token_ids": [1]}, "allowed_token_ids"),
            ({"min_tokens": 2, "ignore_eos": True, "stop_token_ids": [1]}, "min_tokens"),
            ({"logprobs": 3}, "logprobs"),
            ({"logprobs": 0, "temperature": 0}, "logprobs"),
        ]
        asked: list[tuple[Row, str, str]] = [
            ([0, [1], 5, {"max_tokens": 5} | more], "unsupported_parameter", f"{name} is")
            for more, name in sampling
        ]
        asked += [
            ([0, [], 5, exactly(5)], "invalid_prompt", "no tokens"),
            ([0, [size], 5, exactly(5)], "invalid_prompt", f"token id {size} "),
            ([0, [1] * 300, 5, {"max_tokens": 213}], "context_length_exceeded", "512"),
        ]
        told = inside.ask("refuses", jobs=[row for row, _, _ in asked])
        for (row, code, words), refusal in zip(asked, told, strict=True):
            assert refusal is not None, row
            assert refusal[0] == code
            assert words in refusal[1]
            assert "\n" not in refusal[1]
        nothing = {"min_p": 0.0, "stop": [], "presence_penalty": 0.0, "repetition_penalty": 1.0}
        good = [
            [0, [size - 1], 5, exactly(5, **nothing)],
            [0, [1], 5, {"max_tokens": 5, "seed": 3, "temperature": 0}],
            [0, [1] * 300, 5, {"max_tokens": 212, "logprobs": 0}],
        ]
        assert inside.ask("refuses", jobs=good) == [None] * 3

    def test_closing_gives_up_the_rest(
        self, inside: Session, started: dict[str, Any], rows: list[Row], folder: Path
    ) -> None:
        """And what comes next finds an engine with nothing in it."""
        answer = inside.ask("execute", jobs=rows, stop_after=20)
        assert 20 <= len(answer["outcomes"]) < N
        assert answer["load"][:3] == [0, 0, 0.0]
        steps = folder / "whole.csv"
        again = inside.ask("execute", jobs=rows[:60], steps=str(steps))
        check_answers(rows[:60], again["outcomes"])
        check_steps(rows[:60], settings_of(started), steps)


@pytest.mark.parametrize("handover", ["chunks", "order"])
def test_handed_to_its_own(
    inside: Session, options: dict[str, Any], rows: list[Row], folder: Path, handover: str
) -> None:
    """Chunks keep the order and are never evicted; its own scheduler does neither."""
    started = start(inside, options, folder, handover=handover)
    settings = settings_of(started)
    steps = folder / f"{handover}.csv"
    answer = inside.ask("execute", jobs=rows, steps=str(steps))
    inside.ask("close")
    check_answers(rows, answer["outcomes"])
    assert settings.policy == "fcfs"
    preemptions = sum(outcome["times"]["preemptions"] for outcome in answer["outcomes"])
    assert answer["load"][4] == preemptions
    assert len(read_step_log(steps).seconds) == answer["load"][3]
    admitted = admissions(answer["outcomes"])
    assert (admitted == sorted(admitted)) == (handover == "chunks")
    assert (preemptions == 0) == (handover == "chunks")


def test_it_does_not_start(inside: Session, options: dict[str, Any], folder: Path) -> None:
    """One line that says why."""
    config = json.loads((folder / "model" / "config.json").read_text())
    models = {
        "unknown": {"model_type": "nonsense"},
        "windows": config | {"model_type": "mistral", "sliding_window": 64},
    }
    for name, text in models.items():
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(text))
    bad: list[tuple[dict[str, Any], str, str]] = [
        ({"handover": "priority"}, "OptionError", "no priorities"),
        ({"settings": {"async_scheduling": True}}, "OptionError", "async_scheduling"),
        ({"settings": {"watermark": 0.5}}, "OptionError", "watermark"),
        ({"settings": {"block_size": 2}}, "OptionError", "blocks of 2"),
        ({"engine_arguments": {"tensor_parallel_size": 2}}, "OptionError", "tensor-parallel-size"),
        ({"engine_arguments": {"load_format": "gguf"}}, "OptionError", "load-format"),
        ({"engine_arguments": {"dtype": "float7"}}, "OptionError", "float7"),
        ({"model": str(folder / "nowhere")}, "OptionError", "no config.json"),
        ({"model": str(folder / "unknown")}, "OptionError", "nonsense"),
        ({"model": str(folder / "model"), "engine_arguments": {}}, "OptionError", "loaded"),
        ({"model": str(folder / "windows")}, "EngineError", "sliding_attention"),
        ({"settings": {"num_gpu_blocks": 10**9}}, "EngineError", "memory"),
    ]
    for changed, kind, words in bad:
        answer = start(inside, options, folder, **changed)
        assert answer.get("error") == kind, (changed, answer)
        assert words in answer["message"]
        assert "\n" not in answer["message"]
        assert "Traceback" not in answer["message"]


def test_the_command(folder: Path, tokenizer: Any, tmp_path: Path) -> None:
    """A batch and its plan, executed, then held against the prediction."""
    lines = [
        {
            "custom_id": f"r{k}",
            "method": "POST",
            "url": "/v1/completions",
            "body": {"model": "model", "prompt": [5] * (10 + 7 * k), "max_tokens": 5 + k},
        }
        for k in range(12)
    ]
    lines[4]["body"]["seed"] = 1  # type: ignore[index]
    (tmp_path / "batch.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [interpreter(), "-c", "from sortedf.cli.main import run; run()", *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    planned = "solve batch.jsonl --kv-tokens 400 --block-size 16 --no-bound -o plan.json"
    assert run(*planned.split()).returncode == 0
    model = ("--engine", "transformers", "--model", str(folder / "model"), "--load-format", "dummy")
    done = run("run", "plan.json", "batch.jsonl", *model, "-o", "run", "--json")
    assert done.returncode == 7, done.stderr
    assert "seed is 1" in done.stderr
    told = json.loads(done.stdout)
    assert (told["answered"], told["failed"], told["not_run"]) == (11, 1, 0)
    assert told["realized"]["preemptions"] == 0
    answers = [
        json.loads(line) for line in (tmp_path / "run/output.jsonl").read_bytes().splitlines()
    ]
    assert sorted(answer["custom_id"] for answer in answers) == sorted(f"r{k}" for k in range(12))
    for answer in answers:
        if answer["custom_id"] == "r4":
            assert answer["error"]["code"] == "unsupported_parameter"
        else:
            count = answer["response"]["body"]["usage"]["completion_tokens"]
            assert 1 <= count <= 5 + int(answer["custom_id"][1:])
    fitted = run("calibrate", "run/attempts/1", "-o", "steptime.json")
    checked = run("validate", "run/attempts/1", "--steptime", "steptime.json")
    assert fitted.returncode == checked.returncode == 0, fitted.stderr + checked.stderr
    assert "run by transformers" in checked.stderr + checked.stdout
