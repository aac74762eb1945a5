"""Branching on start times with price bounds, and schedules from the nodes' mean starts."""

from __future__ import annotations

import numpy as np

from sortedf.lp.branching import Branching
from sortedf.model import Schedule
from sortedf.model.instance import IntArray
from sortedf.model.result import BoundKind
from sortedf.solvers.exact.annealing import by_annealing
from sortedf.solvers.exact.work import Work
from sortedf.solvers.in_order import schedule_in_order
from sortedf.verify import verify

ANNEALING = 50
"""Rounds of annealing before the branching."""

SCHEDULE_EVERY = 50
"""Nodes between two schedules by the order of a node's mean starts."""


def by_prices(work: Work, seed: int) -> None:
    """Raise the bound until the search is over; O(nodes 40 n T)."""
    instance = work.instance
    by_annealing(work, seed + 1, ANNEALING)
    branching = Branching(instance, work.schedule.starts, work.best)
    work.proof = branching.tree
    for number, step in enumerate(branching.steps()):
        if step.only is not None and _is_feasible(work, step.only):
            work.found(Schedule(step.only))
        if number % SCHEDULE_EVERY == 0:
            for lookahead in (1, len(instance)):
                work.found(schedule_in_order(instance, step.order, lookahead))
        branching.value = work.best
        work.proved(step.bound, BoundKind.CERTIFIED)
        work.tick()


def _is_feasible(work: Work, starts: IntArray) -> bool:
    instance = work.instance
    return verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.kv_tokens,
        np.asarray(starts).tolist(),
    ).ok
