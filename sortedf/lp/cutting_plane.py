"""The best prices of all, by cutting planes from good ones: the value of the linear program.

In the space of prices each start p of a request is a plane above its least cost, min_p F(p), and
the price bound is to be highest under all planes. Only few of them matter near the best prices:
those of starts that are nearly cheapest at good prices. HiGHS maximises under these; its answer is
at the same time the time-indexed program restricted to these starts, a bound on its value from
above. Starts that are nearly cheapest at the new prices are added, until the bound of some prices,
taken over all starts, is no less than the value under the planes. The planes at hand hold the
prices near those that they come from, as a trust region would; a box around the best prices was
tried beside it and cost more than it brought. Derived for this project.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.ascent import Stop, ascend, best_in_order, check_sizes
from sortedf.lp.distinct import Distinct, distinct
from sortedf.lp.highs import LpStatus, Solution, solve_program
from sortedf.lp.prices import Prices, price_bound, rounded
from sortedf.lp.program import Program, Starts, by_differences
from sortedf.lp.time_indexed import Relaxation, relaxation
from sortedf.model import Instance, Schedule

MOST_STARTS = 40_000_000
"""Kinds of requests times steps up to which the costs of all starts are laid out: 8 bytes each."""

STARTS_PER_KIND = 50
"""How many starts the first program has for each kind of request; measured at n = 50 to 1,000."""

CLOSED = 1e-7
"""Relative distance of the two values at which they count as one; HiGHS has 1e-8."""

WAYS = (1.0, 0.5, 0.25, 0.1)
"""Prices tried from the best towards those of HiGHS, which are too low where a plane is missing."""


def relax_by_planes(
    instance: Instance,
    *,
    prices: Prices | None = None,
    start: Schedule | None = None,
    rounds: int = 50,
    stop: Stop | None = None,
) -> Relaxation:
    """Raise prices to the value of the linear program.

    Parameters
    ----------
    prices
        Where to start, with a horizon of at least 1; those of :func:`ascend` when left out.
    start
        A feasible schedule; the shortest of three list schedules when left out.
    rounds
        Most linear programs to solve.
    stop
        Asked before each program and while it runs, with the programs solved so far, the total
        latency of ``start`` and the best bound.

    Returns
    -------
    Relaxation
        ``optimal`` when bound and value are within ``CLOSED`` of each other, else ``stopped``; the
        bound never below that of the prices given. ``value`` is the least value of a restricted
        program, at least that of the whole one, and ``starts`` its solution; infinite and ``None``
        if none was solved.

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    OptionError
        If there are more than ``MOST_STARTS`` possible starts.
    KeyboardInterrupt
        On Ctrl-C, once HiGHS has stopped.

    Notes
    -----
    Mostly two to six programs, each of T + n rows, T + 50 n columns and 5 nonzeros a column.
    """
    check_sizes(instance)
    begin = time.perf_counter()
    if prices is None:
        prices, bound = ascend(instance, start=start, stop=stop)
    else:
        bound = price_bound(instance, prices)
    schedule = best_in_order(instance) if start is None else start
    latency = schedule.total_latency(instance)
    kinds = distinct(instance)
    T = prices.horizon
    if len(kinds.weight) * (T + 1) > MOST_STARTS:
        raise OptionError(
            f"the cutting plane lays out the costs of up to {MOST_STARTS:,} starts; "
            f"{len(kinds.weight):,} kinds of requests have more over {T:,} steps"
        )
    done = 0

    def stopped() -> bool:
        return stop is not None and bool(stop(done, latency, bound))

    planes = _Planes(kinds, T, schedule)
    centre = prices.per_step()
    planes.add(centre)
    solved: tuple[Program, Solution] | None = None
    closed = False
    while done < rounds and not closed and not stopped():
        program = by_differences(instance, T, planes.starts())
        found = solve_program(program, stopped=stopped)
        if found.status != LpStatus.OPTIMAL:
            break
        done += 1
        solved = program, found
        trial = np.append(0.0, program.prices(found.row_duals, found.reduced_costs))
        planes.add(trial)
        old = centre
        for way in WAYS:
            tried = old + way * (trial - old)
            exact = rounded(instance, np.arange(T + 1), tried[1:], np.zeros(T))
            value = price_bound(instance, exact)
            if value > bound:
                bound, prices, centre = value, exact, tried
        planes.add(centre)
        closed = found.value - float(bound) <= CLOSED * found.value
    status = LpStatus.OPTIMAL if closed else LpStatus.STOPPED
    return relaxation(instance, status, prices, solved, time.perf_counter() - begin)


class _Planes:
    """The starts at hand, at first those of a schedule; ``add`` takes in what prices call for."""

    def __init__(self, kinds: Distinct, horizon: int, schedule: Schedule) -> None:
        self.kinds = kinds
        self.horizon = horizon
        self.taken: npt.NDArray[np.bool_] = np.zeros((len(kinds.weight), horizon + 1), np.bool_)
        self.taken[kinds.kind, np.minimum(schedule.starts, horizon)] = True
        self.near: float | None = None

    def add(self, per_step: FloatArray) -> None:
        """Take in the starts within ``near`` of the least cost; the first prices set it."""
        above = start_costs(self.kinds, per_step)
        above -= above.min(axis=1, keepdims=True)
        if self.near is None:
            most = min(STARTS_PER_KIND * len(above), above.size - 1)
            self.near = float(np.partition(above, most, axis=None)[most])
            self.near = self.near if np.isfinite(self.near) else float(self.horizon)
        self.taken |= above <= self.near

    def starts(self) -> Starts:
        """Lay them out; a request released after T starts at once, which stands at T here."""
        kind, step = np.nonzero(self.taken)
        return Starts(kind, np.maximum(step, self.kinds.release[kind]))


def start_costs(kinds: Distinct, per_step: FloatArray) -> FloatArray:
    """Cost p - a + o + sum_k price(p + k) (s + k) of every start p = 0..T, shape (kinds, T + 1).

    ``per_step`` (T + 1,), entry 0 unused. Infinite before the release; for a release after T the
    last entry is the cost of starting then. In floats, O(kinds x T).
    """
    T = len(per_step) - 1
    steps = np.arange(T + 1)
    total = np.cumsum(per_step)
    moment = np.cumsum(per_step * steps)
    costs = np.empty((len(kinds.weight), T + 1))
    columns = (kinds.prompt_tokens, kinds.output_tokens, kinds.release)
    for cost, s, o, a in zip(costs, *(column.tolist() for column in columns), strict=True):
        ends = np.minimum(steps + o, T)
        cost[:] = steps + (o - a) + (s - steps) * (total[ends] - total) + moment[ends] - moment
        cost[: min(a, T)] = np.inf
        if a > T:
            cost[T] = o
    return costs
