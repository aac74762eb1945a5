"""The exact solver: proven optimum of small backlogs, and the gap where time does not suffice.

Two ways to a bound. Where the budget is small (the synthetic family of [3]) a schedule is a path
through the multisets of what running requests hold, and the relaxation "each request once on
average" is solved over all of these (:mod:`sortedf.kernels.exact_relaxation`); a search over
partial schedules guided by it finds schedules, and proves when it is complete. Where budgets are
too large for that, starts are branched on with price bounds (:mod:`sortedf.lp.branching`). Both
are exact integers. Before either, backlogs of one-token outputs are searched set by set
(:mod:`sortedf.solvers.exact.one_token`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

from sortedf.kernels.exact_search import MOST_REQUESTS, MOST_TOKENS
from sortedf.kernels.exact_states import combine, count_states, one_class
from sortedf.lp.bounds import CLOSED_FORMS
from sortedf.lp.branching import MOST_STEPS, horizon_of
from sortedf.model import Instance, StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers.exact.annealing import by_annealing
from sortedf.solvers.exact.holdings import MOST_STATES, by_states
from sortedf.solvers.exact.one_token import by_sets, has_one_token_outputs
from sortedf.solvers.exact.starts import by_prices
from sortedf.solvers.exact.work import Stopped, Work
from sortedf.solvers.in_order import shortest_of_orders
from sortedf.solvers.solver import Planned, Progress, Solver
from sortedf.solvers.stop import MaxIterations, Stop

FIRST_ROUNDS = 20
"""Rounds of annealing before the first bound but the closed forms."""


def supports(instance: Instance) -> bool:
    """Whether there are at most 64 requests over a horizon of at most 65,536 steps."""
    return len(instance) <= MOST_REQUESTS and horizon_of(instance) <= MOST_STEPS


def has_few_states(instance: Instance) -> bool:
    """Whether the holdings of running requests make few enough multisets."""
    return (
        instance.kv_tokens <= MOST_TOKENS
        and count_states(instance.kv_tokens, [int(instance.prompt_tokens.max())]) <= MOST_STATES
    )


def plan(
    instance: Instance, seed: int, *, stop: Stop, report: Callable[[Progress], None]
) -> Planned:
    """Search until proved or stopped; one iteration is some ms of work."""
    _warm_up()
    _, schedule = shortest_of_orders(instance)
    work = Work(instance, schedule, stop, report)
    reason = StopReason.FINISHED
    try:
        work.tick()
        for closed_form in CLOSED_FORMS.values():
            work.proved(closed_form(instance), BoundKind.CERTIFIED)
        by_annealing(work, seed, FIRST_ROUNDS)
        if has_one_token_outputs(instance):
            by_sets(work)
        if has_few_states(instance):
            by_states(work, seed)
        else:
            by_prices(work, seed)
    except Stopped as stopped:
        reason = stopped.reason
    except KeyboardInterrupt:
        reason = StopReason.INTERRUPTED
    return Planned(
        work.schedule,
        {"iterations": work.iterations},
        reason,
        work.bound,
        work.kind,
        None if work.bound is None else work.proof,
    )


@cache
def _warm_up() -> None:
    """Have all kernels compiled, or loaded, before the clock of a search starts."""
    tiny = Instance([1, 2, 1], [2, 3, 4], 6)
    for way in (by_states, by_prices):
        work = Work(tiny, shortest_of_orders(tiny)[1], MaxIterations(400), lambda progress: None)
        with suppress(Stopped):
            way(work, 0)
    combine(6, one_class(6, 1, 5), one_class(6, 2, 5))


SOLVERS = (
    Solver(
        "exact",
        "proven optimum of a small backlog",
        plan,
        anytime=True,
        exact=True,
        deterministic=False,
        supports=supports,
        scope=f"up to {MOST_REQUESTS} requests, last release and outputs up to {MOST_STEPS} steps",
        instead="improve",
        several_workers=False,
    ),
)
