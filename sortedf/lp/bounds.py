"""The best lower bound that is known for an instance: closed forms and prices."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sortedf.lp.ascent import Stop, ascend
from sortedf.lp.closed_forms import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.cutting_plane import can_relax_by_planes, relax_by_planes
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
    planes: bool = False,
    stop: Stop | None = None,
) -> Bound:
    """Take the best of the closed forms and of the prices that :func:`ascend` finds.

    With ``planes`` these prices are raised to the value of the linear program
    (:func:`relax_by_planes`), unless the instance is too large for that or ``stop`` ends it: by
    0.01 % or less, in a tenth of a second for 50 requests, 15 s for 500. The other arguments are
    those of :func:`ascend`.
    """
    bounds = [Bound(form(instance), name) for name, form in CLOSED_FORMS.items()]
    prices, value = ascend(
        instance, iterations=iterations, seed=seed, start=start, horizon=horizon, stop=stop
    )
    if planes and can_relax_by_planes(instance, prices.horizon):
        raised = relax_by_planes(instance, prices=prices, start=start, stop=stop)
        prices, value = raised.prices, raised.bound
    bounds.append(Bound(value, "prices", prices))
    return max(bounds, key=lambda bound: bound.value)
