"""The compile cache of the kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import sortedf.kernels

CALLEE = """
from sortedf.kernels.jit import jit

@jit
def callee(x: int) -> int:
    return x + {number}
"""
CALLER = """
from sortedf.kernels.callee import callee
from sortedf.kernels.jit import jit

@jit
def caller(x: int) -> int:
    return callee(x)
"""


def test_an_edited_callee_is_never_run_from_the_cache(tmp_path: Path) -> None:
    """A cached kernel is compiled anew when a kernel that it calls has changed."""
    room = tmp_path / "sortedf" / "kernels"
    room.mkdir(parents=True)
    source = Path(next(iter(sortedf.kernels.__path__)))
    shutil.copy(source / "jit.py", room)
    (room.parent / "__init__.py").touch()
    (room / "__init__.py").touch()
    (room / "caller.py").write_text(CALLER)
    command = "from sortedf.kernels.caller import caller; print(caller(1))"
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    for number in (10, 20):
        (room / "callee.py").write_text(CALLEE.format(number=number))
        done = subprocess.run(
            [sys.executable, "-c", command],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(1 + number)
