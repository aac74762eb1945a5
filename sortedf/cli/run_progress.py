"""How a run goes, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from sortedf.cli.console import Console
from sortedf.cli.interrupt import Interrupt

if TYPE_CHECKING:
    from sortedf.runner.engines import Load

QUIET_SECONDS = 30.0
"""Between two lines where there is no terminal."""


class RunWatch:
    """Tells the user what a run does, and stops it at Ctrl-C, SIGTERM or SIGHUP."""

    def __init__(self, console: Console) -> None:
        self.note = console.note
        self._console = console
        self._interrupt = Interrupt(signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    @property
    def signal(self) -> int:
        """The signal that stopped it; 0 for none."""
        return self._interrupt.signal

    def status(self, text: str) -> AbstractContextManager[None]:
        """Show what goes on."""
        return self._console.status(text)

    @contextmanager
    def progress(
        self, *, jobs: int, tokens: int, predicted: Sequence[float]
    ) -> Iterator[RunProgress]:
        """Show how an execution goes; only while there is one a signal waits for its next step."""
        shown = RunProgress(self._console, jobs=jobs, tokens=tokens, predicted=predicted)
        with self._interrupt, shown:
            yield shown

    def stop(self) -> bool:
        """Whether the user, or the system, wants it to end."""
        return self._interrupt.pressed


class RunProgress:
    """Shows how many requests are done, how fast, and how long the rest will take.

    Parameters
    ----------
    jobs, tokens
        Sequences that are to be done, and the output tokens that are predicted of them.
    predicted
        Predicted seconds of completion of each, in any order; empty without a prediction.
    """

    def __init__(
        self, console: Console, *, jobs: int, tokens: int, predicted: Sequence[float] = ()
    ) -> None:
        self._console = console
        self._jobs = jobs
        self._tokens = tokens
        self._predicted = sorted(predicted)
        self._on_terminal = sys.stderr.isatty() and not console.quiet
        self._began = self._told = time.monotonic()

    def __enter__(self) -> RunProgress:
        self._began = self._told = time.monotonic()
        if self._on_terminal:
            from rich.console import Console as RichConsole
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("running"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[said]}"),
                console=RichConsole(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("", total=self._jobs, said="")
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._on_terminal:
            self._bar.stop()

    def __call__(self, *, jobs: int, lines: int, failed: int, tokens: int, load: Load) -> None:
        """Show where the run is."""
        now = time.monotonic()
        if self._on_terminal:
            said = self._said(jobs, failed, tokens, load, now - self._began)
            self._bar.update(self._task, completed=jobs, said=said)
        elif now - self._told >= QUIET_SECONDS:
            self._told = now
            said = self._said(jobs, failed, tokens, load, now - self._began)
            self._console.note(f"{jobs:,} of {self._jobs:,} done, {said}")

    def _said(self, jobs: int, failed: int, tokens: int, load: Load, elapsed: float) -> str:
        parts = [f"{tokens / max(elapsed, 1e-3):,.0f} tokens/s", f"KV {load.kv_use:.0%}"]
        parts.append(f"{load.running:,} running")
        if load.preemptions:
            parts.append(f"{load.preemptions:,} preemptions")
        if failed:
            parts.append(f"{failed:,} failed")
        if (left := self.left(jobs, tokens, elapsed)) is not None:
            text = f"{_clock(left)} left"
            if self._predicted:
                text += f" (predicted {_clock(max(0.0, self._predicted[-1] - elapsed))})"
            parts.append(text)
        return ", ".join(parts)

    def left(self, jobs: int, tokens: int, elapsed: float) -> float | None:
        """Estimate the seconds that are left.

        With a prediction it is what that says is left, stretched by how much longer it took to come
        so far; without one as many tokens a second as until now.
        """
        if jobs == 0:
            return self._predicted[-1] if self._predicted else None
        if not self._predicted:
            return elapsed * max(0, self._tokens - tokens) / max(1, tokens)
        so_far = self._predicted[min(jobs, len(self._predicted)) - 1]
        return (self._predicted[-1] - so_far) * elapsed / max(so_far, 1e-9)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
