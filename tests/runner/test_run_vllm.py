"""`sortedf run` on the real engine, through the command line."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from batch_files import completion
from run_commands import ended, lines_in, mixed_batch, planned, wait_until, write_batch
from run_on_vllm import (
    BLOCK,
    descendants,
    engine_options,
    kill,
    make_model,
    requests_of,
    start_on_vllm,
    wait_for_end,
)
from run_outputs import names_in, read_strictly

pytestmark = pytest.mark.vllm

KV_TOKENS = 50 * BLOCK


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("made") / "model")


def test_kills(model: Path, tmp_path: Path) -> None:
    """While the engine answers, and while it starts: no process is left, and resume ends all.

    The memory is just what the plan is for, and nothing is preempted.
    """
    batch = mixed_batch(tmp_path / "batch.jsonl", 300, seed=5)
    plan = planned(batch, tmp_path / "plan.json", KV_TOKENS, "--block-size", BLOCK)
    folder = tmp_path / "run"
    process = start_on_vllm(plan, batch, "-o", folder, *engine_options(model, 50))
    assert wait_until(lambda: len(lines_in(folder)) > 20, process), process.communicate()
    engine = kill(process)
    assert len(engine) >= 1
    assert wait_for_end(engine) == set()
    kept = lines_in(folder)
    assert 20 < len(kept) < 300

    process = start_on_vllm("--resume", folder)
    assert wait_until(lambda: len(descendants(process.pid)) > 0, process), process.communicate()
    assert wait_for_end(kill(process)) == set()
    assert lines_in(folder) == kept

    code, out, err = ended(start_on_vllm("--resume", folder, "--json"))
    assert code == 0, err
    told = json.loads(out)
    assert (told["answered"], told["failed"], told["not_run"]) == (300, 0, 0)
    assert told["realized"]["preemptions"] == 0
    assert lines_in(folder)[: len(kept)] == kept
    assert Counter(names_in(folder / "output.jsonl")) == {f"r{k}": 1 for k in range(300)}
    assert len(requests_of(folder / "attempts" / "3")) == 300 - len(kept)


def cases_in_one(cases: Path, path: Path) -> Path:
    """Put the batches of several cases into one, their names before the ids, and broken lines."""
    entries: list[Any] = []
    for name in ("31-one-bad-request", "35-n-and-best-of", "39-special-token-text"):
        entries += _entries(cases, name)
    entries += _entries(cases, "41-per-request-params")
    entries.append("{")
    entries.append(completion("x", model="other"))
    entries.append(completion("y", [400], model="m"))
    return write_batch(path, entries)


def _entries(cases: Path, name: str) -> list[dict[str, Any]]:
    entries = []
    for line in (cases / name / "batch.jsonl").read_text().splitlines():
        entry = json.loads(line)
        entries.append(entry | {"custom_id": f"{name[:2]}/{entry['custom_id']}"})
    return entries


def test_cases(model: Path, shared: Path, tmp_path: Path) -> None:
    """Cases 31, 35, 39 and 41, a broken line, an unknown model and an impossible token: at once."""
    batch = cases_in_one(shared / "cases", tmp_path / "batch.jsonl")
    plan = planned(
        batch, tmp_path / "plan.json", 10_000, "--tokenizer", model, "--skip-bad-lines",
        "--block-size", BLOCK,
    )  # fmt: skip
    folder = tmp_path / "run"
    options = ("--served-model-name", "m", "--max-model-len", 256)
    process = start_on_vllm(plan, batch, "-o", folder, *options, *engine_options(model, 320))
    code, _, err = ended(process)
    assert code == 7, err
    lines = {line["custom_id"]: line for line in read_strictly(folder / "output.jsonl")}
    bodies = {
        name: line["response"]["body"] for name, line in lines.items() if line["error"] is None
    }
    failed = {name: line["error"]["code"] for name, line in lines.items() if line["error"]}
    assert failed.pop(None) == "invalid_json_line"
    assert failed == {
        "31/a-3": "context_length_exceeded",
        "31/a-5": "invalid_request",
        **{f"35/a-{k}": "invalid_request" for k in (2, 4, 5, 7)},
        "x": "model_not_found",
        "y": "invalid_prompt",
    }
    assert len(lines) == 5 + 7 + 4 + 3 + 3

    choices = {name: [c["index"] for c in body["choices"]] for name, body in bodies.items()}
    assert choices["35/a-1"] == choices["35/a-3"] == [0, 1, 2, 3]
    # By the generation config at temperature 0, where all answers are the same.
    assert len({choice["text"] for choice in bodies["35/a-1"]["choices"]}) == 1
    records = {record["request_id"]: record for record in requests_of(folder / "attempts" / "1")}
    produced = [records[f"35/a-1#{k}"]["output_toks"] for k in range(4)]
    assert bodies["35/a-1"]["usage"]["completion_tokens"] == sum(produced)
    told = [bodies[f"41/a-{k}"]["usage"]["completion_tokens"] for k in (1, 2, 3)]
    assert told == [3, 9, 6]
    tokens = {row["id"]: row["prompt_tokens"] for row in json.loads(plan.read_text())["requests"]}
    for k in range(1, 5):
        name = f"39/a-{k}"
        assert bodies[name]["usage"]["prompt_tokens"] == tokens[name]
        assert records[name]["input_toks"] == tokens[name]
    assert all(record["preemptions"] == 0 for record in records.values())
