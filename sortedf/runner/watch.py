"""Who watches a run: what it is told, and how it stops it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from sortedf.runner.engines import Load


class Progress(Protocol):
    """Is told how a run goes."""

    def __call__(self, *, jobs: int, lines: int, failed: int, tokens: int, load: Load) -> None:
        """Take what was done by this start: sequences, lines, failed lines, output tokens."""


class Watch(Protocol):
    """Is told what a run does, and asked whether it is to stop."""

    def note(self, text: str) -> None:
        """Take one line for the user."""

    def status(self, text: str) -> AbstractContextManager[None]:
        """Say what goes on while the block runs."""

    def progress(
        self, *, jobs: int, tokens: int, predicted: Sequence[float]
    ) -> AbstractContextManager[Progress]:
        """Follow an execution of so many sequences and output tokens while the block runs.

        ``predicted`` holds the predicted second of completion of each sequence, or nothing.
        """

    def stop(self) -> bool:
        """Say, after every step, whether what runs is to be given up."""


class Unwatched:
    """Says nothing and never stops."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def status(self, text: str) -> AbstractContextManager[None]:
        """Say nothing."""
        return nullcontext()

    def progress(
        self, *, jobs: int, tokens: int, predicted: Sequence[float]
    ) -> AbstractContextManager[Progress]:
        """Say nothing."""

        def progress(*, jobs: int, lines: int, failed: int, tokens: int, load: Load) -> None:
            pass

        return nullcontext(progress)

    def stop(self) -> bool:
        """Go on."""
        return False
