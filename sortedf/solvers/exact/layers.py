"""Search over partial schedules backwards in time, a layer a step, at most so many nodes each."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sortedf.kernels.exact_search import appear, new_layer, step_back
from sortedf.model import Schedule
from sortedf.solvers.exact.relaxation import SCALE, Relaxation

ROOM = 5
"""Nodes that may appear within a layer, as a multiple of those that are carried on."""


def search(relaxation: Relaxation, width: int) -> bool:
    """Look for a better schedule; returns whether nothing had to be left out.

    Each layer keeps the ``width`` nodes of least bound. A bound on every schedule comes out of it
    too: the least bound of a node that was left out, or, where there is none, the value of the
    best schedule, which is then optimal. O(horizon width n) at most.
    """
    work = relaxation.work
    instance = work.instance
    requests = relaxation.requests()
    n = len(instance)
    steps = int(instance.output_tokens.max())
    layer, spare = (new_layer(ROOM * width + n, steps, n) for _ in range(2))
    layer.left[0] = np.uint64((1 << n) - 1)
    layer.state[0] = 0
    layer.cost[0] = 0
    layer.rest[0] = relaxation.constant
    layer.held[0] = 0
    rewards = int(relaxation.reward.sum())
    none = np.iinfo(np.int64).max
    account = np.array([SCALE * (work.best - 1) - rewards, none, none])
    best = np.zeros(n, np.int32)
    nodes = 1
    step = relaxation.horizon
    while nodes > 0 and step > 0:
        cost = account[1]
        nodes = appear(
            step,
            layer,
            nodes,
            requests,
            relaxation.moves,
            relaxation.to_go,
            instance.kv_tokens,
            account,
            best,
        )
        if account[1] < cost:
            work.found(Schedule(best.astype(np.int64) - instance.output_tokens))
        nodes = step_back(
            step, layer, nodes, spare, width, relaxation.moves, relaxation.to_go, account
        )
        layer, spare = spare, layer
        step -= 1
        if nodes * n > 1 << 14 or step % 64 == 0:
            work.tick()
    complete = bool(account[2] >= min(none, SCALE * work.best - rewards))
    work.proved(Fraction(work.best) if complete else Fraction(int(account[2]) + rewards, SCALE))
    return complete
