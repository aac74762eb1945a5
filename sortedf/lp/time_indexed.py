"""The time-indexed program solved by HiGHS: its value, prices, fractional starts; integers too."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.ascent import best_in_order, check_sizes
from sortedf.lp.distinct import distinct
from sortedf.lp.fractional import FractionalStarts, split
from sortedf.lp.highs import LpStatus, Solution, solve_program
from sortedf.lp.prices import Prices, price_bound, rounded
from sortedf.lp.program import (
    Program,
    Starts,
    all_starts,
    by_differences,
    by_steps,
    longest_horizon,
)
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.verify import verify

TOLERANCE = 1e-6
"""Relative excess over M after the horizon that counts as none."""


@dataclass(frozen=True)
class Relaxation:
    """A solution of the time-indexed linear program.

    Parameters
    ----------
    value
        Of the solution ``starts``, in floats (steps); infinite without one.
    bound
        What the prices prove, exact: the total latency of every schedule is at least this.
    status
        ``optimal``, ``stopped`` or ``failed``; ``bound`` is the value, up to the solver's
        tolerance, if optimal.
    prices
        The duals of the memory rows, rounded to integers over one denominator.
    starts
        Shares of each request by start in a solution; ``None`` if the solver has none.
    horizon
        Last step T with a memory row.
    complete
        Whether the solution holds at most M after T too, so that no longer horizon would raise the
        value.
    seconds
        What it took.
    """

    value: float
    bound: Fraction
    status: LpStatus
    prices: Prices
    starts: FractionalStarts | None
    horizon: int
    complete: bool
    seconds: float


@dataclass(frozen=True)
class IntegerSolution:
    """What was found of the time-indexed integer program.

    Parameters
    ----------
    value
        Total latency of the schedule (steps); ``None`` without one.
    bound
        Lower bound of the solver, in floats: a claim, not a certificate.
    status
        ``optimal``, ``stopped``, ``infeasible`` or ``failed``.
    schedule
        Verified; ``None`` if none was found.
    horizon
        Step by which everything is to be completed.
    seconds
        What it took.
    """

    value: int | None
    bound: float
    status: LpStatus
    schedule: Schedule | None
    horizon: int
    seconds: float


def relax(
    instance: Instance,
    *,
    method: str = "ipm",
    horizon: int | None = None,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Relaxation:
    """Solve the linear program of an instance whose requests each fit the budget.

    Parameters
    ----------
    method
        ``ipm`` or ``simplex``.
    horizon
        Last step T with a memory row, at least 1. Left out: the makespan of a list schedule,
        doubled until the value is that without any horizon (``complete``); see
        :mod:`sortedf.lp.program`.
    seconds
        Time limit of the solver.
    stopped
        Asked now and then; ends the solver.

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    OptionError
        For an unknown method, a horizon or limit out of range, or too large a program.
    KeyboardInterrupt
        On Ctrl-C, once HiGHS has stopped.

    Notes
    -----
    The program has (kinds of requests) x T variables with 5 nonzeros each. On the 80/20 mix at
    M = 16,492, two seconds for 50 requests, a minute for 200. ``relax_by_planes`` reaches the same
    value sooner.
    """
    check_sizes(instance)
    begin = time.perf_counter()
    last = best_in_order(instance).makespan(instance) if horizon is None else horizon
    left = seconds
    while True:
        program = by_differences(instance, last)
        found = solve_program(program, method, seconds=left, stopped=stopped)
        prices = program.prices(found.row_duals, found.reduced_costs)
        exact = rounded(instance, np.arange(last + 1), prices, np.zeros(last))
        solved = (program, found) if found.status == LpStatus.OPTIMAL else None
        result = relaxation(instance, found.status, exact, solved, time.perf_counter() - begin)
        most = longest_horizon(instance)
        done = horizon is not None or result.complete or last >= most
        if done or result.status != LpStatus.OPTIMAL:
            return result
        last = min(2 * last, most)
        left = None if seconds is None else max(seconds - (time.perf_counter() - begin), 1e-3)


def relaxation(
    instance: Instance,
    status: LpStatus,
    prices: Prices,
    solved: tuple[Program, Solution] | None,
    seconds: float,
) -> Relaxation:
    """Make plain data of what a solver found: prices, and a solution of a program if it has one."""
    value, starts, held = np.inf, None, np.inf
    if solved is not None:
        program, found = solved
        kind, step = program.starts
        value = found.value
        starts = split(program.kinds, kind, step, found.columns[: len(kind)])
        held = most_held_after(instance, starts, program.horizon)
    return Relaxation(
        value,
        price_bound(instance, prices),
        status,
        prices,
        starts,
        prices.horizon,
        held <= instance.kv_tokens * (1 + TOLERANCE),
        seconds,
    )


def most_held_after(instance: Instance, starts: FractionalStarts, horizon: int) -> float:
    """Most tokens held at any step after the horizon, in floats; O(k log k)."""
    o = instance.output_tokens[starts.request]
    late = starts.start + o > horizon
    if not late.any():
        return 0.0
    first = starts.start[late]
    s, o, share = instance.prompt_tokens[starts.request[late]], o[late], starts.share[late]
    # Held at step t: sum of share (s - p) plus t times the sum of share, over those that run. It
    # is most at a completion.
    begins, ends = np.argsort(first), np.argsort(first + o)
    steps = np.unique(first + o)

    def sums(order: IntArray, at: IntArray, side: str) -> FloatArray:
        count = np.searchsorted(at[order], steps, side=side)  # type: ignore[call-overload]
        parts = np.stack([share * (s - first), share])[:, order]
        return np.concatenate([np.zeros((2, 1)), np.cumsum(parts, axis=1)], axis=1)[:, count]

    base, running = sums(begins, first, "left") - sums(ends, first + o, "left")
    return float((base + running * steps).max())


def solve_integer(
    instance: Instance,
    *,
    horizon: int | None = None,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> IntegerSolution:
    """Solve the integer program of an instance whose requests each fit the budget.

    The least total latency of the schedules that complete by step ``horizon``, for small backlogs:
    n x T variables. The schedule is verified; that no other is better rests on HiGHS. By default
    the horizon is max a + sum o: some best schedule has completed everything by then, since a step
    at which nothing runs, once all are released, could be left out.

    Errors are those of :func:`relax`.
    """
    check_sizes(instance)
    begin = time.perf_counter()
    last = int(instance.release.max() + instance.output_tokens.sum())
    last = last if horizon is None else horizon
    kinds = distinct(instance)
    kind, step = all_starts(kinds, last)
    early = step + kinds.output_tokens[kind] <= last
    program = by_steps(instance, last, Starts(kind[early], step[early]))
    found = solve_program(program, integer=True, seconds=seconds, stopped=stopped)
    counts = np.rint(found.columns).astype(np.int64)
    schedule = None
    status = found.status
    if np.array_equal(np.bincount(kind[early], counts, len(kinds.weight)), kinds.weight):
        starts = np.empty(len(instance), np.int64)
        by_kind = np.argsort(kinds.kind, kind="stable")
        starts[by_kind] = np.repeat(program.starts.step, counts)
        report = verify(
            instance.prompt_tokens.tolist(),
            instance.output_tokens.tolist(),
            instance.release.tolist(),
            instance.kv_tokens,
            starts.tolist(),
        )
        schedule = Schedule(starts) if report.ok else None
    if schedule is None and status == LpStatus.OPTIMAL:
        status = LpStatus.FAILED
    return IntegerSolution(
        None if schedule is None else schedule.total_latency(instance),
        found.bound,
        status,
        schedule,
        last,
        time.perf_counter() - begin,
    )
