"""Batches, plans and the command `sortedf run` as a process of its own, for tests that end it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from batch_files import completion

from sortedf.cli.main import main

COMMAND = """
import signal
from sortedf.cli.main import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background
run()
"""


def write_batch(path: Path, entries: Sequence[Any]) -> Path:
    """Write a batch file; a string stands for a line as it is."""
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def mixed_batch(path: Path, n: int, seed: int = 0, vocabulary: int = 320) -> Path:
    """Write requests of the 80/20 mix, small: four in five short, the others longer."""
    generator = random.Random(seed)
    entries = []
    for k in range(n):
        talks = generator.random() < 0.8
        prompt = generator.randint(4, 30) if talks else generator.randint(60, 160)
        output = generator.randint(2, 20) if talks else generator.randint(20, 60)
        ids = [generator.randrange(6, vocabulary) for _ in range(prompt)]
        body = {"ignore_eos": True, "temperature": 0, "model": "model"}
        entries.append(completion(f"r{k}", ids, max_tokens=output, **body))
    return write_batch(path, entries)


def planned(batch: Path, plan: Path, kv_tokens: int, *further: object) -> Path:
    """Plan a batch."""
    command = ["solve", batch, "--kv-tokens", kv_tokens, "--no-bound", "-q", "--json", *further]
    assert main([str(word) for word in [*command, "-o", plan]]) == 0
    return plan


def start(
    *arguments: object, python: str | Path = sys.executable, program: str = COMMAND, **kwargs: Any
) -> subprocess.Popen[str]:
    """Start `sortedf run` as a program."""
    return subprocess.Popen(
        [python, "-c", program, "run", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def ended(process: subprocess.Popen[str], timeout: float = 300) -> tuple[int, str, str]:
    """Wait for its end: code, stdout, stderr."""
    out, err = process.communicate(timeout=timeout)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    """Wait until something is true or the process has ended, and say whether it is true."""
    deadline = time.monotonic() + 300
    while not (held := true()) and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return held


def lines_in(folder: Path) -> list[bytes]:
    """Give the whole lines of the output as they stand there, and nothing without one."""
    path = folder / "output.jsonl"
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []
