"""Where the words of a command go: one document or table on stdout, all else on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import RenderableType

    from sortedf.solvers import Progress

T = TypeVar("T")

PIPED_WIDTH = 160
"""Columns of a table that does not go to a terminal: wide enough not to fold."""


class Console:
    """The output of one run of a command. ``quiet`` drops progress and notes."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def note(self, text: str) -> None:
        """Tell the user something on stderr, one line."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def error(self, text: str) -> None:
        """Tell the user on stderr what went wrong, one line, quiet or not."""
        print(text, file=sys.stderr)

    def json(self, document: Any) -> None:
        """Print the one JSON document of the command on stdout."""
        # ASCII alone, so that it can be written whatever the encoding of stdout is.
        print(json.dumps(document, allow_nan=False, indent=2))

    def show(self, renderable: RenderableType) -> None:
        """Print a table or text on stdout."""
        rich = _rich(stderr=False)
        rich.print(renderable)

    @property
    def width(self) -> int:
        """Columns that stdout has for a table."""
        return _rich(stderr=False).width

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Show on stderr, if it is a terminal, what is going on while the block runs."""
        if self.quiet or not sys.stderr.isatty():
            yield
            return
        with _rich(stderr=True).status(text):
            yield

    @contextmanager
    def work(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show the same with what there is to say of it now: give that to what is yielded."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda said: None
            return
        with _rich(stderr=True).status(text) as status:
            yield lambda said: status.update(f"{text}, {said}")

    @contextmanager
    def search(self, text: str) -> Iterator[Callable[[Progress], None]]:
        """Show on stderr, if it is a terminal, how far a search is: give it what is yielded."""
        begin = time.monotonic()
        with self.work(text) as say:

            def report(progress: Progress) -> None:
                parts = [f"best {progress.best:,}"]
                if progress.bound is not None and progress.bound > 0:
                    parts += [
                        f"bound {ceil(progress.bound):,}",
                        # A fraction takes no format before Python 3.12.
                        f"gap {float(progress.best / progress.bound) - 1:.2%}",
                    ]
                rate = progress.iterations / max(1e-3, time.monotonic() - begin)
                say(", ".join([*parts, f"{rate:,.1f}/s"]))

            yield report

    @contextmanager
    def steps(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show on stderr what is going on: give what is yielded a line for each step of the work.

        On a terminal the lines follow each other in place; elsewhere each is written.
        """
        if self.quiet:
            yield lambda line: None
            return
        if not sys.stderr.isatty():
            yield lambda line: self.note(f"{text}: {line}")
            return
        with _rich(stderr=True).status(text) as status:
            yield lambda line: status.update(f"{text}: {line}")

    def track(self, items: Iterable[T], text: str, total: int) -> Iterator[T]:
        """Go through items under a progress bar on stderr, if it is a terminal."""
        from rich.progress import track

        hidden = self.quiet or not sys.stderr.isatty()
        yield from track(
            items, text, total, console=_rich(stderr=True), transient=True, disable=hidden
        )


def _rich(*, stderr: bool) -> RichConsole:
    from rich.console import Console as RichConsole

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPED_WIDTH
    return RichConsole(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)
