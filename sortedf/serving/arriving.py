"""When requests are to arrive, before it is known which: a process, its rate or load, a shift."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from sortedf.errors import OptionError
from sortedf.serving.arrivals import FloatArray, burst, modulated, poisson, shifted, stretched

LEAST, MOST = 1e-6, 1e9
"""Of rates, loads and factors."""

LONGEST = 1e12
"""Seconds (or steps) in which all arrive, so that a nanosecond's share of a step is kept."""


MOST_PERIODS = 1e6
"""Correlation times in all arrivals: each takes some draws in Python."""


class Process(StrEnum):
    """Where the times come from."""

    OWN = "own"
    POISSON = "poisson"
    BURSTY = "bursty"
    AT_ONCE = "at-once"


@dataclass(frozen=True, kw_only=True)
class Arriving:
    """A process of arrivals.

    Parameters
    ----------
    process
        ``own``: the stamps of a trace, stretched to the rate if there is one; ``poisson``;
        ``bursty``: Poisson in two states; ``at-once``.
    rate, load
        Requests a second (or a step), or share of the saturated rate; at most one of them.
    burst_ratio, burst_share, burst_seconds
        Of ``bursty``: see :func:`sortedf.serving.arrivals.modulated`.
    shift, shift_at
        So many times as many arrive from that moment on (seconds; where left out, when half have
        come).

    Raises
    ------
    OptionError
        For numbers out of range and what does not go together.
    """

    process: Process | str
    rate: float | None = None
    load: float | None = None
    burst_ratio: float | None = None
    burst_share: float | None = None
    burst_seconds: float | None = None
    shift: float | None = None
    shift_at: float | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "process", Process(self.process))
        except ValueError:
            names = ", ".join(Process)
            raise OptionError(
                f"arrivals are {self.process!r}; they must be one of {names}"
            ) from None
        for name in ("rate", "load", "burst_ratio", "burst_share", "burst_seconds", "shift"):
            value = getattr(self, name)
            if value is not None and not LEAST <= value <= MOST:
                raise OptionError(f"{name} is {value!r}; it must be from {LEAST:g} to {MOST:g}")
        if self.rate is not None and self.load is not None:
            raise OptionError("a rate and a load are two words for one thing; leave one out")
        timed = self.rate is not None or self.load is not None
        if self.process == Process.AT_ONCE and (timed or self.shift is not None):
            raise OptionError("requests that come at once have no rate, no load and no shift")
        if self.process in (Process.POISSON, Process.BURSTY) and not timed:
            raise OptionError(f"{self.process} arrivals need a rate or a load")
        bursts = self._bursts()
        if bursts and self.process != Process.BURSTY:
            raise OptionError(f"{', '.join(bursts)}: only bursty arrivals have bursts")
        if self.process == Process.BURSTY:
            modulated(1, 1.0, **bursts)  # says what is wrong with them
        if self.shift_at is not None and self.shift is None:
            raise OptionError("shift_at is of a shift, which is missing")
        if self.shift_at is not None and not 0 <= self.shift_at <= LONGEST:
            raise OptionError(f"shift_at is {self.shift_at!r}; it must be from 0 to {LONGEST:g}")

    @property
    def is_drawn(self) -> bool:
        """Whether the times depend on a seed."""
        return self.process in (Process.POISSON, Process.BURSTY)

    def times(
        self, n: int, stamps: FloatArray | None, rate: float | None, *, seed: int, whole: bool
    ) -> FloatArray:
        """Give the times of n requests, ascending, shape (n,).

        Parameters
        ----------
        stamps
            Those of a trace, ascending, for ``own``.
        rate
            Requests a second (or a step): the rate, or what the load comes to.
        whole
            Round down to whole steps.
        """
        if self.process == Process.OWN:
            assert stamps is not None
            times = stamps if rate is None else stretched(stamps, rate)
        elif self.process == Process.AT_ONCE:
            times = burst(n)
        else:
            assert rate is not None
            stream = seed + 10**6  # that of the lengths has the seed itself
            if self.process == Process.POISSON:
                times = poisson(n, rate, seed=stream)
            else:
                self._check_periods(n, rate)
                times = modulated(n, rate, seed=stream, **self._bursts())
        if self.shift is not None:
            at = float(times[n // 2]) if self.shift_at is None else self.shift_at
            times = shifted(times, at=at, factor=self.shift)
        if not times[-1] <= LONGEST:
            raise OptionError(f"the last request arrives after {times[-1]:g} s; take a higher rate")
        return np.floor(times) if whole else times

    def _check_periods(self, n: int, rate: float) -> None:
        lasts = 2.0 if self.burst_seconds is None else self.burst_seconds
        if n / rate / lasts > MOST_PERIODS:
            raise OptionError(
                f"bursts of {lasts:g} s in the {n / rate:g} s in which all arrive are too many; "
                "take longer ones"
            )

    def _bursts(self) -> dict[str, Any]:
        given = {
            "ratio": self.burst_ratio,
            "share": self.burst_share,
            "correlation": self.burst_seconds,
        }
        return {name: value for name, value in given.items() if value is not None}
