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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[Any]


class Costs(NamedTuple):
    """What requests cost at these prices; ``level`` and ``moment`` have shape (T + 1,).

    ``level[t]`` is the sum of the prices to step t, ``moment[t]`` that of price times step.
    ``least`` is the least cost of each request, ``latest`` its latest cheapest start, shape (n,).
    """

    prompt: IntArray
    output: IntArray
    level: FloatArray
    moment: FloatArray
    least: FloatArray
    latest: IntArray


class Settings(NamedTuple):
    """How a beam is run: see :func:`beam`."""

    width: int
    bucket: int
    candidates: int
    branches: int
    waste: float


class Nodes(NamedTuple):
    """A pool of nodes, one row each; completions ahead are merged and ascending."""

    step: IntArray
    lost: FloatArray  # exactly, so far
    hoped: FloatArray  # less the expected share of idle memory
    rated: FloatArray  # hoped, and what the overdue requests have lost already
    total: IntArray  # sum of completions of what has been started
    left: IntArray
    after: IntArray  # only ranks from here on may still be started at this step
    key: npt.NDArray[Any]
    log: IntArray
    ahead: IntArray  # number of completions ahead
    completion: IntArray  # (nodes, A)
    holders: IntArray  # requests that complete just then
    base: IntArray  # their sum of s - p
    remaining: npt.NDArray[Any]  # bit set by rank


@jit
def reduced_cost(costs: Costs, i: int, p: int) -> float:
    """Cost of starting request i at step p, less its least cost."""
    last = len(costs.level) - 1
    begin = min(p, last)
    end = min(p + costs.output[i], last)
    level = costs.level[end] - costs.level[begin]
    moment = costs.moment[end] - costs.moment[begin]
    return p + costs.output[i] + (costs.prompt[i] - p) * level + moment - costs.least[i]


@jit
def beam(
    costs: Costs,
    kv_tokens: int,
    settings: Settings,
    allowed: float,
    horizon: int,
    ahead: int,
    given: IntArray,
    begin: int,
) -> tuple[IntArray, int]:
    """Search once; returns start steps by rank, shape (n,), and their sum of completions.

    Nodes wait in buckets of ``settings.bucket`` steps; of each bucket the ``width`` best go on. A
    node tries the first ``candidates`` requests that remain and starts each of up to ``branches``
    that fit. ``waste`` is the share of the memory that is expected to lie idle, so that nodes of
    one bucket are compared fairly. A node is dropped when it has lost ``allowed`` or more, stands
    beyond ``horizon``, or has more than ``ahead`` different completions ahead. Starts before step
    ``begin`` are taken from a feasible schedule, ``given`` (by rank). The sum is -1 when no node
    reached the end. Without releases. O(n width (n / 64 + ahead)) for about n rounds.
    """
    n = len(costs.prompt)
    width = settings.width
    rows = 40 * width + 64
    words = (n + 63) // 64
    nodes = _new_nodes(rows, ahead, words)
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
    _set_root(nodes, root, n)
    _follow(costs, nodes, root, kv_tokens, given, begin)
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
    used = np.empty(ahead)  # W at the completions ahead of the node at hand
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
            children = 0
            for k in range(count):
                node = frontier[k]
                fits, goes_on = _look(costs, nodes, node, kv_tokens, settings, used, picked)
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
                idle = _idle(costs, nodes, node, goes_on, kv_tokens)
                lost = nodes.lost[node] + idle
                late = _overdue(costs, nodes, node, goes_on)
                place = goes_on // settings.bucket
                if lost + late >= allowed or place >= buckets:
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
                _copy(nodes, node, child)
                _go_on(nodes, child, goes_on)
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
            table[:] = 0
            for r in range(children):
                if kept == width or free_size == 0:
                    break
                c = ranking[r]
                node = child_parent[c]
                free_size -= 1
                child = free[free_size]
                _copy(nodes, node, child)
                action = child_action[c]
                if action < 0:
                    step = -action - 1
                    nodes.lost[child] += _idle(costs, nodes, node, step, kv_tokens)
                    nodes.hoped[child] = child_rated[c] - _overdue(costs, nodes, node, step)
                    nodes.rated[child] = child_rated[c]
                    _go_on(nodes, child, step)
                else:
                    extra = reduced_cost(costs, action, nodes.step[node])
                    nodes.lost[child] += extra
                    nodes.hoped[child] += extra
                    nodes.rated[child] = child_rated[c]
                    if not _start(costs, nodes, child, action):
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
                if _seen(table, _key(nodes, child)):
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
def _new_nodes(rows: int, ahead: int, words: int) -> Nodes:
    return Nodes(
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, words), np.uint64),
    )


@jit
def _set_root(nodes: Nodes, root: int, n: int) -> None:
    nodes.step[root] = 0
    nodes.lost[root] = 0.0
    nodes.hoped[root] = 0.0
    nodes.rated[root] = 0.0
    nodes.total[root] = 0
    nodes.left[root] = n
    nodes.after[root] = 0
    nodes.log[root] = -1
    nodes.ahead[root] = 0
    nodes.remaining[root, :] = 0
    for i in range(n):
        nodes.remaining[root, i // 64] |= np.uint64(1) << np.uint64(i % 64)


@jit
def _follow(
    costs: Costs, nodes: Nodes, root: int, kv_tokens: int, given: IntArray, begin: int
) -> None:
    """Take a node from step 0 to ``begin`` along a given schedule, with all that it loses."""
    for rank in np.argsort(given):
        if given[rank] >= begin:
            break
        _wait_until(costs, nodes, root, kv_tokens, given[rank])
        nodes.lost[root] += reduced_cost(costs, rank, given[rank])
        _start(costs, nodes, root, rank)
    _wait_until(costs, nodes, root, kv_tokens, begin)


@jit
def _wait_until(costs: Costs, nodes: Nodes, node: int, kv_tokens: int, step: int) -> None:
    while nodes.step[node] < step:
        following = step
        if nodes.ahead[node] > 0:
            following = min(step, nodes.completion[node, 0])
        nodes.lost[node] += _idle(costs, nodes, node, following, kv_tokens)
        _go_on(nodes, node, following)


@jit
def _copy(nodes: Nodes, source: int, target: int) -> None:
    nodes.step[target] = nodes.step[source]
    nodes.lost[target] = nodes.lost[source]
    nodes.hoped[target] = nodes.hoped[source]
    nodes.total[target] = nodes.total[source]
    nodes.left[target] = nodes.left[source]
    nodes.after[target] = nodes.after[source]
    nodes.log[target] = nodes.log[source]
    ahead = nodes.ahead[source]
    nodes.ahead[target] = ahead
    for j in range(ahead):
        nodes.completion[target, j] = nodes.completion[source, j]
        nodes.holders[target, j] = nodes.holders[source, j]
        nodes.base[target, j] = nodes.base[source, j]
    for w in range(nodes.remaining.shape[1]):
        nodes.remaining[target, w] = nodes.remaining[source, w]


@jit
def _look(
    costs: Costs,
    nodes: Nodes,
    node: int,
    kv_tokens: int,
    settings: Settings,
    used: FloatArray,
    picked: IntArray,
) -> tuple[int, int]:
    """Find what a node may do: how many ranks in ``picked`` may start now, and the next step.

    The next step is the next completion or, before it, the first at which a candidate that does not
    fit now may fit. -1 when nothing is running.
    """
    step = nodes.step[node]
    ahead = nodes.ahead[node]
    holders = 0
    base = 0
    for j in range(ahead - 1, -1, -1):
        holders += nodes.holders[node, j]
        base += nodes.base[node, j]
        used[j] = base + (holders + 1) * nodes.completion[node, j]
    goes_on = nodes.completion[node, 0] if ahead > 0 else -1
    fits = 0
    looked = 0
    words = nodes.remaining.shape[1]
    word = nodes.after[node] // 64
    if word >= words:
        return 0, goes_on
    bits = nodes.remaining[node, word]
    shift = np.uint64(nodes.after[node] % 64)
    bits = (bits >> shift) << shift
    while looked < settings.candidates and fits < settings.branches:
        while bits == 0:
            word += 1
            if word == words:
                return fits, goes_on
            bits = nodes.remaining[node, word]
        rank = 64 * word + _lowest(bits)
        bits &= bits - np.uint64(1)
        looked += 1
        prompt = costs.prompt[rank]
        end = step + costs.output[rank]
        slack = kv_tokens - prompt + step
        wait = step
        j = 0
        while j < ahead and nodes.completion[node, j] <= end:
            if used[j] > slack:
                wait = max(wait, min(nodes.completion[node, j], int(used[j]) - slack + step))
            j += 1
        if j < ahead:
            # Usage at the request's own last step, before the next completion.
            c = nodes.completion[node, j]
            holding = 0
            for k in range(j, ahead):
                holding += nodes.holders[node, k]
            now = int(used[j]) - (holding + 1) * c + holding * end
            if now + prompt + costs.output[rank] > kv_tokens:
                wait = max(wait, min(c, int(used[j]) - slack + step))
        if wait == step:
            picked[fits] = rank
            fits += 1
        elif wait < goes_on:
            goes_on = wait
    return fits, goes_on


@jit
def _idle(costs: Costs, nodes: Nodes, node: int, step: int, kv_tokens: int) -> float:
    """Priced idle memory from the node's step to a step before which nothing completes."""
    last = len(costs.level) - 1
    begin = min(nodes.step[node], last)
    end = min(step, last)
    holders = 0
    base = 0
    for j in range(nodes.ahead[node]):
        holders += nodes.holders[node, j]
        base += nodes.base[node, j]
    level = costs.level[end] - costs.level[begin]
    return (kv_tokens - base) * level - holders * (costs.moment[end] - costs.moment[begin])


@jit
def _overdue(costs: Costs, nodes: Nodes, node: int, step: int) -> float:
    """Reduced costs at this step of the remaining requests whose cheapest starts have passed."""
    due = np.searchsorted(costs.latest, step)
    lost = 0.0
    for word in range((due + 63) // 64):
        bits = nodes.remaining[node, word]
        while bits != 0:
            rank = 64 * word + _lowest(bits)
            if rank >= due:
                break
            bits &= bits - np.uint64(1)
            lost += reduced_cost(costs, rank, step)
    return lost


@jit
def _go_on(nodes: Nodes, node: int, step: int) -> None:
    """Move a node to a later step, not past its next completion."""
    nodes.step[node] = step
    nodes.after[node] = 0
    ahead = nodes.ahead[node]
    if ahead > 0 and nodes.completion[node, 0] <= step:
        for j in range(ahead - 1):
            nodes.completion[node, j] = nodes.completion[node, j + 1]
            nodes.holders[node, j] = nodes.holders[node, j + 1]
            nodes.base[node, j] = nodes.base[node, j + 1]
        nodes.ahead[node] = ahead - 1


@jit
def _start(costs: Costs, nodes: Nodes, node: int, rank: int) -> bool:
    """Start a request at the node's step; false when there is no room for its completion."""
    step = nodes.step[node]
    end = step + costs.output[rank]
    ahead = nodes.ahead[node]
    j = ahead
    while j > 0 and nodes.completion[node, j - 1] > end:
        j -= 1
    if j > 0 and nodes.completion[node, j - 1] == end:
        nodes.holders[node, j - 1] += 1
        nodes.base[node, j - 1] += costs.prompt[rank] - step
    else:
        if ahead == nodes.completion.shape[1]:
            return False
        for k in range(ahead, j, -1):
            nodes.completion[node, k] = nodes.completion[node, k - 1]
            nodes.holders[node, k] = nodes.holders[node, k - 1]
            nodes.base[node, k] = nodes.base[node, k - 1]
        nodes.completion[node, j] = end
        nodes.holders[node, j] = 1
        nodes.base[node, j] = costs.prompt[rank] - step
        nodes.ahead[node] = ahead + 1
    nodes.remaining[node, rank // 64] &= ~(np.uint64(1) << np.uint64(rank % 64))
    nodes.left[node] -= 1
    nodes.total[node] += end
    nodes.after[node] = rank + 1
    return True


@jit
def _lowest(bits: Any) -> int:
    """Position of the lowest bit set in a 64-bit word that is not 0."""
    position = 0
    if bits & np.uint64(0xFFFFFFFF) == 0:
        bits >>= np.uint64(32)
        position += 32
    if bits & np.uint64(0xFFFF) == 0:
        bits >>= np.uint64(16)
        position += 16
    if bits & np.uint64(0xFF) == 0:
        bits >>= np.uint64(8)
        position += 8
    while bits & np.uint64(1) == 0:
        bits >>= np.uint64(1)
        position += 1
    return position


@jit
def _key(nodes: Nodes, node: int) -> Any:
    """Hash of what the future of a node depends on; never 0."""
    key = np.uint64(nodes.step[node]) * np.uint64(0x9E3779B97F4A7C15)
    key ^= np.uint64(nodes.after[node])
    for w in range(nodes.remaining.shape[1]):
        key = (key ^ nodes.remaining[node, w]) * np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(29)
    for j in range(nodes.ahead[node]):
        key = (key ^ np.uint64(nodes.completion[node, j])) * np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(31)
        key = (key ^ np.uint64(nodes.base[node, j])) * np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(27)
    return key | np.uint64(1)


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
        if kept < width and not _seen(table, _key(nodes, node)):
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
