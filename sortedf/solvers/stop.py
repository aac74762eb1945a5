"""When an anytime solver stops: small objects that can be combined."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Protocol

from sortedf.errors import OptionError, whole_number
from sortedf.model import StopReason


class Stop(Protocol):
    """Asked by a solver now and then; the first reason it gives ends the search."""

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Return the reason to stop now, or ``None``. Iterations are the solver's own."""

    def share(self, iterations: int) -> float:
        """Return how much of what is allowed is used up, from 0 to 1; searches cool by it."""


@dataclass(frozen=True)
class MaxIterations:
    """Stop after so many iterations: reproducible."""

    limit: int

    def __post_init__(self) -> None:
        whole_number("the iteration limit", self.limit, 0)

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Compare the solver's own count."""
        return StopReason.ITERATION_LIMIT if iterations >= self.limit else None

    def share(self, iterations: int) -> float:
        """Divide by the limit."""
        return min(1.0, iterations / self.limit) if self.limit else 1.0


class MaxSeconds:
    """Stop so many seconds of wall time after it is first asked: compilation is not counted."""

    def __init__(self, seconds: float) -> None:
        if not 0 < seconds < inf:
            raise OptionError(
                f"the time limit is {seconds} seconds; it must be above 0, and finite"
            )
        self.seconds = seconds
        self._begin: float | None = None

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Look at the clock."""
        return StopReason.TIME_LIMIT if self._elapsed() >= self.seconds else None

    def share(self, iterations: int) -> float:
        """Look at the clock."""
        return min(1.0, self._elapsed() / self.seconds)

    def _elapsed(self) -> float:
        now = time.monotonic()
        if self._begin is None:
            self._begin = now
        return now - self._begin


class AnyOf:
    """Stop as soon as one of several criteria says so; the first in the list gives the reason."""

    def __init__(self, *stops: Stop) -> None:
        self.stops = stops

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Ask each in turn."""
        for stop in self.stops:
            if reason := stop(iterations, best, bound):
                return reason
        return None

    def share(self, iterations: int) -> float:
        """Take the one that is used up most."""
        return max((stop.share(iterations) for stop in self.stops), default=0.0)
