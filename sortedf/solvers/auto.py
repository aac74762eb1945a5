"""`auto`: picks a solver by the size of the backlog and by whether there is time to search."""

from __future__ import annotations

from collections.abc import Callable

from sortedf.model import Instance
from sortedf.solvers import exact, improve
from sortedf.solvers.in_order import shortest_of_orders
from sortedf.solvers.solver import Planned, Progress, Solver, compile_kernels
from sortedf.solvers.stop import Stop

LARGEST_FOR_EXACT = 30
"""Requests up to which a proof within the limit is likely enough to try for it first."""


def plan(
    instance: Instance,
    seed: int,
    *,
    stop: Stop | None,
    report: Callable[[Progress], None],
    lookahead: int = 1,
) -> Planned:
    """Without a limit take the best quick schedule at once; with one, search until it is reached.

    A search is ``exact`` up to ``LARGEST_FOR_EXACT`` requests, else ``improve``. It is never worse
    than any simple order, whose lookahead is ``lookahead``.
    """
    order, quick = shortest_of_orders(instance, lookahead)
    if stop is None:
        return Planned(quick, {"lookahead": lookahead, "chosen": order})
    searchers = exact.SOLVERS if len(instance) <= LARGEST_FOR_EXACT else improve.SOLVERS
    chosen = next((s for s in searchers if s.takes(instance)), improve.SOLVERS[0])
    compile_kernels(chosen, min(len(instance.workers), 2))
    stop.share(0)  # starts the clock
    found = chosen.plan(instance, seed, stop=stop, report=report)
    best = min(found.schedule, quick, key=lambda schedule: schedule.total_latency(instance))
    parameters = {"lookahead": lookahead, "chosen": chosen.name, **found.parameters}
    return found._replace(schedule=best, parameters=parameters)


SOLVERS = (
    Solver(
        "auto",
        "the best simple order at once; with a time limit, a search",
        plan,
        ("lookahead",),
        anytime=True,
        deterministic=False,
        limit_seconds=None,
    ),
)
