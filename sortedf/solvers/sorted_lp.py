"""Sorted-LP and LP-Swap [1, arXiv 2508.06133]: list scheduling by the starts of a relaxation.

Sorted-LP solves the linear program over all starts of all requests, in which a request may be
split, and ranks the requests by their expected start. LP-Swap exchanges requests of that order
while the total latency falls. What exactly the paper exchanges was not to be had; that pairs of
the order are exchanged, and that the total latency decides, is derived for this project.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortedf.errors import whole_number
from sortedf.lp.ascent import best_in_order
from sortedf.lp.distinct import distinct
from sortedf.lp.expected_starts import expected_starts
from sortedf.lp.fractional import FractionalStarts, check_alpha
from sortedf.model import Instance, StopReason
from sortedf.model.instance import IntArray
from sortedf.model.result import BoundKind
from sortedf.solvers.exact.work import Stopped, Work
from sortedf.solvers.in_order import schedule_in_order
from sortedf.solvers.solver import Planned, Progress, Solver
from sortedf.solvers.stop import Stop

REACH = 10
"""Farthest exchange of LP-Swap, in positions of the order."""

RELAXATION_SHARE = 0.5
"""Share of a time limit that LP-Swap leaves to the relaxation."""


def order_by_starts(
    instance: Instance, starts: FractionalStarts, alpha: float | None = None
) -> IntArray:
    """Rank the requests by expected start, or by the step by which a share alpha has started.

    Of equal ones the smaller volume goes first, then the first in the backlog; shape (n,).
    """
    key = starts.means() if alpha is None else starts.points(alpha)
    return np.lexsort((instance.volume, key))


def plan_sorted_lp(
    instance: Instance, seed: int, lookahead: int = 1, alpha: float | None = None
) -> Planned:
    """List-schedule by the relaxation's starts."""
    _check(lookahead, alpha)
    starts, bound = expected_starts(instance.pooled, best_in_order(instance))
    return Planned(
        schedule_in_order(instance, order_by_starts(instance, starts, alpha), lookahead),
        {"lookahead": lookahead, "alpha": alpha},
        bound=bound.value,
        bound_kind=BoundKind.CERTIFIED,
    )


def plan_lp_swap(
    instance: Instance,
    seed: int,
    *,
    stop: Stop,
    report: Callable[[Progress], None],
    lookahead: int = 1,
    alpha: float | None = None,
) -> Planned:
    """Exchange pairs of the relaxation's order until none helps, or until stopped.

    An iteration is one exchange tried. Never worse than the simple orders.
    """
    _check(lookahead, alpha)
    work = Work(instance, best_in_order(instance), stop, report)
    reason = StopReason.FINISHED
    try:
        starts, bound = expected_starts(
            instance.pooled, work.schedule, lambda: stop.share(0) >= RELAXATION_SHARE
        )
        work.proved(bound.value)
        _exchange(work, order_by_starts(instance, starts, alpha), lookahead)
    except Stopped as stopped:
        reason = stopped.reason
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    return Planned(
        work.schedule,
        {"lookahead": lookahead, "alpha": alpha, "iterations": work.iterations},
        reason,
        work.bound,
        None if work.bound is None else BoundKind.CERTIFIED,
    )


def _check(lookahead: int, alpha: float | None) -> None:
    """Refuse options before the relaxation takes its time."""
    whole_number("lookahead", lookahead, 1)
    if alpha is not None:
        check_alpha(alpha)


def _exchange(work: Work, order: IntArray, lookahead: int) -> None:
    """Try all pairs one apart, front to end, then two apart, and so on to ``REACH``.

    An exchange is kept if the total latency falls. It starts anew until a whole turn has changed
    nothing. One list schedule for each pair tried.
    """
    instance = work.instance
    kind = distinct(instance).kind
    schedule = schedule_in_order(instance, order, lookahead)
    total = schedule.total_latency(instance)
    work.found(schedule)
    changed = True
    while changed:
        changed = False
        for apart in range(1, min(REACH, len(order) - 1) + 1):
            for one in range(len(order) - apart):
                two = one + apart
                if kind[order[one]] == kind[order[two]]:
                    continue
                order[[one, two]] = order[[two, one]]
                schedule = schedule_in_order(instance, order, lookahead)
                latency = schedule.total_latency(instance)
                if latency < total:
                    total, changed = latency, True
                    work.found(schedule)
                else:
                    order[[one, two]] = order[[two, one]]
                work.tick()


def _solver(name: str, title: str, plan: Callable[..., Planned], anytime: bool) -> Solver:
    return Solver(name, title, plan, ("lookahead", "alpha"), anytime=anytime, fast_up_to=100)


SOLVERS = (
    _solver("sorted-lp", "by the starts of the linear relaxation", plan_sorted_lp, anytime=False),
    _solver("lp-swap", "that order improved by exchanges", plan_lp_swap, anytime=True),
)
