"""The record of an engine's steps: what is in it, when it is written, what it does not disturb."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortedf.engine import step_log
from sortedf.engine.step_log import read_step_log
from sortedf.errors import InputError
from sortedf.runner.step_recorder import COLUMNS, FLUSH_EVERY, StepRecorder

STATE: dict[str, Any] = {"running": 3, "waiting": 7, "kv_use": 0.25, "preempted": 0}


def never(line: str) -> None:
    """Nothing is complained of."""
    raise AssertionError(line)


def rows(path: Path) -> list[dict[str, float]]:
    """Lines of the file by the names of its header."""
    header, *lines = path.read_text().splitlines()
    assert header == ",".join(COLUMNS)
    return [dict(zip(COLUMNS, map(float, line.split(",")), strict=True)) for line in lines]


def test_columns_are_those_of_a_step_log() -> None:
    assert COLUMNS[: len(step_log.COLUMNS) + 1] == ("seconds", *step_log.COLUMNS)


def test_what_a_step_is_made_of(tmp_path: Path) -> None:
    """Chunks and decodes, by hand; read back as a step log."""
    path = tmp_path / "steps.csv"
    recorder = StepRecorder(never)
    recorder.record(str(path))
    recorder.scheduled(1.0, [4, 1, 3], [0, 10, 5], **STATE)
    recorder.ended(1.5, ran=True, idle=False)
    recorder.scheduled(1.6, [1, 1], [10, 20], **STATE)
    recorder.ended(2.0, ran=True, idle=True)
    first, second = rows(path)
    assert first["prefill_tokens"] == 7
    assert first["decode_tokens"] == 1
    assert first["context"] == 10
    assert first["prefill_work"] == (1 + 2 + 3 + 4) + (6 + 7 + 8)
    assert first["chunk_squared"] == 16 + 9
    assert first["context_squared"] == 100
    assert (first["begin"], first["seconds"]) == (1.0, 0.5)
    assert (second["decode_tokens"], second["context"]) == (2, 30)
    assert second["context_squared"] == 500
    assert {name: second[name] for name in STATE} == STATE
    log = read_step_log(path)
    assert log.seconds.tolist() == [0.5, 0.5]
    assert log.work[0].tolist() == [1, 7, 1, 10, 31, 25, 100]
    recorder.close()


def test_steps_have_no_gaps_while_there_is_work(tmp_path: Path) -> None:
    """A step begins with the end of the one before, or with its call where nothing was left."""
    path = tmp_path / "steps.csv"
    recorder = StepRecorder(never)
    recorder.record(str(path))
    recorder.scheduled(1.0, [1], [5], **STATE)
    recorder.scheduled(1.1, [1], [6], **STATE)  # asynchronous: while the first one runs
    recorder.ended(2.0, ran=True, idle=False)
    recorder.scheduled(2.1, [], [], **STATE)
    recorder.ended(3.0, ran=True, idle=True)
    recorder.ended(3.1, ran=False, idle=True)
    recorder.scheduled(9.0, [1], [7], **STATE)
    recorder.ended(9.5, ran=True, idle=True)
    assert [(row["begin"], row["seconds"]) for row in rows(path)] == [(1, 1), (2, 1), (9, 0.5)]


def test_preemptions_of_calls_in_which_nothing_ran_are_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "steps.csv"
    recorder = StepRecorder(never)
    recorder.record(str(path))
    recorder.scheduled(1.0, [], [], **STATE | {"preempted": 2})
    recorder.ended(1.0, ran=False, idle=False)
    recorder.scheduled(1.1, [1], [5], **STATE | {"preempted": 1})
    recorder.ended(2.0, ran=True, idle=True)
    assert [row["preempted"] for row in rows(path)] == [3]


def test_it_is_written_as_it_goes(tmp_path: Path) -> None:
    """After a while, and when nothing is left to do."""
    path = tmp_path / "steps.csv"
    recorder = StepRecorder(never)
    recorder.record(str(path))
    written = []
    for step in range(20):
        recorder.scheduled(step / 4, [1], [step], **STATE)
        recorder.ended((step + 1) / 4, ran=True, idle=step == 19)
        written.append(len(rows(path)))
    assert written[-1] == 20
    assert len(set(written)) > 3
    assert all(step + 1 - lines <= 5 * FLUSH_EVERY for step, lines in enumerate(written))


def test_two_files_one_after_the_other(tmp_path: Path) -> None:
    """Each holds its own steps; the same again goes on; another process goes on behind."""
    recorder = StepRecorder(never)
    for name in ("a", "a", "b"):
        recorder.record(str(tmp_path / name))
        recorder.scheduled(1.0, [1], [5], **STATE)
        recorder.ended(2.0, ran=True, idle=True)
    again = StepRecorder(never)
    again.record(str(tmp_path / "b"))
    again.scheduled(1.0, [1], [5], **STATE)
    again.ended(2.0, ran=True, idle=False)
    again.close()
    assert (len(rows(tmp_path / "a")), len(rows(tmp_path / "b"))) == (2, 2)


@pytest.mark.parametrize("path", ["/dev/full", "/no/such/folder/steps.csv"])
def test_a_file_that_cannot_be_written_ends_the_record(path: str) -> None:
    """One line of complaint; the engine goes on."""
    complaints: list[str] = []
    recorder = StepRecorder(complaints.append)
    for _ in range(2):
        recorder.record(path)
        recorder.scheduled(1.0, [1], [5], **STATE)
        recorder.ended(2.0, ran=True, idle=True)
    recorder.close()
    assert not recorder.on
    assert len(complaints) == 1
    assert complaints[0].startswith(f"steps are not recorded: {path}: ")


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    """Wherever it is torn, but not in the middle of a file."""
    path = tmp_path / "steps.csv"
    recorder = StepRecorder(never)
    recorder.record(str(path))
    for step in range(2):
        recorder.scheduled(float(step), [1], [5], **STATE)
        recorder.ended(step + 1.0, ran=True, idle=step == 1)
    whole = path.read_bytes()
    first = whole[: whole.index(b"\n", whole.index(b"\n") + 1) + 1]
    for end in range(len(first), whole.rindex(b",") + 1):
        path.write_bytes(whole[:end])
        assert len(read_step_log(path).seconds) == 1, end
    path.write_bytes(whole[: len(first) + 8] + b"\n" + whole[len(first) :])
    with pytest.raises(InputError, match=r"steps\.csv:3"):
        read_step_log(path)
