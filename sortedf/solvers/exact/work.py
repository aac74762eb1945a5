"""The account of an anytime search: best schedule, bound, iterations, and when to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from math import ceil

from sortedf.model import Instance, Schedule, StopReason
from sortedf.model.result import BoundKind, Proof
from sortedf.solvers.solver import Progress
from sortedf.solvers.stop import Stop

REPORT_SECONDS = 1.0


class Stopped(Exception):  # noqa: N818 - not an error: the way out of nested loops
    """Raised inside the search when it is over; carries the reason."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


class Work:
    """What has been found so far; the only object that the phases of the search share.

    Parameters
    ----------
    instance
        The backlog.
    schedule
        A first feasible schedule.
    stop, report
        Of the anytime contract; see :class:`sortedf.solvers.solver.Solver`.
    """

    def __init__(
        self,
        instance: Instance,
        schedule: Schedule,
        stop: Stop,
        report: Callable[[Progress], None],
    ) -> None:
        self.instance = instance
        self.schedule = schedule
        self.best = schedule.total_latency(instance)
        self.bound: Fraction | None = None
        self.kind: BoundKind | None = None
        self.proof: Proof | None = None
        self.iterations = 0
        self._stop = stop
        self._report = report
        self._next_report = time.monotonic() + REPORT_SECONDS

    @property
    def gap(self) -> float:
        """Best value over the bound, less 1; infinite without a bound."""
        return float(self.best / self.bound) - 1 if self.bound else float("inf")

    def tick(self) -> None:
        """Count one iteration, some ms of work; leave the search when it is time to."""
        self.iterations += 1
        if reason := self._stop(self.iterations, self.best, self.bound):
            raise Stopped(reason)
        if time.monotonic() >= self._next_report:
            self._next_report = time.monotonic() + REPORT_SECONDS
            self._report(Progress(self.iterations, self.best, self.bound))

    def found(self, schedule: Schedule) -> bool:
        """Take a schedule if it is better than the best."""
        value = schedule.total_latency(self.instance)
        if value >= self.best:
            return False
        self.schedule, self.best = schedule, value
        self._look()
        return True

    def proved(self, bound: Fraction, kind: BoundKind = BoundKind.EXHAUSTIVE) -> None:
        """Take a lower bound if it is better than the one known; one of the best value ends it."""
        if self.bound is None or bound > self.bound:
            # Total latencies are whole, and no bound can say more than that the best is best.
            self.bound, self.kind = min(Fraction(self.best), bound), kind
        self._look()

    def _look(self) -> None:
        if self.bound is not None and ceil(self.bound) >= self.best:
            self._report(Progress(self.iterations, self.best, self.bound))
            raise Stopped(StopReason.PROVED)
