"""Prices by ascent: a list schedule's shortage of memory to start from, then Adam.

The float ascent only proposes; what is returned is rounded and its bound taken in exact integers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np

from sortedf.errors import InfeasibleError
from sortedf.kernels.list_schedule import list_schedule
from sortedf.kernels.price_ascent import FloatArray, cheapest_starts, piece_loads
from sortedf.lp.prices import Prices, beyond, price_bound, rounded
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.orders import ORDERS

SAMPLE = 2000
"""Most requests (or groups of equal ones) that an ascent looks at; of more, a sample."""

SCALES = (1.0, 0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2)
LINEAR_PIECES = 100
LINEAR_ITERATIONS = 150
FINE_WORK = 2_000_000
FINE_ITERATIONS = 300


class Stop(Protocol):
    """What ends an ascent early; the stop criteria of ``sortedf.solvers.stop`` fit."""

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> object | None:
        """Return something true to stop; ``best`` is the total latency of the start schedule."""


class Groups(NamedTuple):
    """Requests with how often each counts; shape (groups,)."""

    prompt_tokens: IntArray
    output_tokens: IntArray
    release: IntArray
    weight: FloatArray


def groups_of(instance: Instance, most: int, seed: int) -> Groups:
    """Gather equal requests, then draw at most ``most`` of them, spread evenly over the volumes.

    Of more, every k-th request in the order of release and volume is drawn, the first by the seed
    (the middle one of the first k for seed 0), and counts k times. O(n log n).
    """
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    order = np.lexsort((o, instance.volume, a))
    s, o, a = s[order], o[order], a[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (s[1:] != s[:-1]) | (o[1:] != o[:-1]) | (a[1:] != a[:-1])
    if np.count_nonzero(new) > most:
        offset = 0.5 if seed == 0 else np.random.PCG64(seed).random_raw() / 2**64
        drawn = ((np.arange(most) + offset) * (len(order) / most)).astype(np.int64)
        return Groups(s[drawn], o[drawn], a[drawn], np.full(most, len(order) / most))
    first = np.flatnonzero(new)
    weight = np.diff(np.append(first, len(order))).astype(np.float64)
    return Groups(s[first], o[first], a[first], weight)


class Dual:
    """The price bound as a function of prices on the pieces of one grid, in floats.

    Parameters
    ----------
    groups
        The requests.
    kv_tokens
        The budget M.
    nodes
        Ends of the pieces, int64 of shape (K + 1,), from 0 to T.
    """

    def __init__(self, groups: Groups, kv_tokens: int, nodes: IntArray, reach: int) -> None:
        self.groups = groups
        self.kv_tokens = float(kv_tokens)
        self.nodes = nodes
        self.steps = np.diff(nodes).astype(np.float64)
        self.pairs = self.steps * (self.steps - 1) / 2
        self.extended = np.append(nodes, reach)
        n = len(groups.weight)
        self.least = np.empty(n)
        self.earliest = np.empty(n, np.int64)
        self.latest = np.empty(n, np.int64)
        self.load = np.empty(len(nodes))
        self.moment = np.empty(len(nodes))

    def __call__(
        self, value: FloatArray, slope: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Bound, and its supergradient by the value and the slope of each piece."""
        s, o, a, weight = self.groups
        columns = (np.append(value, 0.0), np.append(slope, 0.0))
        cheapest_starts(
            self.extended, *columns, s, o, a, self.least, self.earliest, self.latest, 0.0
        )
        piece_loads(self.extended, s, o, weight, self.earliest, self.load, self.moment)
        paid = self.kv_tokens * float(value @ self.steps + slope @ self.pairs)
        return (
            float(self.least @ weight) - paid,
            self.load[:-1] - self.kv_tokens * self.steps,
            self.moment[:-1] - self.kv_tokens * self.pairs,
        )


class Decrements:
    """Prices that fall: linear between nodes, given by how much they fall from node to node."""

    def __init__(self, dual: Dual) -> None:
        self.dual = dual

    def pieces(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value and slope of each piece."""
        at_nodes = np.cumsum(x[::-1])[::-1]
        slope = np.diff(at_nodes) / self.dual.steps
        return at_nodes[:-1] + slope, slope

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient."""
        bound, by_value, by_slope = self.dual(*self.pieces(x))
        gradient = np.zeros(len(x))
        tilt = (by_value + by_slope) / self.dual.steps
        gradient[:-1] = by_value - tilt
        gradient[1:] += tilt
        return bound, np.cumsum(gradient)


class Constants:
    """Prices that are constant on each piece."""

    def __init__(self, dual: Dual) -> None:
        self.dual = dual

    def pieces(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value and slope of each piece."""
        return x, np.zeros(len(x))

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient."""
        bound, by_value, _ = self.dual(*self.pieces(x))
        return bound, by_value


def adam(
    function: Decrements | Constants,
    x: FloatArray,
    step: float,
    iterations: int,
    stopped: Callable[[], bool],
) -> tuple[float, FloatArray]:
    """Ascend by Adam on non-negative variables; the step falls linearly to 0. Best point found."""
    mean = np.zeros(len(x))
    square = np.zeros(len(x))
    best, best_x = -np.inf, x
    for k in range(iterations):
        bound, gradient = function(x)
        if bound > best:
            best, best_x = bound, x
        if stopped():
            break
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient * gradient - square)
        corrected = np.sqrt(square / (1 - 0.99 ** (k + 1))) + 1e-12
        length = step * (1 - k / iterations) / (1 - 0.9 ** (k + 1))
        x = np.maximum(x + length * mean / corrected, 0.0)
    return best, best_x


def quadratic_nodes(horizon: int, pieces: int) -> IntArray:
    """Place the ends of pieces at T (j / K)^2, rounded, distinct: short where prices are high."""
    if pieces >= horizon:
        return np.arange(horizon + 1, dtype=np.int64)
    fractions = (np.arange(pieces + 1) / pieces) ** 2
    return np.unique(np.rint(fractions * horizon).astype(np.int64))


def best_in_order(instance: Instance) -> Schedule:
    """Shortest of the strict list schedules by volume, output and total size."""
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    schedules = [
        Schedule(
            list_schedule(
                instance.prompt_tokens,
                instance.output_tokens,
                instance.release,
                ORDERS[name](instance),
                min(instance.kv_tokens, needed),
                1,
            )
        )
        for name in ("svf", "mcsf", "size")
    ]
    return min(schedules, key=lambda schedule: schedule.total_latency(instance))


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
        How many ascent steps in all; by default what takes about a second.
    seed
        Draws the sample of a large instance; small ones need none.
    start
        A good feasible schedule, whose shortage of memory gives the first prices; a list schedule
        when left out.
    horizon
        Last priced step T; by default the makespan of ``start``.
    stop
        Asked before every step; ends the ascent with the best prices so far.

    Returns
    -------
    Prices, Fraction
        The same for the same arguments (as long as no ``stop`` looks at a clock).

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    """
    if len(instance.oversized):
        found = instance.oversized.tolist()
        size = instance.prompt_tokens + instance.output_tokens
        raise InfeasibleError(
            [(i, instance.ids[i], int(size[i])) for i in found], instance.kv_tokens
        )
    schedule = best_in_order(instance) if start is None else start
    latency = schedule.total_latency(instance)
    last = schedule.makespan(instance) if horizon is None else horizon
    groups = groups_of(instance, SAMPLE, seed)
    linear = LINEAR_ITERATIONS if iterations is None else -(-iterations // 3)
    fine = FINE_ITERATIONS if iterations is None else iterations - linear
    done = 0

    def stopped() -> bool:
        nonlocal done
        done += 1
        return stop is not None and bool(stop(done, latency, None))

    reach = beyond(instance, last)
    nodes = quadratic_nodes(last, LINEAR_PIECES)
    decrements = Decrements(Dual(groups, instance.kv_tokens, nodes, reach))
    x = _start(instance, schedule, nodes)
    scale = max(SCALES, key=lambda c: decrements(c * x)[0])
    x = scale * x
    step = 0.3 * float(x.sum()) / len(x)
    _, x = adam(decrements, x, step, linear, stopped)
    candidates = [rounded(instance, nodes, *decrements.pieces(x))]
    if len(groups.weight) == len(instance) or groups.weight.min() == 1:
        pieces = max(LINEAR_PIECES, FINE_WORK // len(groups.weight))
        fine_nodes = quadratic_nodes(last, pieces)
        constants = Constants(Dual(groups, instance.kv_tokens, fine_nodes, reach))
        y = _averages(nodes, x, fine_nodes)
        _, y = adam(constants, y, 0.015 * float(y.max(initial=0.0)), fine, stopped)
        candidates.append(rounded(instance, fine_nodes, *constants.pieces(y)))
    bounds = [price_bound(instance, prices) for prices in candidates]
    best = max(range(len(bounds)), key=bounds.__getitem__)
    return candidates[best], bounds[best]


def _start(instance: Instance, schedule: Schedule, nodes: IntArray) -> FloatArray:
    """Fall, from node to node, of the number released and unfinished over M."""
    completions = np.sort(schedule.starts + instance.output_tokens)
    releases = np.sort(instance.release)
    waiting = np.searchsorted(releases, nodes, side="right") - np.searchsorted(
        completions, nodes, side="right"
    )
    # Prices that only fall: from the right, the largest so far.
    falling = np.maximum.accumulate(waiting[::-1])[::-1] / instance.kv_tokens
    return np.append(falling[:-1] - falling[1:], falling[-1])


def _averages(nodes: IntArray, x: FloatArray, fine_nodes: IntArray) -> FloatArray:
    """Mean price on each fine piece of prices linear between nodes."""
    at_nodes = np.cumsum(x[::-1])[::-1]
    per_step = np.interp(np.arange(int(nodes[-1]) + 1), nodes, at_nodes)
    return np.add.reduceat(per_step[1:], fine_nodes[:-1]) / np.diff(fine_nodes)
