"""Lower bounds by name, and the best of them: closed forms, prices, branching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sortedf.errors import OptionError
from sortedf.lp.ascent import Stop, ascend, best_in_order
from sortedf.lp.branching import MOST_STEPS, Branching, horizon_of
from sortedf.lp.closed_forms import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.cutting_plane import relax_by_planes
from sortedf.lp.packing_bound import packing_bound
from sortedf.lp.prices import Prices
from sortedf.lp.tree import Tree
from sortedf.lp.worker_prices import WorkerPrices, ascend_by_worker, tiers_of
from sortedf.model import Instance, Schedule

CLOSED_FORMS = {
    "output": output_bound,
    "volume": volume_bound,
    "mean-busy-time": mean_busy_time_bound,
    "packing": packing_bound,
}

BRANCHING_STEPS = 500
"""Steps of ``branching`` when nothing else stops it, some ms each at 50 requests."""

LARGEST_FOR_BRANCHING = 64
"""Requests up to which ``auto`` branches, given time: beyond, it brings next to nothing."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on the total latency.

    Parameters
    ----------
    value
        Exact; the total latency of every schedule is at least this (rounded up).
    kind
        The method, a key of ``METHODS``.
    prices, tree, worker_prices
        What proves it, one of them; all ``None`` for a closed form, which is a formula.
    """

    value: Fraction
    kind: str
    prices: Prices | None = None
    tree: Tree | None = None
    worker_prices: WorkerPrices | None = None

    @property
    def is_certifiable(self) -> bool:
        """Whether there are prices, lists or a tree of them, to write into a certificate."""
        return self._proof is not None

    @property
    def _proof(self) -> Prices | Tree | WorkerPrices | None:
        return self.prices or self.tree or self.worker_prices

    def prices_of(self, worker: int) -> Prices | None:
        """Give the prices of a worker's memory, if prices prove the bound."""
        if self.worker_prices is None:
            return self.prices
        return self.worker_prices.lists[self.worker_prices.of_worker[worker]]

    def to_dict(self) -> dict[str, Any]:
        """Give the part of a certificate that proves the bound; see ``docs/formats.md``.

        Raises
        ------
        OptionError
            For a closed form.
        """
        proof = self._proof
        if proof is None:
            raise OptionError(f"{self.kind} is a formula: it has no certificate; use prices")
        return proof.to_dict()


@dataclass(frozen=True)
class Method:
    """A way to a bound.

    Parameters
    ----------
    title
        What it is, in a few words.
    find
        ``find(instance, seed=..., start=..., stop=...)``: the options of :func:`lower_bound`.
        Every request fits the budget alone.
    """

    title: str
    find: Callable[..., Bound]


def _closed(name: str) -> Callable[..., Bound]:
    return lambda instance, **options: Bound(CLOSED_FORMS[name](instance.pooled), name)


def prices_bound(
    instance: Instance,
    *,
    iterations: int | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    horizon: int | None = None,
    stop: Stop | None = None,
) -> Bound:
    """Bound by the prices that :func:`ascend` finds, of each worker where that is more."""
    prices, value = ascend(
        instance.pooled, iterations=iterations, seed=seed, start=start, horizon=horizon, stop=stop
    )
    together = Bound(value, "prices", prices)
    if len(tiers_of(instance).budgets) == 1:
        return together
    lists, value = ascend_by_worker(
        instance, prices, iterations=iterations, seed=seed, start=start, stop=stop
    )
    return best_of([Bound(value, "prices", worker_prices=lists), together])


def planes_bound(
    instance: Instance,
    *,
    seed: int = 0,
    start: Schedule | None = None,
    stop: Stop | None = None,
) -> Bound:
    """Raise the prices of :func:`ascend` to the value of the linear program.

    By 0.01 % or less; in a tenth of a second for 50 requests, 15 s for 500.

    Raises
    ------
    OptionError
        If the instance is too large for that.
    """
    pooled = instance.pooled
    prices, _ = ascend(pooled, seed=seed, start=start, stop=stop)
    raised = relax_by_planes(pooled, prices=prices, start=start, stop=stop)
    return Bound(raised.bound, "planes", raised.prices)


def branching_bound(
    instance: Instance,
    *,
    seed: int = 0,
    start: Schedule | None = None,
    stop: Stop | None = None,
) -> Bound:
    """Bound by branching on start times; the better ``start`` is, the faster.

    Raises
    ------
    OptionError
        If the horizon is over ``MOST_STEPS`` steps.
    """
    if (horizon := horizon_of(instance)) > MOST_STEPS:
        raise OptionError(
            f"branching takes a horizon of {MOST_STEPS} steps at most, this is one of {horizon}; "
            "use prices"
        )
    schedule = best_in_order(instance) if start is None else start
    value = schedule.total_latency(instance)
    branching = Branching(instance.pooled, schedule.starts, value)
    for number, step in enumerate(branching.steps(), 1):
        if stop is None:
            stopped: object = number >= BRANCHING_STEPS
        else:
            stopped = stop(number, value, step.bound)
        if stopped:
            break
    return Bound(branching.tree.value, "branching", tree=branching.tree)


METHODS: dict[str, Method] = {
    "output": Method("sum of the outputs", _closed("output")),
    "volume": Method("volumes one after the other", _closed("volume")),
    "mean-busy-time": Method("mean busy times of the fluid schedule", _closed("mean-busy-time")),
    "packing": Method("large requests, by dual-feasible functions", _closed("packing")),
    "prices": Method("prices of memory, by ascent", prices_bound),
    "planes": Method("prices raised to the linear program, by cutting planes", planes_bound),
    "branching": Method("start times split, prices for each part", branching_bound),
}
"""Every bound by name, the quick ones first."""


def find_methods(
    name: str, instance: Instance | None = None, *, limited: bool = False, certified: bool = False
) -> list[str]:
    """Look up the methods to run: the formulas, and the one named; ``auto`` chooses.

    It chooses by the size of the instance and by whether there is a time limit to be used.

    Raises
    ------
    OptionError
        For an unknown method, and for a formula where a limit or a certificate is asked for.
    """
    if name == "auto":
        chosen = ["prices"]
        if instance is not None and limited and len(instance) <= LARGEST_FOR_BRANCHING:
            chosen += ["branching"] if horizon_of(instance) <= MOST_STEPS else []
        return [*CLOSED_FORMS, *chosen]
    if name not in METHODS:
        raise OptionError(f"there is no bound {name!r}; choose from auto, {', '.join(METHODS)}")
    if name in CLOSED_FORMS and limited:
        raise OptionError(f"{name} is a formula; it takes no limit")
    if name in CLOSED_FORMS and certified:
        others = ", ".join(name for name in METHODS if name not in CLOSED_FORMS)
        raise OptionError(f"{name} is a formula and has no certificate; choose from {others}")
    return [*CLOSED_FORMS, *({name} - CLOSED_FORMS.keys())]


def lower_bounds(
    instance: Instance,
    *,
    iterations: int | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    horizon: int | None = None,
    stop: Stop | None = None,
) -> list[Bound]:
    """Take the closed forms, and the prices that :func:`ascend` finds; its options."""
    bounds = [Bound(form(instance.pooled), name) for name, form in CLOSED_FORMS.items()]
    prices = prices_bound(
        instance, iterations=iterations, seed=seed, start=start, horizon=horizon, stop=stop
    )
    return [*bounds, prices]


def best_of(bounds: Sequence[Bound]) -> Bound:
    """Return the highest bound, the last of equal ones."""
    return max(reversed(bounds), key=lambda bound: bound.value)


def best_proof(bounds: Sequence[Bound]) -> Bound | None:
    """Return the highest bound that a certificate can prove, if there is one."""
    proofs = [bound for bound in bounds if bound.is_certifiable]
    return best_of(proofs) if proofs else None


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
    return best_of(
        lower_bounds(
            instance, iterations=iterations, seed=seed, start=start, horizon=horizon, stop=stop
        )
    )
