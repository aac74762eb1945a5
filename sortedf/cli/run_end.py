"""How a run ends: what the user is told, and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sortedf.cli.console import Console
from sortedf.cli.run_progress import RunWatch
from sortedf.errors import EngineError, StorageError

if TYPE_CHECKING:
    from sortedf.runner import RunResult

SOME_FAILED, ENGINE_DIED = 7, 1


@contextmanager
def how_to_go_on(again: str, folders: Iterable[Path], console: Console) -> Iterator[None]:
    """Tell by which command to go on when a run ends by an exception, if there is a use for it.

    An engine that does not start would not do so again: then only if something was answered before.

    Parameters
    ----------
    folders
        All folders of runs that the command goes on with.
    """
    from sortedf.runner.folder_files import OUTPUT
    from sortedf.runner.output_scan import holds_answer
    from sortedf.runner.run_identity import MANIFEST

    try:
        yield
    except (EngineError, StorageError, KeyboardInterrupt, SystemExit) as error:
        begun = [folder for folder in folders if (folder / MANIFEST).is_file()]
        if isinstance(error, EngineError):
            begun = [folder for folder in begun if holds_answer(folder / OUTPUT)]
        if begun:
            console.note(f"{again} goes on")
        raise


def end(result: RunResult, watch: RunWatch, again: str, console: Console) -> int:
    """Say what there is to say at the end of a run, and give the exit code.

    Parameters
    ----------
    again
        The command that goes on.
    """
    if result.interrupted or result.died is not None:
        counts = result.counts._asdict().items()
        parts = [f"{number:,} {name.replace('_', ' ')}" for name, number in counts]
        console.note("; ".join([*parts, f"{again} goes on"]))
    if result.died is not None:
        console.error(f"the engine died: {result.died}")
        return ENGINE_DIED
    if result.interrupted:
        return 128 + watch.signal
    return SOME_FAILED if result.counts.failed or result.counts.not_run else 0
