"""Processes that are killed: what they said was appended is there, and resume ends with all."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_outputs import MANIFEST, PLAN, answer, inputs_of, names_in

from sortedf.errors import InputError
from sortedf.runner.folder import RunFolder

DRIVER = Path(__file__).parent / "drivers/append_lines.py"
KILLS = 30


def driver(*arguments: object) -> subprocess.Popen[bytes]:
    """Start the driver."""
    command = [sys.executable, str(DRIVER), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def said(process: subprocess.Popen[bytes]) -> list[str]:
    """Wait for its end; gives the whole lines that it said."""
    out, err = process.communicate(timeout=120)
    assert not err, err.decode()
    return [line.decode() for line in out.split(b"\n")[:-1]]


def test_kill_at_random_moments(tmp_path: Path) -> None:
    """In creation, while appending, in the rewriting at the end: wherever it happens to be."""
    generator = random.Random(7)
    path = tmp_path / "run"
    acknowledged: set[str] = set()
    count = 4000
    killed = 0
    for _ in range(KILLS):
        process = driver(path, count)
        if generator.random() < 0.8:  # most of them in the work, not in the imports before it
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(generator.uniform(0, 0.02))
        else:
            time.sleep(generator.uniform(0, 0.4))
        process.kill()
        lines = said(process)
        killed += process.returncode == -signal.SIGKILL
        acknowledged |= {line for line in lines if line.startswith("r-")}
        if (path / "output.jsonl").exists():
            whole = (path / "output.jsonl").read_bytes().split(b"\n")[:-1]
            lines_there = [json.loads(line) for line in whole]
            answered = {line["custom_id"] for line in lines_there if line["response"]}
            assert acknowledged <= answered
    assert killed > KILLS / 2
    *_, last = said(driver(path, count))
    assert last == f"done {count} 0 0"
    names = names_in(path / "output.jsonl")
    assert len(names) == count == len(set(names))
    left = {entry.name for entry in path.iterdir()}
    assert left == {"lock", "manifest.json", "plan", "inputs.csv", "output.jsonl", "attempts"}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    inputs = inputs_of("a", "b")
    with RunFolder.create(path, MANIFEST, plan=PLAN, plan_name="p.json", inputs=inputs) as folder:
        folder.append(answer("a"))
        for count in (2, 3):  # whether or not what it is given is the same
            process = driver(path, count)
            _, err = process.communicate(timeout=60)
            (line,) = [line for line in err.decode().splitlines() if "at work" in line]
            assert f"process {os.getpid()} is at work on this folder" in line
        with pytest.raises(InputError, match="at work"):  # nor a second time in this one
            RunFolder.resume(path, MANIFEST, inputs=inputs)
        folder.append(answer("b"))
    with RunFolder.resume(path, MANIFEST, inputs=inputs) as folder:
        assert folder.finish() == (2, 0, 0)


def test_a_child_that_outlives_its_parent_does_not_hold_the_lock(tmp_path: Path) -> None:
    """Neither one that was forked nor one that was started; it is that of an engine."""
    program = f"""
import os, subprocess, sys, time
from sortedf.runner.folder import RunFolder
path = {str(tmp_path / "run")!r}
folder = RunFolder.create(path, {{}}, plan=b"", plan_name="p.json", inputs={{}})
started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False,
    stdout=subprocess.DEVNULL)
reader, writer = os.pipe()
forked = os.fork()
if not forked:
    os.close(1)
    os.write(writer, b"here")
    time.sleep(60)
    os._exit(0)
os.read(reader, 4)
print(started.pid, forked, flush=True)
os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    children = [int(word) for word in process.stdout.readline().split()]
    process.stdout.close()
    try:
        assert process.wait(timeout=60) == -signal.SIGKILL
        assert len(children) == 2
        for child in children:
            os.kill(child, 0)  # it lives
        with RunFolder.resume(tmp_path / "run", {}, inputs={}) as folder:
            assert folder.attempt.name == "2"
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
