"""The nodes of a beam search: partial schedules, what they have lost, and how they grow.

See :mod:`sortedf.kernels.beam`. All arrays of requests are by rank.
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
def new_nodes(rows: int, ahead: int, words: int) -> Nodes:
    """Make room for nodes with up to ``ahead`` completions ahead and 64 ``words`` requests."""
    return Nodes(
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, ahead), np.int64),
        np.empty((rows, words), np.uint64),
    )


@jit
def set_root(nodes: Nodes, root: int, n: int) -> None:
    """Make a node the empty schedule of n requests."""
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
def copy_node(nodes: Nodes, source: int, target: int) -> None:
    """Copy a node, all but its rating."""
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
def look_around(
    costs: Costs,
    nodes: Nodes,
    node: int,
    kv_tokens: int,
    settings: Settings,
    used: IntArray,
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
        rank = 64 * word + lowest_bit(bits)
        bits &= bits - np.uint64(1)
        looked += 1
        prompt = costs.prompt[rank]
        end = step + costs.output[rank]
        slack = kv_tokens - prompt + step
        wait = step
        j = 0
        while j < ahead and nodes.completion[node, j] <= end:
            if used[j] > slack:
                wait = max(wait, min(nodes.completion[node, j], used[j] - slack + step))
            j += 1
        if j < ahead:
            # Usage at the request's own last step, before the next completion.
            c = nodes.completion[node, j]
            holding = 0
            for k in range(j, ahead):
                holding += nodes.holders[node, k]
            now = used[j] - (holding + 1) * c + holding * end
            if now + prompt + costs.output[rank] > kv_tokens:
                wait = max(wait, min(c, used[j] - slack + step))
        if wait == step:
            picked[fits] = rank
            fits += 1
        elif wait < goes_on:
            goes_on = wait
    return fits, goes_on


@jit
def idle_loss(costs: Costs, nodes: Nodes, node: int, step: int, kv_tokens: int) -> float:
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
def overdue_loss(costs: Costs, nodes: Nodes, node: int, step: int) -> float:
    """Reduced costs at this step of the remaining requests whose cheapest starts have passed."""
    due = np.searchsorted(costs.latest, step)
    lost = 0.0
    for word in range((due + 63) // 64):
        bits = nodes.remaining[node, word]
        while bits != 0:
            rank = 64 * word + lowest_bit(bits)
            if rank >= due:
                break
            bits &= bits - np.uint64(1)
            lost += reduced_cost(costs, rank, step)
    return lost


@jit
def go_on(nodes: Nodes, node: int, step: int) -> None:
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
def start_request(costs: Costs, nodes: Nodes, node: int, rank: int) -> bool:
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
def lowest_bit(bits: Any) -> int:
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
def node_key(nodes: Nodes, node: int) -> Any:
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
