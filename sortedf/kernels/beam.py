"""Beam search in time over partial schedules, compared by what they have already lost.

For multipliers (prices) lambda_t >= 0 of the memory rows, every feasible schedule has exactly

    TEL - bound = sum_i (cost_i(p_i) - min_p cost_i(p)) + sum_t lambda_t (M - usage_t),

with cost_i(p) = p + o_i + sum_{k=1..o_i} lambda_{p+k} (s_i + k): the reduced costs of the starts
and the priced idle memory. So partial schedules that stand at the same step can be compared by
their losses so far. A node is such a partial schedule; its children start one more request at its
step or go on to the next step at which something changes. Derived for this project.

Requests are numbered by rank: by their latest cheapest start. All arrays here are by rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.kernels.beam_follow import follow
from sortedf.kernels.beam_nodes import (
    Costs,
    FloatArray,
    IntArray,
    Nodes,
    Settings,
    copy_node,
    go_on,
    idle_loss,
    look_around,
    new_nodes,
    node_key,
    overdue_loss,
    reduced_cost,
    set_root,
    start_request,
)
from sortedf.kernels.jit import jit


@jit
def beam(
    costs: Costs,
    kv_tokens: int,
    settings: Settings,
    allowed: FloatArray,
    ahead: int,
    given: IntArray,
    begin: int,
    cancelled: IntArray,
) -> tuple[IntArray, int]:
    """Search once; returns start steps by rank, shape (n,), and their sum of completions.

    Nodes wait in buckets of ``settings.bucket`` steps; of each bucket the ``width`` best go on. A
    node tries the first ``candidates`` requests that remain and starts each of up to ``branches``
    that fit. ``waste`` is the share of the memory that is expected to lie idle, so that nodes of
    one bucket are compared fairly. A node is dropped when at a step it has lost ``allowed[step]``
    or more, overdue requests included, when it stands beyond ``horizon``, the last of these steps,
    or has more than ``ahead`` different completions ahead. Starts before step ``begin`` are taken
    from a feasible schedule, ``given`` (by rank). The sum is -1 when no node reached the end, or
    when another thread has set ``cancelled[0]`` meanwhile. Without releases.
    O(n width (n / 64 + ahead)) for about n rounds.
    """
    n = len(costs.prompt)
    horizon = len(allowed) - 1
    width = settings.width
    rows = 40 * width + 64
    words = (n + 63) // 64
    nodes = new_nodes(rows, ahead, words)
    free = np.arange(rows)
    free_size = rows
    buckets = horizon // settings.bucket + 2
    head = np.full(buckets, -1, np.int64)
    size = np.zeros(buckets, np.int64)
    following = np.full(rows, -1, np.int64)
    parent_log = np.empty(1 << 16, np.int64)
    started_log = np.empty(1 << 16, np.int64)
    step_log = np.empty(1 << 16, np.int64)
    logged = 0
    table = np.zeros(1 << int(np.ceil(np.log2(8 * width + 64))), np.uint64)

    free_size -= 1
    root = free[free_size]
    set_root(nodes, root, n)
    follow(costs, nodes, root, kv_tokens, given, begin)
    nodes.rated[root] = nodes.hoped[root] = nodes.lost[root]
    first_bucket = nodes.step[root] // settings.bucket
    head[first_bucket] = root
    size[first_bucket] = 1
    best_total = -1
    best_log = -1

    frontier = np.empty(4 * width + 64, np.int64)
    room = 4 * width + 64
    child_rated = np.empty(room * (settings.branches + 1))
    child_parent = np.empty(room * (settings.branches + 1), np.int64)
    child_action = np.empty(room * (settings.branches + 1), np.int64)
    used = np.empty(ahead, np.int64)  # W at the completions ahead of the node at hand
    picked = np.empty(settings.branches, np.int64)

    for bucket in range(first_bucket, buckets):
        if size[bucket] == 0:
            continue
        count = 0
        node = head[bucket]
        while node >= 0:
            frontier[count] = node
            count += 1
            node = following[node]
        head[bucket] = -1
        size[bucket] = 0
        if count > 1:
            kept = _best_distinct(nodes, frontier, count, width, table)
            for k in range(kept, count):
                free[free_size] = frontier[k]
                free_size += 1
            count = kept
        while count > 0:
            if cancelled[0]:
                return given.copy(), -1
            children = 0
            for k in range(count):
                node = frontier[k]
                fits, goes_on = look_around(costs, nodes, node, kv_tokens, settings, used, picked)
                step = nodes.step[node]
                overdue = np.searchsorted(costs.latest, step)
                for b in range(fits):
                    rank = picked[b]
                    extra = 0.0 if rank < overdue else reduced_cost(costs, rank, step)
                    child_rated[children] = nodes.rated[node] + extra
                    child_parent[children] = node
                    child_action[children] = rank
                    children += 1
                if goes_on < 0:
                    continue
                idle = idle_loss(costs, nodes, node, goes_on, kv_tokens)
                lost = nodes.lost[node] + idle
                late = overdue_loss(costs, nodes, node, goes_on)
                place = goes_on // settings.bucket
                if goes_on > horizon or lost + late >= allowed[goes_on]:
                    continue
                span = costs.level[min(goes_on, len(costs.level) - 1)]
                span -= costs.level[min(step, len(costs.level) - 1)]
                hoped = nodes.hoped[node] + idle - settings.waste * kv_tokens * span
                if place == bucket:
                    child_rated[children] = hoped + late
                    child_parent[children] = node
                    child_action[children] = -goes_on - 1
                    children += 1
                    continue
                if free_size == 0:
                    continue
                if size[place] >= 2 * width:
                    # Make room in that bucket: keep the better half.
                    waiting = 0
                    other = head[place]
                    while other >= 0:
                        frontier[count + waiting] = other
                        waiting += 1
                        other = following[other]
                    part = frontier[count : count + waiting].copy()
                    ratings = nodes.rated[part]
                    ranking = np.argsort(ratings)
                    head[place] = -1
                    for r in range(waiting):
                        other = part[ranking[r]]
                        if r < width:
                            following[other] = head[place]
                            head[place] = other
                        else:
                            free[free_size] = other
                            free_size += 1
                    size[place] = width
                free_size -= 1
                child = free[free_size]
                copy_node(nodes, node, child)
                go_on(nodes, child, goes_on)
                nodes.lost[child] = lost
                nodes.hoped[child] = hoped
                nodes.rated[child] = hoped + late
                following[child] = head[place]
                head[place] = child
                size[place] += 1
            # The children that stay in this bucket: the best of them are the next round.
            ranking = np.argsort(child_rated[:children])
            upcoming = np.empty(width, np.int64)
            kept = 0
            for r in range(children):
                if kept == width or free_size == 0:
                    break
                c = ranking[r]
                node = child_parent[c]
                free_size -= 1
                child = free[free_size]
                copy_node(nodes, node, child)
                action = child_action[c]
                if action < 0:
                    step = -action - 1
                    nodes.lost[child] += idle_loss(costs, nodes, node, step, kv_tokens)
                    nodes.hoped[child] = child_rated[c] - overdue_loss(costs, nodes, node, step)
                    nodes.rated[child] = child_rated[c]
                    go_on(nodes, child, step)
                else:
                    extra = reduced_cost(costs, action, nodes.step[node])
                    nodes.lost[child] += extra
                    nodes.hoped[child] += extra
                    nodes.rated[child] = child_rated[c]
                    if not start_request(costs, nodes, child, action):
                        free[free_size] = child
                        free_size += 1
                        continue
                    if logged == len(parent_log):
                        parent_log = _doubled(parent_log)
                        started_log = _doubled(started_log)
                        step_log = _doubled(step_log)
                    parent_log[logged] = nodes.log[node]
                    started_log[logged] = action
                    step_log[logged] = nodes.step[node]
                    nodes.log[child] = logged
                    logged += 1
                    if nodes.left[child] == 0:
                        if best_total < 0 or nodes.total[child] < best_total:
                            best_total = nodes.total[child]
                            best_log = nodes.log[child]
                        free[free_size] = child
                        free_size += 1
                        continue
                upcoming[kept] = child
                kept += 1
            for k in range(count):
                free[free_size] = frontier[k]
                free_size += 1
            frontier[:kept] = upcoming[:kept]
            count = kept

    starts = np.where(given < begin, given, -1)
    while best_log >= 0:
        starts[started_log[best_log]] = step_log[best_log]
        best_log = parent_log[best_log]
    return starts, best_total


@jit
def _seen(table: npt.NDArray[Any], key: Any) -> bool:
    """Add a key to an open table; whether it was there before."""
    mask = np.uint64(len(table) - 1)
    place = (key >> np.uint64(7)) & mask
    while table[place] != 0:
        if table[place] == key:
            return True
        place = (place + np.uint64(1)) & mask
    table[place] = key
    return False


@jit
def _best_distinct(
    nodes: Nodes, frontier: IntArray, count: int, width: int, table: npt.NDArray[Any]
) -> int:
    """Order nodes so that the best distinct ones, up to ``width``, come first; their number."""
    part = frontier[:count].copy()
    ranking = np.argsort(nodes.rated[part])
    table[:] = 0
    kept = 0
    dropped = count
    for r in range(count):
        node = part[ranking[r]]
        if kept < width and not _seen(table, node_key(nodes, node)):
            frontier[kept] = node
            kept += 1
        else:
            dropped -= 1
            frontier[dropped] = node
    return kept


@jit
def _doubled(array: IntArray) -> IntArray:
    larger = np.empty(2 * len(array), np.int64)
    larger[: len(array)] = array
    return larger
