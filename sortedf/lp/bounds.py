"""The best lower bound that is known for an instance: closed forms and prices."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sortedf.lp.ascent import Stop, ascend
from sortedf.lp.closed_forms import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.prices import Prices
from sortedf.model import Instance, Schedule

CLOSED_FORMS = {
    "output": output_bound,
    "volume": volume_bound,
    "mean-busy-time": mean_busy_time_bound,
}


@dataclass(frozen=True)
class Bound:
    """A lower bound on the total latency.

    Parameters
    ----------
    value
        Exact; the total latency of every schedule is at least this (rounded up).
    kind
        ``output``, ``volume``, ``mean-busy-time`` or ``prices``.
    prices
        The prices that prove it; ``None`` for a closed form.
    """

    value: Fraction
    kind: str
    prices: Prices | None = None


def lower_bound(
    instance: Instance,
    *,
    iterations: int | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    horizon: int | None = None,
    stop: Stop | None = None,
) -> Bound:
    """Take the best of the closed forms and of the prices that :func:`ascend` finds."""
    bounds = [Bound(form(instance), name) for name, form in CLOSED_FORMS.items()]
    prices, value = ascend(
        instance, iterations=iterations, seed=seed, start=start, horizon=horizon, stop=stop
    )
    bounds.append(Bound(value, "prices", prices))
    return max(bounds, key=lambda bound: bound.value)
