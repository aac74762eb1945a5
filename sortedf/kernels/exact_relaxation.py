"""The relaxation of the exact search: cheapest way from any state back to step 0.

Let each request have a reward u_i. Over all sequences of states in which requests may appear any
number of times, the cost of an appearance of i at step c being c - u_i, the least total plus
``sum u_i`` is a lower bound on the total latency: a schedule is such a sequence in which each
appears once. This is the Lagrangian relaxation of "each request once", its states those of
:mod:`sortedf.kernels.exact_states`; the bound is that of the network formulations of Abdul-Razaq
and Potts (1988) and Tanaka, Fujikuma and Araki (2009) for one machine, with melting holdings for
states: derived for this project. All in integers: costs are times ``scale``.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.exact_states import Int32Array, Moves
from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray

NO_WAY = 1 << 30
"""Cost to go of a state that no sequence reaches; twice it still fits in 32 bits."""


@jit
def sweep(
    begin: int,
    end: int,
    moves: Moves,
    kind: IntArray,
    earliest: IntArray,
    reward: IntArray,
    scale: int,
    to_go: Int32Array,
) -> bool:
    """Fill ``to_go[t, x]`` for begin <= t < end: least cost of all that completes by step t.

    Row t is the state at step t with more requests allowed to appear at t. Row 0 is filled when
    ``begin`` is 0. ``kind`` is -1 for requests that the states do not hold; ``earliest`` is a + o,
    ``reward`` scale times u. O((end - begin) (states + moves)). Returns False if a cost was too
    large for 32 bits: the bound is then worth nothing.
    """
    cheapest = np.empty(np.max(kind) + 2, np.int64)
    safe = True
    for t in range(begin, end):
        if t == 0:
            to_go[0, :] = NO_WAY
            to_go[0, 0] = 0
            continue
        cheapest[:] = NO_WAY
        for i in range(len(kind)):
            if kind[i] >= 0 and earliest[i] <= t:
                cheapest[kind[i]] = min(cheapest[kind[i]], scale * t - reward[i])
        now = to_go[t]
        before = to_go[t - 1]
        for x in range(len(moves.earlier) - 1, -1, -1):
            least = np.int64(before[moves.earlier[x]])
            for move in range(moves.first[x], moves.first[x + 1]):
                cost = cheapest[moves.kind[move]] + now[moves.after[move]]
                if cost < least:
                    least = cost
            if least < -NO_WAY // 2:
                safe = False
            now[x] = NO_WAY if least > NO_WAY // 2 else least
    return safe


@jit
def count_appearances(
    horizon: int,
    moves: Moves,
    kind: IntArray,
    earliest: IntArray,
    reward: IntArray,
    scale: int,
    to_go: Int32Array,
) -> IntArray:
    """How often each request appears in one cheapest sequence, shape (n,).

    ``1 - count`` is a supergradient of the bound in u.
    """
    count = np.zeros(len(kind), np.int64)
    x = 0
    t = horizon
    while t > 0:
        if to_go[t, x] == to_go[t - 1, moves.earlier[x]]:
            x = moves.earlier[x]
            t -= 1
            continue
        found = False
        for move in range(moves.first[x], moves.first[x + 1]):
            left = np.int64(to_go[t, x]) - to_go[t, moves.after[move]]
            for i in range(len(kind)):
                if (
                    kind[i] == moves.kind[move]
                    and earliest[i] <= t
                    and scale * t - reward[i] == left
                ):
                    count[i] += 1
                    x = moves.after[move]
                    found = True
                    break
            if found:
                break
    return count


@jit
def last_steps(
    moves: Moves,
    kind: IntArray,
    earliest: IntArray,
    reward: IntArray,
    scale: int,
    to_go: Int32Array,
    costs: IntArray,
) -> None:
    """Least cost of a sequence whose last completion is at step t, into ``costs`` by t."""
    for t in range(1, len(costs)):
        costs[t] = NO_WAY
        for move in range(moves.first[0], moves.first[1]):
            for i in range(len(kind)):
                if kind[i] == moves.kind[move] and earliest[i] <= t:
                    cost = scale * t - reward[i] + np.int64(to_go[t, moves.after[move]])
                    costs[t] = min(costs[t], cost)
