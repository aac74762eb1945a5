"""An engine of the runner in the environment of vLLM, asked command by command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
DRIVER = Path(__file__).parent / "drivers" / "drive_vllm.py"

ENGINE: dict[str, Any] = {
    "load_format": "dummy",
    "dtype": "float32",
    "enforce_eager": True,
    "num_gpu_blocks_override": 60,
    "kv_cache_memory_bytes": 1 << 26,
    "block_size": 32,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 256,
    "max_model_len": 512,
}
"""A tight cache: a tenth of the backlogs of these tests."""

Row = list[Any]
"""Of a job: index, prompt, predicted output, sampling."""


class Session:
    """A driver that is asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, do: str, **command: Any) -> Any:
        """Have something done; what the driver answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **command}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the driver ended"
        return json.loads(line)


@contextmanager
def session(python: Path, errors: Path) -> Iterator[Session]:
    """Start a driver; at the end there must be nothing else on its stdout."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [python, DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
        )
    try:
        yield Session(process)
        if process.poll() is None:
            rest, _ = process.communicate(timeout=60)
            assert rest == ""
            assert process.returncode == 0, errors.read_text()[-3000:]
    finally:
        process.kill()
        process.communicate()


def backlog(n: int, seed: int, vocabulary: int) -> list[Row]:
    """Draw jobs, 80 % of them short talks, whose outputs are exactly as predicted."""
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for index in range(n):
        talks = generator.random() < 0.8
        ends = ((5, 60), (10, 80)) if talks else ((80, 300), (60, 200))
        prompt, output = (int(generator.integers(*least_most)) for least_most in ends)
        tokens = generator.integers(0, vocabulary, prompt).tolist()
        rows.append([index, tokens, output, exactly(output)])
    return rows


def exactly(output: int, **sampling: Any) -> dict[str, Any]:
    """Ask for an output of so many tokens."""
    return {"max_tokens": output, "min_tokens": output, "ignore_eos": True, **sampling}
