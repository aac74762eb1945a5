"""Offline vLLM behind the runner's interface: the real engine, in its own environment."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_checks import check_answers, check_steps, settings_of, write_run
from real_engine import interpreter
from tiny_model import write_model
from tiny_tokenizer import save_tokenizer
from vllm_session import ENGINE, Row, Session, backlog, exactly, session

from sortedf.engine import read_run, read_step_log

pytestmark = pytest.mark.vllm

N = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    """Write a model's folder: random weights, a tokenizer."""
    model = folder / "model"
    model.mkdir()
    tiny = save_tokenizer(model)
    write_model(model, context=4096, vocabulary=len(tiny))
    return tiny


@pytest.fixture(scope="module")
def options(folder: Path, tokenizer: Any) -> dict[str, Any]:
    return ENGINE | {"model": str(folder / "model"), "own_process": False}


@pytest.fixture(scope="module")
def rows(tokenizer: Any) -> list[Row]:
    drawn = backlog(N, 7, len(tokenizer))
    drawn[3][2:] = [1, exactly(1)]
    return drawn


@pytest.fixture(scope="module")
def inside(folder: Path) -> Iterator[Session]:
    """Drive engines in the driver's process, one after another."""
    with session(interpreter(), folder / "inside.stderr") as driver:
        yield driver


class TestPlanned:
    """One engine in process, with a tokenizer, that keeps to the plan."""

    @pytest.fixture(scope="class")
    @classmethod
    def started(
        cls, inside: Session, options: dict[str, Any], folder: Path
    ) -> Iterator[dict[str, Any]]:
        answer = inside.ask("start", options=options, log=str(folder / "planned.log"))
        yield answer
        assert inside.ask("close") == []

    def test_plan_is_kept(
        self, inside: Session, started: dict[str, Any], rows: list[Row], folder: Path
    ) -> None:
        """No preemption, admission in the plan's order, every step as replayed."""
        settings = settings_of(started)
        assert settings.policy == "planned"
        assert settings.num_gpu_blocks == ENGINE["num_gpu_blocks_override"]
        steps = folder / "planned.csv"
        answer = inside.ask("execute", jobs=rows, steps=str(steps))
        check_answers(rows, answer["outcomes"])
        by_place = sorted(answer["outcomes"], key=lambda outcome: outcome["job"])
        admitted = [outcome["times"]["admitted"] for outcome in by_place]
        assert admitted == sorted(admitted)
        assert not any(outcome["times"]["preemptions"] for outcome in by_place)
        check_steps(rows, settings, steps)
        assert 0.9 < answer["most_kv"] <= 1
        assert answer["load"][:3] == [0, 0, 0.0]
        assert answer["load"][4] == 0

        write_run(folder / "run", rows, answer, started["meta"])
        run = read_run(folder / "run")
        assert run.settings == settings
        assert run.notes == ()
        assert run.blocks_known

    def test_text_and_logprobs(self, inside: Session, tokenizer: Any) -> None:
        asked = [
            [0, [1, 2, 3], 12, exactly(12, seed=5, logprobs=2)],
            [1, [4, 5], 200, {"max_tokens": 200, "seed": 3, "stop": list("aeiou")}],
        ]
        outcomes = inside.ask("execute", jobs=asked)["outcomes"]
        one, stopped = sorted(outcomes, key=lambda outcome: outcome["job"])
        assert one["text"] == tokenizer.decode(one["token_ids"], skip_special_tokens=True)
        tokens, rows = one["token_ids"], one["logprobs"]
        assert all(str(token) in row for token, row in zip(tokens, rows, strict=True))
        assert all(2 <= len(row) <= 3 for row in rows)
        assert stopped["finish_reason"] == "stop"
        assert stopped["stop_reason"] in list("aeiou")
        assert not set("aeiou") & set(stopped["text"])
        assert stopped["logprobs"] is None

    def test_structured_outputs(self, inside: Session, started: dict[str, Any]) -> None:
        """A grammar is kept to; one that cannot be read is refused."""
        grammars = ({"choice": ["yes", "no"]}, {"regex": "("})
        jobs = [
            [k, [6], 20, {"max_tokens": 20, "structured_outputs": grammar}]
            for k, grammar in enumerate(grammars)
        ]
        good, bad = inside.ask("refuses", jobs=jobs)
        if good is not None and "No module named" in good[1]:
            pytest.skip(f"an older make vllm, without what vLLM needs for grammars: {good[1]}")
        assert good is None
        assert bad[0] == "invalid_request"
        assert "regex" in bad[1].lower()
        refused, answer = inside.ask("execute", jobs=jobs)["outcomes"]
        assert refused["job"] == 1
        assert answer["text"].replace(" ", "") in ("yes", "no")  # the tokenizer joins by spaces

    def test_refused_before(self, inside: Session, tokenizer: Any) -> None:
        size = len(tokenizer)
        asked: list[tuple[Row, str, str]] = [
            ([0, [], 5, exactly(5)], "invalid_prompt", "no tokens"),
            ([1, [1, size], 5, exactly(5)], "invalid_prompt", f"token id {size} "),
            ([2, [1, -1], 5, exactly(5)], "invalid_prompt", "token id -1 "),
            ([3, [1] * 300, 5, {"max_tokens": 213}], "context_length_exceeded", "512"),
            ([4, [1], 5, exactly(5, temperature=-1)], "invalid_request", "temperature"),
            ([5, [1], 5, exactly(5, nonsense=1)], "invalid_request", "nonsense"),
            ([6, [1], 5, exactly(5, logit_bias={size: 1.0})], "invalid_request", str(size)),
        ]
        told = inside.ask("refuses", jobs=[row for row, _, _ in asked])
        for (row, code, words), refusal in zip(asked, told, strict=True):
            assert refusal is not None, row
            assert refusal[0] == code
            assert words in refusal[1]
            assert "\n" not in refusal[1]
        good = [[0, [1] * 300, 5, {"max_tokens": 212}], [1, [size - 1], 5, exactly(5)]]
        assert inside.ask("refuses", jobs=good) == [None, None]

    def test_what_vllm_refuses_is_one_outcome(self, inside: Session, rows: list[Row]) -> None:
        """The rest goes on."""
        asked = [*rows[:3], [3, [1], 5, exactly(5, temperature=-1)], *rows[4:8]]
        outcomes = inside.ask("execute", jobs=asked)["outcomes"]
        assert outcomes[0]["job"] == 3
        assert outcomes[0]["code"] == "invalid_request"
        assert sorted(outcome["job"] for outcome in outcomes) == list(range(8))
        assert all("code" not in outcome for outcome in outcomes[1:])

    def test_closing_aborts_the_rest(
        self, inside: Session, started: dict[str, Any], rows: list[Row], folder: Path
    ) -> None:
        """And what comes next finds an engine with nothing in it."""
        answer = inside.ask("execute", jobs=rows, steps=str(folder / "cut.csv"), stop_after=20)
        assert 20 <= len(answer["outcomes"]) < N
        assert answer["load"][:3] == [0, 0, 0.0]
        steps = folder / "whole.csv"
        again = inside.ask("execute", jobs=rows[:60], steps=str(steps))
        check_answers(rows[:60], again["outcomes"])
        check_steps(rows[:60], settings_of(started), steps)


@pytest.mark.parametrize("handover", ["order", "priority", "chunks"])
def test_handed_to_vllms_own(
    inside: Session,
    options: dict[str, Any],
    rows: list[Row],
    folder: Path,
    handover: str,
) -> None:
    """Vllm's own policies do as the replay says, and preempt; chunks do not."""
    started = inside.ask(
        "start",
        options=options | {"handover": handover, "skip_tokenizer_init": True},
        log=str(folder / f"{handover}.log"),
    )
    settings = settings_of(started)
    steps = folder / f"{handover}.csv"
    answer = inside.ask("execute", jobs=rows, steps=str(steps))
    assert inside.ask("close") == []
    check_answers(rows, answer["outcomes"])
    assert settings.policy == ("priority" if handover == "priority" else "fcfs")
    preemptions = sum(outcome["times"]["preemptions"] for outcome in answer["outcomes"])
    assert answer["load"][4] == preemptions
    if handover == "chunks":
        assert preemptions == 0
        assert len(read_step_log(steps).seconds) <= answer["load"][3]
    else:
        replayed = check_steps(rows, settings, steps)
        assert preemptions == replayed.preemptions.sum() > 0


def test_it_does_not_start(inside: Session, options: dict[str, Any], folder: Path) -> None:
    """One line that says why."""
    log = str(folder / "not.log")
    refused = inside.ask("start", options=options | {"further": {"nonsense": 1}}, log=log)
    assert refused["error"] == "OptionError"
    assert "nonsense" in refused["message"]
    small = inside.ask("start", options=options | {"num_gpu_blocks_override": 8}, log=log)
    assert small["error"] == "EngineError"
    assert "KV cache" in small["message"]
    (folder / "empty").mkdir()
    (folder / "empty" / "config.json").write_text('{"model_type": "nonsense"}')
    other = inside.ask("start", options=options | {"model": str(folder / "empty")}, log=log)
    assert other["error"] == "OptionError"
    for answer in (refused, small, other):
        assert "\n" not in answer["message"]
        assert "Traceback" not in answer["message"]


class TestOwnProcess:
    def test_killed_engine(self, options: dict[str, Any], rows: list[Row], folder: Path) -> None:
        """Ctrl-C does not reach it; its death is an error, what was yielded stays."""
        with session(interpreter(), folder / "own.stderr") as own:
            started = own.ask(
                "start", options=options | {"own_process": True}, log=str(folder / "own.log")
            )
            settings = settings_of(started)
            assert started["processes"]
            own.ask("signal", number=signal.SIGINT)
            steps = folder / "own.csv"
            part = own.ask("execute", jobs=rows, stop_after=20)
            assert "error" not in part, part
            assert 20 <= len(part["outcomes"]) < N
            answer = own.ask("execute", jobs=rows[:60], steps=str(steps))
            check_answers(rows[:60], answer["outcomes"])
            check_steps(rows[:60], settings, steps)
            dead = own.ask("execute", jobs=rows, kill_after=10)
            assert dead["error"] == "EngineError"
            assert "code -9" in dead["message"]
            assert 10 <= len(dead["outcomes"]) < N
            assert own.ask("execute", jobs=rows[:1])["error"] == "EngineError"

    def test_killed_runner(self, options: dict[str, Any], rows: list[Row], folder: Path) -> None:
        """It leaves no engine behind that holds the device."""
        with session(interpreter(), folder / "left.stderr") as own:
            started = own.ask(
                "start", options=options | {"own_process": True}, log=str(folder / "left.log")
            )
            processes = [Path("/proc", str(number)) for number in started["processes"]]
            assert all(process.exists() for process in processes)
            own.process.kill()
            own.process.wait()
            patience = time.monotonic() + 30
            while any(process.exists() for process in processes):
                assert time.monotonic() < patience
                time.sleep(0.05)
