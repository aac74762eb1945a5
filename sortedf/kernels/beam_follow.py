"""A given schedule as nodes of a beam search: where it stands at a step, and what it has lost."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.beam_nodes import (
    Costs,
    FloatArray,
    IntArray,
    Nodes,
    go_on,
    idle_loss,
    new_nodes,
    overdue_loss,
    reduced_cost,
    set_root,
    start_request,
)
from sortedf.kernels.jit import jit


@jit
def follow(
    costs: Costs, nodes: Nodes, root: int, kv_tokens: int, given: IntArray, begin: int
) -> None:
    """Take a node from step 0 to ``begin`` along a given schedule, with all that it loses."""
    for rank in np.argsort(given):
        if given[rank] >= begin:
            break
        wait_until(costs, nodes, root, kv_tokens, given[rank])
        nodes.lost[root] += reduced_cost(costs, rank, given[rank])
        start_request(costs, nodes, root, rank)
    wait_until(costs, nodes, root, kv_tokens, begin)


@jit
def wait_until(costs: Costs, nodes: Nodes, node: int, kv_tokens: int, step: int) -> None:
    """Move a node on to a step, completion by completion, with the idle memory that it loses."""
    while nodes.step[node] < step:
        following = step
        if nodes.ahead[node] > 0:
            following = min(step, nodes.completion[node, 0])
        nodes.lost[node] += idle_loss(costs, nodes, node, following, kv_tokens)
        go_on(nodes, node, following)


@jit
def losses(
    costs: Costs, kv_tokens: int, ahead: int, given: IntArray, horizon: int, stride: int
) -> FloatArray:
    """Follow a feasible schedule (starts by rank): its loss at each step, overdue ones included.

    Shape (horizon + 1,); exact at every ``stride``-th step, linear in between.
    O(n log n + horizon + horizon / stride (n / 64 + overdue + ahead)).
    """
    n = len(costs.prompt)
    nodes = new_nodes(1, ahead, (n + 63) // 64)
    set_root(nodes, 0, n)
    ranks = np.argsort(given)
    started = 0
    lost = np.zeros(horizon + 1)
    before = 0
    for k in range(1, (horizon + stride - 1) // stride + 1):
        step = min(k * stride, horizon)
        while started < n and given[ranks[started]] < step:
            rank = ranks[started]
            wait_until(costs, nodes, 0, kv_tokens, given[rank])
            nodes.lost[0] += reduced_cost(costs, rank, given[rank])
            start_request(costs, nodes, 0, rank)
            started += 1
        wait_until(costs, nodes, 0, kv_tokens, step)
        lost[step] = nodes.lost[0] + overdue_loss(costs, nodes, 0, step)
        for t in range(before + 1, step):
            lost[t] = lost[before] + (lost[step] - lost[before]) * (t - before) / (step - before)
        before = step
    return lost
