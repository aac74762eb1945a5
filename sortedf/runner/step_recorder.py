"""Records what an engine does, step by step, as it goes: into a step log, a step a line.

A step log is what :mod:`sortedf.engine.step_log` reads, with five columns more. Nothing here may
disturb the engine: a file that cannot be written to ends the record, not the engine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

COLUMNS = (
    "seconds",
    "prefill_tokens",
    "decode_tokens",
    "context",
    "prefill_work",
    "chunk_squared",
    "context_squared",
    "begin",
    "running",
    "waiting",
    "kv_use",
    "preempted",
)
"""``seconds`` and the terms of the step; ``begin`` on the engine's monotonic clock, seconds;
``running`` requests, those of the step included, and ``waiting`` ones, both after scheduling; share
of the KV cache that is held then; requests ``preempted`` by this call, and by those since the step
before in which nothing ran."""

FLUSH_EVERY = 1.0
"""Seconds of the engine's clock after which what was recorded is written."""


class StepRecorder:
    """Writes steps to a file, or to none.

    A step begins when the one before has ended, or, if nothing was left to do then, when it is
    scheduled; it ends when its tokens have been taken up. So what the engine does between two steps
    belongs to the second, and the steps of a stretch of work have no gaps. This holds too where one
    step is scheduled while another runs.

    Lines are written whole, one write for several: a process that is killed leaves none torn, and
    loses what came after the last write. Written is after :data:`FLUSH_EVERY`, when nothing is left
    to do, and at the end.

    Parameters
    ----------
    complain
        Is told, in one line, when the record ends because the file cannot be written to.
    """

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._path: str | None = None
        self._file: int | None = None
        self._lines: list[str] = []
        self._pending: deque[tuple[str, float, str]] = deque()
        self._preempted = 0
        self._written = 0.0
        self._last_end: float | None = None  # None: nothing was left to do then

    @property
    def on(self) -> bool:
        """Whether steps are recorded."""
        return self._file is not None

    def record(self, path: str) -> None:
        """Record to this file from now on, behind what is there; again the same: go on."""
        if path == self._path:
            return
        self.close()
        self._path = path
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            if os.fstat(self._file).st_size == 0:
                self._lines.append(",".join(COLUMNS) + "\n")
        except OSError as error:
            self._fail(error)
        self.flush()

    def scheduled(
        self,
        begin: float,
        tokens: Sequence[int],
        computed: Sequence[int],
        *,
        running: int,
        waiting: int,
        kv_use: float,
        preempted: int,
    ) -> None:
        """Note a call of the scheduler, at ``begin``.

        Parameters
        ----------
        tokens
            Of each request that got any in this step.
        computed
            Tokens of each that were computed before the step.
        """
        self._preempted += preempted
        if not tokens:
            return
        state = f"{running},{waiting},{kv_use:.6g},{self._preempted}"
        self._preempted = 0
        self._pending.append((_terms(tokens, computed), begin, state))

    def ended(self, end: float, *, ran: bool, idle: bool) -> None:
        """Note that a step has ended, the oldest of those that were scheduled.

        Parameters
        ----------
        ran
            Whether anything ran in it.
        idle
            Whether nothing is left to do.
        """
        if ran and self._pending:
            terms, called, state = self._pending.popleft()
            begin = called if self._last_end is None else self._last_end
            self._lines.append(f"{end - begin!r},{terms},{begin!r},{state}\n")
            self._last_end = end
        if idle and not self._pending:
            self._last_end = None
            self.flush()
        elif end - self._written > FLUSH_EVERY:
            self._written = end
            self.flush()

    def flush(self) -> None:
        """Write what was recorded."""
        if self._file is None or not self._lines:
            return
        data = "".join(self._lines).encode()
        self._lines.clear()
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Write what was recorded, and record no more."""
        self.flush()
        if self._file is not None:
            os.close(self._file)
        self._file = self._path = None
        self._pending.clear()
        self._last_end = None

    def _fail(self, error: OSError) -> None:
        self._complain(f"steps are not recorded: {self._path}: {error.strerror}")
        if self._file is not None:
            os.close(self._file)
        self._file = None  # the path stays: each file is complained of once
        self._lines.clear()


def _terms(tokens: Sequence[int], computed: Sequence[int]) -> str:
    """Composition of a step, as the terms of a step log: one token is a decode, more a chunk."""
    n, c = np.array(tokens, np.int64), np.array(computed, np.int64)
    if n.max() == 1:
        return f"0,{len(n)},{c.sum()},0,0,{c @ c}"
    chunk = n > 1
    decodes, n, before = c[~chunk], n[chunk], c[chunk]
    work = n @ before + (n @ (n + 1)) // 2
    return f"{n.sum()},{len(decodes)},{decodes.sum()},{work},{n @ n},{decodes @ decodes}"
