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
PAIR = """
from typing import NamedTuple
from sortedf.kernels.jit import jit

class {name}(NamedTuple):
    x: int
    y: int

@jit
def total(pair: {name}) -> int:
    return pair.x + pair.y + {number}
"""


def room_for_kernels(folder: Path) -> Path:
    """Make a package like this one, with nothing in it but how kernels are compiled."""
    room = folder / "sortedf" / "kernels"
    room.mkdir(parents=True)
    source = Path(next(iter(sortedf.kernels.__path__)))
    shutil.copy(source / "jit.py", room)
    (room.parent / "__init__.py").touch()
    (room / "__init__.py").touch()
    return room


def run(command: str, folder: Path) -> str:
    """Run a command in a process of its own, with kernels compiled; what it prints."""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_DISABLE_JIT"}
    done = subprocess.run(
        [sys.executable, "-c", command],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_edited_callee_is_never_run_from_the_cache(tmp_path: Path) -> None:
    """A cached kernel is compiled anew when a kernel that it calls has changed."""
    room = room_for_kernels(tmp_path)
    (room / "caller.py").write_text(CALLER)
    command = "from sortedf.kernels.caller import caller; print(caller(1))"
    for number in (10, 20):
        (room / "callee.py").write_text(CALLEE.format(number=number))
        assert run(command, tmp_path) == str(1 + number)


def test_a_cache_that_names_a_removed_class_is_empty(tmp_path: Path) -> None:
    """The signature in the cache has a class of its own, which an edit may take away."""
    room = room_for_kernels(tmp_path)
    command = "from sortedf.kernels import pair; print(pair.total(pair.{name}(1, 2)))"
    for name, number in (("Old", 10), ("New", 20)):
        (room / "pair.py").write_text(PAIR.format(name=name, number=number))
        assert run(command.format(name=name), tmp_path) == str(3 + number)
    assert list(room.glob("__pycache__/pair.total*.nbi"))
