"""When requests arrive: Poisson, bursts that come and go, all at once, or as in a trace.

Every process gives seconds ascending from the first arrival's on, shape (n,), by a numpy generator
with a seed.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError

FloatArray: TypeAlias = npt.NDArray[np.float64]


def burst(n: int) -> FloatArray:
    """All at once."""
    return np.zeros(n)


def poisson(n: int, rate: float, *, seed: int = 0) -> FloatArray:
    """Poisson arrivals at ``rate`` requests a second."""
    _positive(rate=rate)
    gaps: FloatArray = np.random.default_rng(seed).exponential(1 / rate, n)
    return np.cumsum(gaps)


def modulated(
    n: int,
    rate: float,
    *,
    ratio: float = 3.0,
    share: float = 0.2,
    correlation: float = 2.0,
    seed: int = 0,
) -> FloatArray:
    """Two-state Markov-modulated Poisson arrivals, ``rate`` requests a second on average.

    Parameters
    ----------
    ratio
        Rate of the high state over that of the low one, at least 1.
    share
        Of the time in the high state, in (0, 1).
    correlation
        Seconds in which the autocorrelation of the state falls to 1 / e: the reciprocal of the sum
        of both rates of leaving. High periods last correlation / (1 - share) on average.

    Notes
    -----
    Arrivals of a Poisson process of rate 1 at the moments where the integral of the state's rate
    comes to them; one pass over the periods. arXiv 2607.18253 takes ratios of 3 and 6, a share of
    0.2 and 2 s; how these three fix the process is derived for this project.
    """
    _positive(rate=rate, correlation=correlation)
    if not ratio >= 1 or not 0 < share < 1:
        raise OptionError(
            f"ratio is {ratio!r} and share {share!r}; they must be at least 1 and within (0, 1)"
        )
    rng = np.random.default_rng(seed)
    low = rate / (1 - share + share * ratio)
    marks = np.cumsum(rng.exponential(1.0, n))
    high = bool(rng.random() < share)
    ends, rates, reached = [0.0], [], [0.0]
    while reached[-1] < marks[-1]:
        lasts = rng.exponential(correlation / ((1 - share) if high else share))
        ends.append(ends[-1] + lasts)
        rates.append(low * (ratio if high else 1.0))
        reached.append(reached[-1] + lasts * rates[-1])
        high = not high
    period = np.searchsorted(reached, marks, side="left") - 1
    arrivals: FloatArray = (
        np.array(ends)[period] + (marks - np.array(reached)[period]) / np.array(rates)[period]
    )
    return arrivals


def stretched(seconds: npt.ArrayLike, rate: float) -> FloatArray:
    """Stamps of a trace, the same pattern at ``rate`` requests a second on average; ascending."""
    _positive(rate=rate)
    stamps = np.sort(np.asarray(seconds, np.float64))
    if not len(stamps) or not np.isfinite(stamps).all():
        raise OptionError("the stamps of a trace are finite numbers of seconds, at least one")
    span = stamps[-1] - stamps[0]
    if span == 0:
        return np.zeros(len(stamps))
    result: FloatArray = (stamps - stamps[0]) * ((len(stamps) - 1) / (rate * span))
    return result


def shifted(arrivals: npt.ArrayLike, *, at: float, factor: float) -> FloatArray:
    """Let the load change: from second ``at`` on, ``factor`` times as many arrive a second."""
    _positive(factor=factor)
    times = np.asarray(arrivals, np.float64)
    return np.where(times > at, at + (times - at) / factor, times)


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < np.inf:
            raise OptionError(f"{name} is {value!r}; it must be a number above 0")
