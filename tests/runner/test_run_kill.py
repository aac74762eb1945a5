"""`sortedf run` that is killed, stopped or has no room: nothing written is lost, resume ends it."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from batch_files import completion
from run_commands import (
    ended,
    lines_in,
    mixed_batch,
    planned,
    start,
    wait_until,
    write_batch,
)
from run_outputs import names_in, read_strictly

REQUESTS, KILLS = 300, 10


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give a plan and its batch of 300 requests."""
    folder = tmp_path_factory.mktemp("work")
    batch = mixed_batch(folder / "batch.jsonl", REQUESTS, seed=3)
    return planned(batch, folder / "plan.json", 1600, "--block-size", 16), batch


def every_one_once(folder: Path) -> None:
    """See that each request has one line, that all are answers, and that nothing is torn."""
    assert Counter(names_in(folder / "output.jsonl")) == {f"r{k}": 1 for k in range(REQUESTS)}
    lines = read_strictly(folder / "output.jsonl")
    assert all(line["response"]["status_code"] == 200 for line in lines)
    assert not list(folder.glob(".sortedf-*"))


def test_ten_kills(work: tuple[Path, Path], tmp_path: Path) -> None:
    """At random moments: in the start, in creation, between answers, at the end.

    Every line that was there before a kill is there after it, byte for byte.
    """
    plan, batch = work
    generator = random.Random(11)
    folder = tmp_path / "run"
    begin = [plan, batch, "-o", folder, "--any-model", "--pace", 10]
    kept: list[bytes] = []
    killed = grown = 0
    for number in range(KILLS):
        begun = (folder / "manifest.json").exists()
        again = ["--resume", folder, "--pace", generator.choice([5, 10, 20])]
        process = start(*(again if begun else begin))
        if number % 5 != 4:
            more = len(kept) + generator.randint(0, 15)
            wait_until(lambda: len(lines_in(folder)) > more, process)  # noqa: B023
            time.sleep(generator.uniform(0, 0.05))
        else:
            time.sleep(generator.uniform(0, 1))
        process.kill()
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        now = lines_in(folder)
        assert now[: len(kept)] == kept
        grown += len(now) > len(kept)
        kept = now
    assert killed == KILLS
    assert grown >= 5
    assert len(kept) < REQUESTS
    code, out, err = ended(start("--resume", folder, "--json"))
    assert code == 0, err
    assert json.loads(out)["answered"] == REQUESTS
    assert lines_in(folder)[: len(kept)] == kept
    every_one_once(folder)


def test_a_second_process_is_refused(work: tuple[Path, Path], tmp_path: Path) -> None:
    """At once, naming the first, which it does not disturb."""
    plan, batch = work
    folder = tmp_path / "run"
    first = start(plan, batch, "-o", folder, "--any-model", "--pace", 20)
    assert wait_until(lambda: len(lines_in(folder)) > 3, first), first.communicate()
    code, out, err = ended(start("--resume", folder))
    assert (code, out) == (3, "")
    assert str(first.pid) in err
    assert len(err.splitlines()) == 1
    code, _, err = ended(start(plan, batch, "-o", folder, "--any-model"))
    assert code == 3
    assert len(err.splitlines()) == 1
    assert first.poll() is None
    code, _, err = ended(first)
    assert code == 0, err
    every_one_once(folder)
    assert [path.name for path in (folder / "attempts").iterdir()] == ["1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(
    number: signal.Signals, work: tuple[Path, Path], tmp_path: Path
) -> None:
    """With counts that add up, and the command that goes on."""
    plan, batch = work
    folder = tmp_path / "a run"
    process = start(plan, batch, "-o", folder, "--any-model", "--pace", 20, "--json")
    assert wait_until(lambda: len(lines_in(folder)) > 3, process), process.communicate()
    process.send_signal(number)
    code, out, err = ended(process)
    assert code == 128 + number
    told = json.loads(out)
    assert told["answered"] + told["failed"] + told["not_run"] == REQUESTS
    assert told["answered"] == len(lines_in(folder)) > 3
    assert told["not_run"] > 0
    assert f"{told['not_run']} not run" in err
    assert f"sortedf run --resume '{folder}'" in err
    kept = lines_in(folder)
    code, _, err = ended(start("--resume", folder))
    assert code == 0, err
    assert lines_in(folder)[: len(kept)] == kept
    every_one_once(folder)


def test_a_signal_before_the_first_answer(work: tuple[Path, Path], tmp_path: Path) -> None:
    """In the first steps, of a slow engine."""
    plan, batch = work
    folder = tmp_path / "run"
    process = start(plan, batch, "-o", folder, "--any-model", "--pace", 1e-3)
    assert wait_until(lambda: (folder / "attempts" / "1" / "steps.csv").exists(), process)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 130
    assert f"0 answered; 0 failed; {REQUESTS} not run" in err
    assert "not run" in out
    code, _, err = ended(start("--resume", folder))
    assert code == 0, err
    every_one_once(folder)


def test_no_room(work: tuple[Path, Path], tmp_path: Path) -> None:
    """A limit on the size of files is reached: one line, whole lines stay, resume goes on."""
    plan, batch = work
    folder = tmp_path / "run"
    limit = 60_000  # above what plan and inputs need, below the answers
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    process = start(plan, batch, "-o", folder, "--any-model", "--pace", 1000, preexec_fn=small)
    code, out, err = ended(process)
    assert (code, out) == (3, "")
    assert "output.jsonl" in err
    assert f"sortedf run --resume {folder} goes on" in err
    kept = lines_in(folder)
    assert len(kept) > 10
    assert (folder / "output.jsonl").read_bytes().endswith(b"\n")
    code, _, err = ended(start("--resume", folder))
    assert code == 0, err
    assert lines_in(folder)[: len(kept)] == kept
    every_one_once(folder)


def test_no_room_for_the_records(tmp_path: Path) -> None:
    """The log of the steps reaches the limit before the output does; the same is said of it."""
    batch = write_batch(
        tmp_path / "batch.jsonl", [completion(f"r{k}", max_tokens=1000 * k) for k in (1, 2, 3)]
    )
    plan = planned(batch, tmp_path / "plan.json", 8000)
    folder = tmp_path / "run"
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    process = start(plan, batch, "-o", folder, "--any-model", preexec_fn=small)
    code, out, err = ended(process)
    assert (code, out) == (3, "")
    assert "steps.csv" in err
    assert f"sortedf run --resume {folder} goes on" in err
    kept = lines_in(folder)
    assert 0 < len(kept) < 3
    code, _, err = ended(start("--resume", folder))
    assert code == 0, err
    assert lines_in(folder)[: len(kept)] == kept
    assert names_in(folder / "output.jsonl") == ["r1", "r2", "r3"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk(work: tuple[Path, Path], tmp_path: Path) -> None:
    """The output is led to a device that is always full: one line, and nothing is harmed."""
    plan, batch = work
    folder = tmp_path / "run"
    process = start(plan, batch, "-o", folder, "--any-model", "--pace", 20)
    assert wait_until(lambda: len(lines_in(folder)) > 3, process), process.communicate()
    process.kill()
    process.communicate()
    kept = (folder / "output.jsonl").read_bytes()
    (folder / "output.jsonl").rename(tmp_path / "kept")
    (folder / "output.jsonl").symlink_to("/dev/full")
    code, out, err = ended(start("--resume", folder))
    assert (code, out) == (3, "")
    assert "output.jsonl" in err
    (folder / "output.jsonl").unlink()
    (tmp_path / "kept").rename(folder / "output.jsonl")
    assert (folder / "output.jsonl").read_bytes() == kept
    code, _, err = ended(start("--resume", folder))
    assert code == 0, err
    every_one_once(folder)


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_target_without_permission(work: tuple[Path, Path], tmp_path: Path) -> None:
    plan, batch = work
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    code, out, err = ended(start(plan, batch, "-o", closed / "run", "--any-model"))
    assert (code, out) == (3, "")
    assert str(closed) in err


@pytest.mark.parametrize("target", ["file", "file/run", "/proc/none/run"])
def test_a_target_that_cannot_be_written(
    target: str, work: tuple[Path, Path], tmp_path: Path
) -> None:
    """Before any work: one line, and nothing of it is left."""
    plan, batch = work
    (tmp_path / "file").write_text("mine")
    code, out, err = ended(start(plan, batch, "-o", tmp_path / target, "--any-model"))
    assert (code, out) == (3, "")
    assert [target in line for line in err.splitlines()] == [True]
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
