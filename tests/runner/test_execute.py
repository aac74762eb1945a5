"""The loop of a run: every line is answered or fails once, whatever the engine does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from batch_files import chat, completion
from run_inputs import FakeEngine, output_of, work_of

from sortedf.engine import read_run
from sortedf.runner.engines import Job
from sortedf.runner.execute import Executed, execute, refused_lines, write_errors
from sortedf.runner.folder import RunFolder
from sortedf.runner.jobs import Work

ENTRIES = [
    completion("a", max_tokens=3),
    completion("b", [[1], [2, 3]], n=3, max_tokens=2),
    chat("c", max_tokens=4),
    completion("d", max_tokens=1),
    completion("bad", temperature=9),
    b"{",
]


def run(
    engine: FakeEngine,
    folder: Path,
    entries: Sequence[Any] = ENTRIES,
    stop_after: int | None = None,
    resume: bool = False,
    **resuming: Any,
) -> tuple[Executed, RunFolder, Work]:
    """Execute a batch in a run folder, as the command does."""
    work, _ = work_of(entries, folder)
    manifest = {"schema": "sortedf.run/1"}
    if resume:
        made = RunFolder.resume(folder / "run", manifest, inputs=work.inputs, **resuming)
    else:
        made = RunFolder.create(
            folder / "run", manifest, plan=b"{}", plan_name="plan.json", inputs=work.inputs
        )
    with made:
        write_errors(made, work.errors)
        jobs = work.jobs(made.status, None)
        errors = refused_lines(engine, work.lines, jobs)
        write_errors(made, errors)
        work = work.without(errors)
        done = execute(
            engine,
            work,
            work.jobs(made.status, None),
            made,
            model="m",
            meta={},
            progress=lambda **said: None,
            stop=lambda: stop_after is not None and len(engine.executed) >= stop_after,
        )
        made.finish()
    return done, made, work


def kinds(folder: Path) -> dict[Any, Any]:
    """Tell what became of each line: its status code, or the code of its error."""
    told: dict[Any, Any] = {}
    for line in output_of(folder / "run"):
        assert line["custom_id"] not in told
        error, response = line["error"], line["response"]
        told[line["custom_id"]] = error["code"] if error else response["status_code"]
    return told


def test_every_line_ends_once(tmp_path: Path) -> None:
    done, folder, _ = run(FakeEngine(), tmp_path)
    assert kinds(tmp_path) == {
        "a": 200,
        "b": 200,
        "c": 200,
        "d": 200,
        "bad": "invalid_request",
        None: "invalid_json_line",
    }
    assert tuple(folder.finish()) == (4, 2, 0)
    assert not done.interrupted
    assert done.died is None


def test_an_answer_looks_like_a_servers(tmp_path: Path) -> None:
    """Case 35: one line with all choices in order; a prompt is counted once, all answers are."""
    run(FakeEngine(), tmp_path)
    lines = {line["custom_id"]: line for line in output_of(tmp_path / "run")}
    body = lines["b"]["response"]["body"]
    assert body["object"] == "text_completion"
    assert body["model"] == "m"
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3, 4, 5]
    assert [choice["text"] for choice in body["choices"]] == [f"text of b#{k}" for k in range(6)]
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 12, "total_tokens": 15}
    [choice] = lines["c"]["response"]["body"]["choices"]
    assert choice["message"] == {"role": "assistant", "content": "text of c"}
    assert choice["finish_reason"] == "length"
    assert choice["logprobs"] is None
    assert lines["c"]["response"]["body"]["object"] == "chat.completion"
    assert lines["c"]["error"] is None
    assert len({line["id"] for line in lines.values()}) == len(lines)
    broken = lines[None]
    assert broken["error"]["line"] == 6
    assert broken["error"]["message"].startswith("line 6: ")


def test_one_choice_that_fails_fails_the_line(tmp_path: Path) -> None:
    run(FakeEngine(fail=["b#4", "d"]), tmp_path)
    assert kinds(tmp_path)["b"] == "broke"
    lines = {line["custom_id"]: line for line in output_of(tmp_path / "run")}
    assert lines["b"]["error"]["message"] == "b#4: it broke"
    assert lines["b"]["response"] is None
    assert lines["d"]["error"]["message"] == "it broke"
    assert lines["a"]["response"]["status_code"] == 200


def test_what_the_engine_refuses_is_not_begun(tmp_path: Path) -> None:
    engine = FakeEngine(refuse=["b#1", "b#2"])
    run(engine, tmp_path)
    lines = {line["custom_id"]: line for line in output_of(tmp_path / "run")}
    assert lines["b"]["error"]["code"] == "too_odd"
    assert lines["b"]["response"]["status_code"] == 400
    assert {job.name for job in engine.executed} == {"a", "c", "d"}


def test_an_engine_that_dies_leaves_what_was_done(tmp_path: Path) -> None:
    engine = FakeEngine(die_after=3)
    done, folder, _ = run(engine, tmp_path)
    assert str(done.died) == "out of luck"
    counts = folder.finish()
    assert sum(counts) == 6
    assert counts.not_run > 0
    done, folder, _ = run(FakeEngine(), tmp_path, resume=True)
    assert tuple(folder.finish()) == (4, 2, 0)
    assert kinds(tmp_path)["b"] == 200


def test_a_run_that_is_stopped_gives_up_what_runs(tmp_path: Path) -> None:
    engine = FakeEngine()
    done, folder, _ = run(engine, tmp_path, stop_after=2)
    assert done.interrupted
    assert engine.given_up
    assert len(engine.executed) == 2
    counts = folder.finish()
    assert sum(counts) == 6
    before = kinds(tmp_path)
    again = FakeEngine()
    run(again, tmp_path, resume=True)
    assert kinds(tmp_path).keys() == {"a", "b", "c", "d", "bad", None}
    assert not {job.name for job in again.executed} & before.keys()


def test_refused_lines_are_run_again_when_asked(tmp_path: Path) -> None:
    run(FakeEngine(refuse=["d"]), tmp_path)
    again = FakeEngine()
    run(again, tmp_path, resume=True)
    assert again.executed == []
    run(again, tmp_path, resume=True, retry_failed=True)
    assert [job.name for job in again.executed] == ["d"]


def test_records_are_a_run_folder(tmp_path: Path) -> None:
    done, folder, work = run(FakeEngine(), tmp_path)
    found = read_run(folder.attempt)
    assert sorted(found.instance.ids) == sorted(job.name for job in work.jobs({}, None))
    by_id = dict(zip(found.instance.ids, found.latency.tolist(), strict=True))
    assert by_id["c"] == 4.0
    meta = json.loads((folder.attempt / "meta.json").read_text())
    assert meta["num_requests"] == 9
    figures = done.figures()
    assert figures["mean_latency_seconds"] == pytest.approx(sum(by_id.values()) / 9)
    assert figures["p99_latency_seconds"] == 4.0
    assert figures["makespan_seconds"] == found.makespan


def test_log_probabilities_and_token_ids(tmp_path: Path) -> None:
    entries = [
        chat("chat", max_tokens=2, logprobs=True, top_logprobs=1, return_token_ids=True),
        completion("text", max_tokens=2, logprobs=1, return_tokens_as_token_ids=True),
        chat("none", max_tokens=2),
    ]

    def answer(job: Job) -> dict[str, Any]:
        steps = [
            {
                7: SimpleNamespace(logprob=-0.5, decoded_token="é"),
                9: SimpleNamespace(logprob=float("-inf"), decoded_token=None),
            }
        ]
        return {"logprobs": steps * 2, "stop_reason": 5, "finish_reason": "stop"}

    run(FakeEngine(answer=answer), tmp_path, entries)
    lines = {line["custom_id"]: line for line in output_of(tmp_path / "run")}
    body = lines["chat"]["response"]["body"]
    assert body["prompt_token_ids"] == [0, 1, 2]
    [choice] = body["choices"]
    told = {"token": "é", "logprob": -0.5, "bytes": [195, 169]}
    assert choice["logprobs"] == {"content": [told | {"top_logprobs": [told]}] * 2}
    assert (choice["token_ids"], choice["stop_reason"]) == ([7, 7], 5)
    [choice] = lines["text"]["response"]["body"]["choices"]
    assert choice["logprobs"] == {
        "tokens": ["token_id:7"] * 2,
        "token_logprobs": [-0.5] * 2,
        "top_logprobs": [{"token_id:7": -0.5, "token_id:9": -9999.0}] * 2,
        "text_offset": [0, 10],
    }
    assert lines["none"]["response"]["body"]["choices"][0]["logprobs"] is None


def test_a_line_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    """What is done in the engine is given up, and the records say what was answered."""
    engine = FakeEngine()
    work, _ = work_of(ENTRIES[:4], tmp_path)
    folder = RunFolder.create(
        tmp_path / "run", {}, plan=b"{}", plan_name="plan.json", inputs=work.inputs
    )

    class Full(Exception):  # noqa: N818
        pass

    def append(line: Any) -> None:
        raise Full

    folder.append = append  # type: ignore[method-assign]
    with folder, pytest.raises(Full):
        execute(
            engine,
            work,
            work.jobs({}, None),
            folder,
            model="m",
            meta={},
            progress=lambda **said: None,
            stop=lambda: False,
        )
    assert engine.given_up
    assert len(engine.executed) == 1
    assert len(read_run(folder.attempt).instance) == 1
