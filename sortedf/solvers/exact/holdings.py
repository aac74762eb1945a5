"""Relaxations over multisets of holdings, ever finer, each followed by a wider search."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.exact_states import count_states
from sortedf.lp.branching import horizon_of
from sortedf.model import Instance
from sortedf.solvers.exact.annealing import by_annealing
from sortedf.solvers.exact.dual import FloatArray, by_levels, by_planes
from sortedf.solvers.exact.layers import search
from sortedf.solvers.exact.relaxation import Relaxation
from sortedf.solvers.exact.work import Work

MOST_STATES = 30_000
"""Of the coarsest relaxation; with more there is no time for its ascent."""

MOST_CELLS = 150_000_000
"""States times steps of the finest relaxation, four bytes each."""

EVALUATIONS = 40
"""Of each relaxation but the first, by planes."""

ANNEALING = 100
"""Rounds of annealing before the searches of a refined relaxation."""

FIRST_WIDTH = 300
MOST_NODES = 100_000
"""Nodes of a layer in the first and in the widest search, about 250 bytes each and ten times."""

CELLS_PER_NODE = 170
"""Cells of an evaluation that are worth a node of a search: twice as many as take its time."""


def by_states(work: Work, seed: int) -> None:
    """Bound, search, widen or refine, and again; returns when the widest search was not complete.

    To refine is to add a floor to the classes of requests, as long as there is room for the
    states; the search is widened first as long as that is less work.
    """
    instance = work.instance
    horizon = horizon_of(instance)
    floors = [int(instance.prompt_tokens.max())]
    relaxation = Relaxation(work, floors, horizon)
    u = by_levels(relaxation.evaluate, first_rewards(work), 100)
    relaxation.set_rewards(u)
    while True:
        horizon = min(horizon, relaxation.shorter_horizon(work.best - 1))
        relaxation = Relaxation(work, floors, horizon)
        u = by_planes(relaxation.evaluate, u, EVALUATIONS, 3.0)
        relaxation.set_rewards(u)
        finer = finer_floors(instance, floors, horizon)
        widest = MOST_NODES
        if finer != floors:
            states = count_states(instance.kv_tokens, finer)
            widest = min(widest, EVALUATIONS * states // CELLS_PER_NODE)
        if len(floors) > 1:
            # What was not proved by now is hard; a better schedule also shortens the horizon.
            by_annealing(work, seed + len(floors), ANNEALING)
        width = FIRST_WIDTH
        while width <= max(widest, FIRST_WIDTH):
            if search(relaxation, width):
                return
            width *= 4
        if finer == floors:
            return
        floors = finer


def finer_floors(instance: Instance, floors: list[int], horizon: int) -> list[int]:
    """Add the floor that brings the requests' floors nearest to their s, if there is room."""
    prompts = instance.prompt_tokens
    lost: dict[int, int] = {}
    for floor in sorted(set(prompts.tolist()) - set(floors)):
        finer = sorted([*floors, floor])
        if count_states(instance.kv_tokens, finer) * (horizon + 1) <= MOST_CELLS:
            above = np.array(finer)[np.searchsorted(np.array(finer), prompts)]
            lost[floor] = int((above - prompts).sum())
    if not lost:
        return floors
    return sorted([*floors, min(lost, key=lambda floor: lost[floor])])


def first_rewards(work: Work) -> FloatArray:
    """Guess what a request costs: its completion, and the room it takes from those after it.

    The room is 1.3 v / M steps, a third more than a perfect packing: measured on [3]'s family.
    """
    instance = work.instance
    completion = work.schedule.starts + instance.output_tokens
    rank = np.argsort(np.argsort(completion, kind="stable"), kind="stable")
    room = 1.3 * instance.volume / instance.kv_tokens
    guess: FloatArray = completion + (len(instance) - rank) * room
    return guess
