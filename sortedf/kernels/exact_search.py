"""Layers of partial schedules, built from the last completion backwards; one layer a step.

A node at step t is a set of requests that complete at t or later, placed feasibly. What matters of
it below t is which requests are left, the tokens that the placed ones hold at t, t - 1, ..., and
what they cost. Costs are those of :mod:`sortedf.kernels.exact_relaxation`: time less reward, times
a scale, so that cost plus ``to_go`` of the node's relaxed state never exceeds the cost of a
schedule that contains it.

Two facts keep layers small, both derived for this project.

*Dominance.* Nodes A and B of one layer with the same requests left, A holding at every earlier step
at most what B holds, and A costing no more: any completion of B completes A as well, since memory
is the only thing that couples the requests. B is dropped.

*Equal requests* (same s, o and a) may exchange their places without changing anything else; so of
those only the one latest in the input is placed while others of its kind are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.exact_relaxation import NO_WAY
from sortedf.kernels.exact_states import Int32Array, Moves
from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray

UInt8Array = npt.NDArray[np.uint8]
UInt64Array = npt.NDArray[np.uint64]

MOST_REQUESTS = 64
MOST_TOKENS = 255
"""Largest backlog and budget that a node can hold: a bit a request, a byte a step."""


class Requests(NamedTuple):
    """Integers by request, shape (n,), and the scale of costs.

    ``peak`` s + o, ``output`` o, ``earliest`` a + o, ``kind`` among the relaxed states (-1: not
    held there), ``twin`` the equal request before it in the input (-1: none), ``reward`` scale
    times u, ``floor_cost`` scale (a + o) - reward, the least cost of one that the states do not
    hold.
    """

    peak: IntArray
    output: IntArray
    earliest: IntArray
    kind: IntArray
    twin: IntArray
    reward: IntArray
    floor_cost: IntArray
    scale: int


class Layer(NamedTuple):
    """Room for nodes, arrays by node.

    ``left`` (a bit a request), ``state``, ``cost``, ``rest`` (what those left cost at least that
    the states do not hold), ``held`` (tokens now and at the steps before), ``completion`` (by
    request), ``newest`` (request placed last at this step, -1 for none).
    """

    left: UInt64Array
    state: Int32Array
    cost: IntArray
    rest: IntArray
    held: UInt8Array
    completion: Int32Array
    newest: Int32Array


def new_layer(nodes: int, steps: int, n: int) -> Layer:
    """Room for so many nodes, with requests of at most ``steps`` output tokens."""
    return Layer(
        np.empty(nodes, np.uint64),
        np.empty(nodes, np.int32),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.zeros((nodes, steps), np.uint8),
        np.zeros((nodes, n), np.int32),
        np.empty(nodes, np.int32),
    )


@jit
def appear(
    step: int,
    layer: Layer,
    nodes: int,
    requests: Requests,
    moves: Moves,
    to_go: Int32Array,
    kv_tokens: int,
    account: IntArray,
    best: Int32Array,
) -> int:
    """Add to a layer all nodes in which more requests complete at ``step``; the new number.

    ``account``: 0 cost that a node may have at most (in), lowered when a schedule is found; 1 cost
    of the best schedule found, its completions then in ``best``; 2 least cost of what found no
    room.
    """
    n = len(requests.peak)
    room = len(layer.left)
    one = np.uint64(1)
    for node in range(nodes):
        layer.newest[node] = -1
    node = 0
    while node < nodes:
        left = layer.left[node]
        held = np.int64(layer.held[node, 0])
        for i in range(layer.newest[node] + 1, n):
            if not (left >> np.uint64(i)) & one:
                continue
            if held + requests.peak[i] > kv_tokens or requests.earliest[i] > step:
                continue
            twin = requests.twin[i]
            if twin >= 0 and (left >> np.uint64(twin)) & one:
                continue
            state = layer.state[node]
            rest = layer.rest[node]
            if requests.kind[i] < 0:
                rest -= requests.floor_cost[i]
            else:
                move = moves.first[state]
                while moves.kind[move] != requests.kind[i]:
                    move += 1
                state = moves.after[move]
            cost = layer.cost[node] + requests.scale * step - requests.reward[i]
            if to_go[step, state] == NO_WAY:
                continue
            bound = cost + rest + to_go[step, state]
            if bound > account[0]:
                continue
            remaining = left & ~(one << np.uint64(i))
            if remaining == 0:
                # Not the bound: what is left to go may stand for requests once more.
                account[0] = cost + rest - requests.scale
                account[1] = cost + rest
                best[:] = layer.completion[node]
                best[i] = step
                continue
            if nodes == room:
                account[2] = min(account[2], bound)
                continue
            layer.left[nodes] = remaining
            layer.state[nodes] = state
            layer.cost[nodes] = cost
            layer.rest[nodes] = rest
            layer.newest[nodes] = i
            layer.completion[nodes] = layer.completion[node]
            layer.completion[nodes, i] = step
            layer.held[nodes] = layer.held[node]
            for k in range(requests.output[i]):
                layer.held[nodes, k] += requests.peak[i] - k
            nodes += 1
        node += 1
    return nodes


@jit
def step_back(
    step: int,
    layer: Layer,
    nodes: int,
    earlier: Layer,
    width: int,
    moves: Moves,
    to_go: Int32Array,
    account: IntArray,
) -> int:
    """Carry the best ``width`` nodes that are not dominated to ``step - 1``; their number.

    Best by the bound; nodes whose bound exceeds ``account[0]`` are done with, and ``account[2]``
    is lowered to the least bound of those that found no room. Ties by the order of making.
    """
    steps = layer.held.shape[1]
    bounds = np.empty(nodes, np.int64)
    for node in range(nodes):
        state = moves.earlier[layer.state[node]]
        rest = to_go[step - 1, state]
        bounds[node] = layer.cost[node] + layer.rest[node] + rest
        if rest == NO_WAY or bounds[node] > account[0]:
            bounds[node] = np.iinfo(np.int64).max
    order = np.argsort(bounds, kind="mergesort")
    slots = 1024
    while slots < 2 * min(width, nodes):
        slots *= 2
    head = np.full(slots, -1, np.int32)
    chain = np.empty(min(width, nodes), np.int32)
    kept = 0
    for node in order:
        if bounds[node] == np.iinfo(np.int64).max:
            break
        mixed = layer.left[node] * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(mixed >> np.uint64(24)) % slots
        other = head[slot]
        dominated = False
        while other >= 0 and not dominated:
            if earlier.left[other] == layer.left[node] and earlier.cost[other] <= layer.cost[node]:
                dominated = True
                for k in range(1, steps):
                    if earlier.held[other, k - 1] > layer.held[node, k]:
                        dominated = False
                        break
            other = chain[other]
        if dominated:
            continue
        if kept == width:
            account[2] = min(account[2], bounds[node])
            break
        earlier.left[kept] = layer.left[node]
        earlier.state[kept] = moves.earlier[layer.state[node]]
        earlier.cost[kept] = layer.cost[node]
        earlier.rest[kept] = layer.rest[node]
        earlier.completion[kept] = layer.completion[node]
        earlier.held[kept, : steps - 1] = layer.held[node, 1:]
        earlier.held[kept, steps - 1] = 0
        chain[kept] = head[slot]
        head[slot] = kept
        kept += 1
    return kept
