"""Prices by ascent: a shortage of memory to start from, then Adam, first coarse, then fine.

The ascent runs in floats and only proposes: what is returned is rounded to integers over one
denominator and its bound taken exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Protocol

import numpy as np

from sortedf.errors import InfeasibleError, OptionError
from sortedf.kernels.list_schedule import list_schedule
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.adam import adam
from sortedf.lp.dual import Decrements, Dual, groups_of
from sortedf.lp.prices import Prices, beyond, price_bound, rounded
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.orders import ORDERS

SAMPLE = 2000
"""Most different requests that the ascent looks at; of more, a sample."""

SAMPLE_WITH_RELEASES = 100_000
"""The same where requests come over time, each looked at near its release only."""

COARSE_PIECES = 200
COARSE_ITERATIONS = 150

FINE_PIECES = 20_000
FINE_PIECES_BY_GROUPS = 1_600_000
"""Most pieces of the fine grid, and most pieces times groups; one a step if that is less."""

FINE_WORK = 150_000_000
"""Cells looked at by the fine ascent by default, a node counted as four: about a second."""

FINE_ITERATIONS = (100, 4000)
"""Least and most iterations of the fine ascent by default."""

FIRST_STEP = 1000
"""First step of the fine ascent, in longest moves that do not lower the bound."""

MOST_CELLS = 10_000_000
"""With releases, cells that one look may take; a grid that takes more is made coarser."""

SCALES = (1.05, 1.0, 0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2)
"""Tried on the first prices."""

SCALES_WITH_RELEASES = (*SCALES, 0.1, 0.05, 0.02)

STEP_WITH_RELEASES = 0.3
"""First step of the ascent of free prices from the first ones, in shares of these."""


class Searched(Protocol):
    """A bound as a function of prices; ``cells`` is how many its last evaluation looked at."""

    cells: int

    def __call__(self, at_nodes: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient."""


class Stop(Protocol):
    """What ends an ascent early; the stop criteria of ``sortedf.solvers.stop`` fit."""

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> object | None:
        """Return something true to stop; ``best`` is the total latency of the start schedule."""


def ascend(
    instance: Instance,
    *,
    iterations: int | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    horizon: int | None = None,
    stop: Stop | None = None,
) -> tuple[Prices, Fraction]:
    """Find good prices for an instance, and the exact bound that they prove.

    Parameters
    ----------
    iterations
        How many ascent steps, coarse and fine together; by default what takes a second or two.
    seed
        Draws the sample of an instance of more than ``SAMPLE`` different requests; others need
        none.
    start
        A feasible schedule; the shortest of three list schedules when left out.
    horizon
        Last priced step T, at least 1; by default the makespan of ``start``.
    stop
        Asked before each step but the first of a stage; ends the ascent with the best prices so
        far. Each stage evaluates its first prices in any case.

    Returns
    -------
    Prices, Fraction
        The same for the same arguments (as long as no ``stop`` looks at a clock).

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    OptionError
        If an option is out of its range.

    Notes
    -----
    1. Prices that start as the number unfinished over M, in the fluid schedule that runs one
       request after the other by volume (whose bound is the mean-busy-time bound) or in ``start``,
       scaled: which is best.
    2. Prices linear between nodes T (j / K)^2, K = ``COARSE_PIECES``, that only fall: Adam on the
       falls.
    3. If no sample was needed: a finer grid, down to one piece a step, prices free: Adam on the
       prices, with steps proportional to them, and the mean of the second half tried too.

    With releases prices rise and fall again, and there is one grid of even pieces: they start as
    in ``start``, scaled; Adam on free prices for as many iterations as 2. has; then as in 3.

    An iteration takes O(groups x pieces) at most. Derived for this project.
    """
    check_sizes(instance)
    if iterations is not None and iterations < 0:
        raise OptionError(f"the number of iterations is {iterations}; it must be at least 0")
    if horizon is not None and horizon < 1:
        raise OptionError(f"the horizon is step {horizon}; it must be at least 1")
    schedule = best_in_order(instance) if start is None else start
    last = schedule.makespan(instance) if horizon is None else horizon
    latency = schedule.total_latency(instance)
    done = 0

    def stopped() -> bool:
        nonlocal done
        done += 1
        return stop is not None and bool(stop(done, latency, None))

    stages = _over_time if instance.release.any() else _of_backlog
    candidates = [
        rounded(instance, dual.nodes, *dual.pieces(prices))
        for dual, prices in stages(instance, schedule, last, iterations, seed, stopped)
    ]
    bounds = [price_bound(instance, prices) for prices in candidates]
    best = max(range(len(bounds)), key=bounds.__getitem__)
    return candidates[best], bounds[best]


Stages = Iterator[tuple[Dual, FloatArray]]
"""A grid and prices at its nodes, one a stage."""


def _of_backlog(
    instance: Instance,
    schedule: Schedule,
    horizon: int,
    iterations: int | None,
    seed: int,
    stopped: Callable[[], bool],
) -> Stages:
    groups, reach = groups_of(instance, SAMPLE, seed), beyond(instance, horizon)
    nodes = quadratic_nodes(horizon, COARSE_PIECES)
    dual = Dual(groups, instance.kv_tokens, nodes, reach)
    starts = [fluid_prices(instance, nodes), unfinished_prices(instance, schedule, nodes)]
    first, rest = _divided(iterations)
    prices = _coarse(dual, starts, first, stopped)
    yield dual, prices
    if not groups.sampled:
        pieces = min(FINE_PIECES, FINE_PIECES_BY_GROUPS // len(groups.weight))
        fine = quadratic_nodes(horizon, pieces)
        dual = Dual(groups, instance.kv_tokens, fine, reach)
        yield dual, fine_ascent(dual, np.interp(fine, nodes, prices), rest, stopped)


def _over_time(
    instance: Instance,
    schedule: Schedule,
    horizon: int,
    iterations: int | None,
    seed: int,
    stopped: Callable[[], bool],
) -> Stages:
    groups = groups_of(instance, SAMPLE_WITH_RELEASES, seed)
    reach, pieces = beyond(instance, horizon), min(FINE_PIECES, horizon)
    dual = Dual(groups, instance.kv_tokens, even_nodes(horizon, pieces), reach)
    start = unfinished_prices(instance, schedule, dual.nodes)
    dual(start)
    if dual.cells > MOST_CELLS:
        # Where all wait for long each is looked at far from its release.
        pieces = max(COARSE_PIECES, pieces * MOST_CELLS // dual.cells)
        dual = Dual(groups, instance.kv_tokens, even_nodes(horizon, pieces), reach)
        start = unfinished_prices(instance, schedule, dual.nodes)
    first, rest = _divided(iterations)
    prices = _free(dual, start, first, stopped)
    if not groups.sampled:
        prices = fine_ascent(dual, prices, rest, stopped)
    yield dual, prices


def _divided(iterations: int | None) -> tuple[int, int | None]:
    """Divide iterations between the first stage and the rest."""
    if iterations is None:
        return COARSE_ITERATIONS, None
    first = min(iterations, COARSE_ITERATIONS)
    return first, iterations - first


def check_sizes(instance: Instance) -> None:
    """Refuse requests that are larger than the budget, as an :class:`InfeasibleError`."""
    if len(instance.oversized):
        size = instance.prompt_tokens + instance.output_tokens
        found = [(i, instance.ids[i], int(size[i])) for i in instance.oversized.tolist()]
        raise InfeasibleError(found, instance.kv_tokens)


def best_in_order(instance: Instance) -> Schedule:
    """Shortest of the strict list schedules by volume, output and total size."""
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    budgets = np.minimum(instance.budgets, needed)
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    schedules = [
        Schedule(*list_schedule(s, o, a, ORDERS[name](instance), budgets, 1))
        for name in ("svf", "mcsf", "size")
    ]
    return min(schedules, key=lambda schedule: schedule.total_latency(instance))


def quadratic_nodes(horizon: int, pieces: int) -> IntArray:
    """Place the ends of pieces at T (j / K)^2, rounded, distinct: short where prices are high."""
    if pieces >= horizon:
        return np.arange(horizon + 1, dtype=np.int64)
    fractions = (np.arange(pieces + 1) / pieces) ** 2
    return np.unique(np.rint(fractions * horizon).astype(np.int64))


def even_nodes(horizon: int, pieces: int) -> IntArray:
    """Place the ends of pieces at T j / K, rounded: where prices may be high at any time."""
    return np.unique(np.rint(np.linspace(0, horizon, min(pieces, horizon) + 1)).astype(np.int64))


def fluid_prices(instance: Instance, nodes: IntArray) -> FloatArray:
    """Count the unfinished at each node, over M, in the fluid schedule: volumes one by one.

    M token-steps a step are worked off, the least volume first; releases are not looked at.
    """
    completions = np.cumsum(np.sort(instance.volume)) / instance.kv_tokens
    unfinished = len(instance) - np.searchsorted(completions, nodes, side="right")
    return unfinished / instance.kv_tokens


def unfinished_prices(instance: Instance, schedule: Schedule, nodes: IntArray) -> FloatArray:
    """Count the released and unfinished over M: the most there are at each node or later."""
    completions = np.sort(schedule.starts + instance.output_tokens)
    released = np.searchsorted(np.sort(instance.release), nodes, side="right")
    waiting = released - np.searchsorted(completions, nodes, side="right")
    return np.maximum.accumulate(waiting[::-1])[::-1] / instance.kv_tokens


def _coarse(
    dual: Dual, starts: list[FloatArray], iterations: int, stopped: Callable[[], bool]
) -> FloatArray:
    """Take the best scaled start and ascend by falls; returns prices at the nodes."""
    function = Decrements(dual)
    tried = [scale * prices for prices in starts for scale in SCALES]
    falls = function.of(max(tried, key=lambda prices: dual(prices)[0]))
    step = 0.1 * float(falls.mean())
    return function.at_nodes(adam(function, falls, step, iterations, stopped))


def _free(
    dual: Dual, start: FloatArray, iterations: int, stopped: Callable[[], bool]
) -> FloatArray:
    """Take the best scaled start and ascend by prices; returns prices at the nodes."""
    tried = [scale * start for scale in SCALES_WITH_RELEASES]
    prices = max(tried, key=lambda prices: dual(prices)[0])
    step = STEP_WITH_RELEASES * (prices + 0.1 * float(prices.max()))
    return adam(dual, prices, step, iterations, stopped)


def fine_ascent(
    dual: Searched, prices: FloatArray, iterations: int | None, stopped: Callable[[], bool]
) -> FloatArray:
    """Ascend by prices, with a step that fits how far up a straight line leads.

    The longest move by the gradient's signs that does not lower the bound is short where the
    function has many kinks. ``FIRST_STEP`` times that, but at most half of the prices, is a good
    first step on all benchmarks (``bench/prices.py --first-steps``).
    """
    scale = prices + 0.1 * float(prices.max())
    bound, gradient = dual(prices)
    if iterations is None:
        least, most = FINE_ITERATIONS
        work = dual.cells + 4 * prices.size
        iterations = min(most, max(least, FINE_WORK // work))
    move = 2.0**-9
    up = scale * np.sign(gradient)
    while move > 1e-9 and dual(np.maximum(prices + move * up, 0.0))[0] < bound:
        move /= 2
    return adam(dual, prices, min(FIRST_STEP * move, 0.5) * scale, iterations, stopped)
