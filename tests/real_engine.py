"""Where vLLM is installed, and how its real classes are asked: in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
DRIVERS = Path(__file__).parent / "engine" / "drivers"


def interpreter() -> Path:
    """Python of the environment that ``make vllm`` sets up; the test is skipped without."""
    python = Path(os.environ.get("SORTEDF_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        pytest.skip("vLLM is not installed: make vllm sets up .venv-vllm")
    return python


def ask(driver: str, works: Sequence[Any]) -> list[Any]:
    """Hand workloads to a driver, as JSON lines, and get its answers."""
    done = subprocess.run(
        [interpreter(), DRIVERS / driver],
        input="".join(json.dumps(work) + "\n" for work in works),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},  # of these sources, whatever is installed there
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
