"""`sortedf run` on the real engine for the CPU, with a model made on the spot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from real_engine import ROOT, interpreter
from run_commands import start
from tiny_model import write_model
from tiny_tokenizer import save_tokenizer

BLOCK = 32
"""Tokens in a block: what vLLM's attention on the CPU takes."""

ENVIRONMENT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def make_model(folder: Path) -> Path:
    """Make a model's folder: a configuration and a tokenizer; the weights are drawn at random."""
    write_model(folder, context=1024, vocabulary=326, bos_token_id=0, eos_token_id=1)
    save_tokenizer(folder)
    (folder / "generation_config.json").write_text('{"temperature": 0.0}')
    return folder


def engine_options(model: Path, blocks: int) -> list[object]:
    """Give the options of the engine with so many blocks for requests; vLLM keeps one more."""
    return [
        *("--engine", "vllm", "--model", model, "--load-format", "dummy", "--dtype", "float32"),
        *("--num-gpu-blocks", blocks + 1, "--gpu-memory-utilization", 0.1, "--enforce-eager"),
    ]


def start_on_vllm(*arguments: object) -> subprocess.Popen[str]:
    """Start `sortedf run` in the environment of vLLM."""
    return start(*arguments, python=interpreter(), env=os.environ | ENVIRONMENT)


Process = tuple[int, str]


def descendants(pid: int) -> set[Process]:
    """Find what a process has started, and what that has: numbers and moments of start."""
    children: dict[int, list[int]] = {}
    begun: dict[int, str] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _fields(path)
        if fields:
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
            begun[int(path.parent.name)] = fields[19]
    found: set[Process] = set()
    left = [pid]
    while left:
        for child in children.get(left.pop(), ()):
            found.add((child, begun[child]))
            left.append(child)
    return found


def kill(process: subprocess.Popen[str]) -> set[Process]:
    """End a process by SIGKILL; gives what it had started, and that had started."""
    process.send_signal(signal.SIGSTOP)  # it writes nothing more while its children are looked up
    engine = descendants(process.pid)
    process.kill()
    process.communicate()
    return engine


def alive(processes: set[Process]) -> set[Process]:
    """Give those of some processes that still run."""
    return {
        (pid, begun)
        for pid, begun in processes
        if (fields := _fields(Path(f"/proc/{pid}/stat"))) and fields[19] == begun
        if fields[0] not in "ZX"
    }


def wait_for_end(processes: set[Process], seconds: float = 60) -> set[Process]:
    """Give those that still run after so long."""
    deadline = time.monotonic() + seconds
    while (left := alive(processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _fields(path: Path) -> list[str]:
    """Fields of /proc/PID/stat from the third on: state, parent, ..., moment of start."""
    try:
        return path.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def requests_of(attempt: Path) -> list[dict[str, Any]]:
    """Give the records of an attempt."""
    return [json.loads(line) for line in (attempt / "requests.jsonl").read_text().splitlines()]
