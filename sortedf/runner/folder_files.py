"""The files of a run folder by their names: which are ours, and what a start that failed leaves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sortedf.errors import Fault, InputError
from sortedf.instances.files import kind_by_name, make_folder
from sortedf.runner.lock import FolderLock
from sortedf.runner.run_identity import INPUTS, MANIFEST

OUTPUT, ATTEMPTS, LOCK, PLAN = "output.jsonl", "attempts", "lock", "plan"
ENGINE_LOG = "engine.log"
"""Of an attempt: what the engine prints."""

_TEMPORARY = ".sortedf-*.tmp"


@contextmanager
def locked(path: Path) -> Iterator[FolderLock]:
    """Lock a folder, and release it again only if what is done there fails."""
    lock = FolderLock(path / LOCK)
    try:
        yield lock
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError):
            raise _named(path, error) from None
        raise


def _named(path: Path, error: OSError) -> InputError:
    where = error.filename or path
    return InputError([Fault(str(where), None, f"cannot be used: {error.strerror or error}")])


def remove_temporary(path: Path) -> None:
    """Remove what was left by files that were being written when a process was killed."""
    for left in path.glob(_TEMPORARY):
        left.unlink()


def check_unused(path: Path) -> None:
    """Refuse a folder that holds anything but what a killed creation or a failed start left."""
    try:
        names = {entry.name for entry in path.iterdir()}
        ours = _ours(path) if LOCK in names else set()
    except OSError as error:
        raise _named(path, error) from None
    if MANIFEST in names:
        text = "holds a run; resume it, or name another folder"
        raise InputError([Fault(str(path), None, text)])
    if not names <= ours:
        raise InputError([Fault(str(path), None, "is not empty; name another folder")])


def _ours(path: Path) -> set[str]:
    """Give the names that may stand in a folder in which no run was begun."""
    attempts = path / ATTEMPTS
    left = [*attempts.glob("*"), *attempts.glob("*/*")]
    logs_alone = all(entry.is_dir() or entry.name == ENGINE_LOG for entry in left)
    patterns = (f"{PLAN}*", _TEMPORARY, *([ATTEMPTS] if logs_alone else []))
    return {LOCK, INPUTS, *(entry.name for pattern in patterns for entry in path.glob(pattern))}


def copy_plan(path: Path, plan: bytes, plan_name: str) -> str:
    """Write a plan's file into the folder, byte for byte; the name that it has there."""
    packed = Path(plan_name).suffix == ".gz"
    name = PLAN + kind_by_name(plan_name) + (".gz" if packed else "")
    with (path / name).open("wb") as file:  # write_whole would pack a .gz once more
        file.write(plan)
        file.flush()
        os.fsync(file.fileno())
    return name


def next_attempt(attempts: Path) -> Path:
    """Make the folder of the attempt to come."""
    make_folder(attempts)
    numbers = [int(entry.name) for entry in attempts.iterdir() if entry.name.isdecimal()]
    attempt = attempts / str(max(numbers, default=0) + 1)
    make_folder(attempt)
    return attempt


def make_missing(path: Path) -> list[Path]:
    """Make a folder; gives what there was not before: it first, then those above it."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    except OSError as error:
        raise _named(path, error) from None
    make_folder(path)
    return missing


def remove_attempt(attempt: Path, *, keep_log: bool) -> None:
    """Remove an attempt in which nothing was answered; what the engine printed may stay."""
    for path in attempt.glob("*"):
        if not (keep_log and path.name == ENGINE_LOG and path.stat().st_size):
            path.unlink()
    _remove_empty(attempt)


def remove_run(path: Path, made: Iterable[Path]) -> None:
    """Remove a run that has no attempt, and the folders that were made for it.

    What the engine printed in one stays, and then the lock as the sign that the folder is ours.
    """
    (path / OUTPUT).unlink()  # first: a run may have none, but what is none must not have one
    (path / MANIFEST).unlink()
    for left in (path / INPUTS, *path.glob(f"{PLAN}*")):
        left.unlink()
    if _remove_empty(path / ATTEMPTS):
        (path / LOCK).unlink()
        for folder in made:
            _remove_empty(folder)


def _remove_empty(path: Path) -> bool:
    """Remove a folder if nothing is in it; whether there is none now."""
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    return not path.exists()
