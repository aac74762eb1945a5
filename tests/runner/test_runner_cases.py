"""The batch files that broke other tools, run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from run_inputs import FakeEngine, output_of, plan_of, rows_of

from sortedf.instances.source import open_source
from sortedf.runner.execute import execute, refused_lines, write_errors
from sortedf.runner.folder import RunFolder
from sortedf.runner.jobs import too_long
from sortedf.runner.read_work import Reading, read_work


def run(file: Path, folder: Path, context: int | None = None) -> dict[Any, Any]:
    """Run a batch; the lines of output by custom_id, those of no request by the line."""
    source = open_source(file)
    folder.mkdir(exist_ok=True)
    plan = plan_of(rows_of(source), folder, kv_tokens=10**6)
    work = read_work(plan, source, Reading(may_estimate=True), lambda note: None)
    work = work.without(too_long(work.lines, context))
    made = RunFolder.create(
        folder / "run", {}, plan=b"{}", plan_name="plan.json", inputs=work.inputs
    )
    with made:
        write_errors(made, work.errors)
        engine = FakeEngine()
        jobs = work.jobs(made.status, context)
        assert refused_lines(engine, work.lines, jobs) == []
        execute(
            engine,
            work,
            jobs,
            made,
            model="m",
            meta={},
            progress=lambda **said: None,
            stop=lambda: False,
        )
    lines = output_of(folder / "run")
    found = {
        line["error"]["line"] if line["custom_id"] is None else line["custom_id"]: line
        for line in lines
    }
    assert len(found) == len(lines) == len(list(source.lines()))
    return found


def failed(found: dict[Any, Any]) -> set[Any]:
    return {name for name, line in found.items() if line["error"] is not None}


def choices(line: dict[str, Any]) -> list[int]:
    return [choice["index"] for choice in line["response"]["body"]["choices"]]


def test_kinds_of_ids_run(cases: Path, tmp_path: Path) -> None:
    """Case 25: ids come back exactly; what is none is an error of its line."""
    folder = cases / "25-custom-id-types"
    assert failed(run(folder / "bad_types.jsonl", tmp_path / "a")) == {2, 3, 4, 5}
    assert failed(run(folder / "lone_surrogate.jsonl", tmp_path / "b")) == {2, 3}
    found = run(folder / "odd_strings.jsonl", tmp_path / "c")
    assert failed(found) == set()
    odd = (folder / "odd_strings.jsonl").read_bytes()
    asked = [json.loads(line)["custom_id"] for line in odd.splitlines()]
    assert set(found) == set(asked)


def test_endpoints_run(cases: Path, tmp_path: Path) -> None:
    """Cases 27 and 29: other endpoints end as an error each, the rest runs."""
    assert failed(run(cases / "27-urls" / "batch.jsonl", tmp_path / "a")) == {"a-5", "a-6"}
    found = run(cases / "29-embeddings-mixed" / "batch.jsonl", tmp_path / "b")
    assert failed(found) == {"emb-1", "emb-3", "score-1"}


def test_one_bad_request_runs(cases: Path, tmp_path: Path) -> None:
    """Case 31: too long, and out of range: one error line each."""
    found = run(cases / "31-one-bad-request" / "batch.jsonl", tmp_path, context=64)
    codes = {name: found[name]["error"]["code"] for name in failed(found)}
    assert codes == {"a-3": "context_length_exceeded", "a-5": "invalid_request"}
    assert found["a-3"]["error"]["line"] == 3
    assert "temperature" in found["a-5"]["error"]["message"]


def test_the_newer_output_limit_runs(cases: Path, tmp_path: Path) -> None:
    """Case 33: it bounds the output; null is as absent."""
    found = run(cases / "33-max-completion-tokens" / "batch.jsonl", tmp_path)
    usage = {
        name: line["response"]["body"]["usage"]["completion_tokens"] for name, line in found.items()
    }
    assert (usage["a-1"], usage["a-2"], usage["a-3"]) == (50, 50, 100)


def test_several_answers_run(cases: Path, tmp_path: Path) -> None:
    """Case 35: one line holds all choices, and the sum of their tokens."""
    found = run(cases / "35-n-and-best-of" / "batch.jsonl", tmp_path)
    assert failed(found) == {"a-2", "a-4", "a-5", "a-7"}
    assert choices(found["a-1"]) == choices(found["a-3"]) == [0, 1, 2, 3]
    assert choices(found["a-6"]) == [0]
    assert found["a-1"]["response"]["body"]["usage"]["completion_tokens"] == 200


def test_empty_prompts_run(cases: Path, tmp_path: Path) -> None:
    """Case 37: empty user text and an assistant's null content are prompts, the rest is not."""
    found = run(cases / "37-empty-messages" / "batch.jsonl", tmp_path)
    assert set(found) - failed(found) == {"a-1", "a-5", "a-7"}


def test_each_line_keeps_its_parameters_to_the_engine(cases: Path, tmp_path: Path) -> None:
    """Case 41: limits and sampling are those of the line."""
    found = run(cases / "41-per-request-params" / "batch.jsonl", tmp_path)
    tokens = [
        found[name]["response"]["body"]["usage"]["completion_tokens"]
        for name in ("a-1", "a-2", "a-3")
    ]
    assert tokens == [3, 9, 6]
