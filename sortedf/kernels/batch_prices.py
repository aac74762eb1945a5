"""Lower bounds on the outputs of every feasible batch of k requests, from prices on its memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.batch_fill import BoolArray, IntArray, order_by
from sortedf.kernels.jit import jit

FloatArray = npt.NDArray[np.float64]

FAR = 2**62
"""No sum of reduced costs reaches this."""

INERTIA = 0.5
"""Share of the direction before in the next one, which keeps the ascent from zigzagging."""


@jit
def choose_scale(total_output: int, n: int) -> int:
    """Greatest power of two up to 2^20 that leaves sums of n reduced costs far from 2^62."""
    scale = 1 << 20
    while scale > 1 and total_output * n > (1 << 58) // scale:
        scale //= 2
    return scale


@jit
def reduced_costs(
    prompt_tokens: IntArray, output_tokens: IntArray, price: IntArray, scale: int
) -> IntArray:
    """Output plus priced memory of each request, in units of 1 / scale, shape (n,).

    With prices lambda_t >= 0 on the usage at t, every feasible batch X of k requests has

        scale sum of o >= sum over X of r_i - M sum of lambda_t,
        r_i = scale o_i + sum over t <= o_i of lambda_t (s_i + t),

    so that the k least r_i give a lower bound (Lagrangian relaxation; derived for this project).
    ``price[i]``, integer, is that of t = o_i; of equal outputs only the first may have one.
    O(n), by output ascending.
    """
    n = len(output_tokens)
    cost = np.empty(n, np.int64)
    prices = moments = 0
    for i in range(n):
        prices += price[i]
        moments += price[i] * output_tokens[i]
        cost[i] = scale * output_tokens[i] + prices * prompt_tokens[i] + moments
    return cost


@jit
def raise_bounds(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    kv_tokens: int,
    count: int,
    target: int,
    scale: int,
    rounds: int,
    patience: int,
    price: IntArray,
    bounds: IntArray,
) -> int:
    """Raise the bound for batches of ``count`` requests by subgradient ascent; returns it.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    kv_tokens
        The budget M.
    count
        Size k of the batches whose bound is raised; that of other sizes gains by the way.
    target
        Sum of outputs beyond which the bound need not go.
    scale
        Units that an output token, a price and a bound are counted in.
    rounds, patience
        Most price vectors that are tried, and how many without a better bound before the aim is
        lowered.
    price
        Prices to begin with, shape (n,); receives the best ones.
    bounds
        By size, shape (n + 1,), in 1 / scale tokens; each is raised where a price vector does.

    Notes
    -----
    Polyak's step toward a level above the best bound, which comes halfway nearer when it seems out
    of reach, until it is half a token away. The prices move as floats, which only steer: a bound is
    computed in integers from the rounded prices, and holds whatever they are. O(n log n) a
    round.
    """
    n = len(output_tokens)
    point = price.astype(np.float64)
    trial = np.empty(n, np.int64)
    direction = np.zeros(n, np.float64)
    inside = np.empty(n, np.bool_)
    best = -1
    level = -1.0
    stalled = 0
    for _ in range(rounds):
        # All reduced costs together must stay below FAR; what is far beyond any use is not tried.
        if np.sum(point) * kv_tokens * n > FAR / 4:
            break
        for i in range(n):
            trial[i] = np.int64(point[i])
        paid = kv_tokens * trial.sum()
        cost = reduced_costs(prompt_tokens, output_tokens, trial, scale)
        order = order_by(cost)
        here = -paid
        for rank in range(n):
            inside[order[rank]] = rank < count
            if rank < count:
                here += cost[order[rank]]
        if here > best:
            best = here
            stalled = 0
            price[:] = trial
            found = -paid
            for size in range(1, n + 1):
                found += cost[order[size - 1]]
                bounds[size] = max(bounds[size], found)
            if best > scale * target:
                break
            if level < 0.0:
                level = float(scale * target - best)
        else:
            stalled += 1
            if stalled == patience:
                stalled = 0
                level /= 2
                if level < scale / 2:
                    break
                point[:] = price
                direction[:] = 0.0
                continue
        norm = _turn(prompt_tokens, output_tokens, inside, kv_tokens, point, direction)
        if norm == 0.0:
            break
        goal = min(best + level, float(scale * target))
        step = max(goal - here, scale / 2) / norm
        for i in range(n):
            point[i] = max(0.0, point[i] + step * direction[i])
    return best


@jit
def _turn(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    inside: BoolArray,
    kv_tokens: int,
    point: FloatArray,
    direction: FloatArray,
) -> float:
    """Turn the direction toward usage less budget at each output; returns its square sum.

    Only the first of equal outputs has a price, and none falls below 0.
    """
    running = held = 0
    norm = 0.0
    for i in range(len(output_tokens) - 1, -1, -1):
        if inside[i]:
            running += 1
            held += prompt_tokens[i]
        if i > 0 and output_tokens[i - 1] == output_tokens[i]:
            continue
        excess = held + running * output_tokens[i] - kv_tokens
        if excess <= 0 and point[i] <= 0.0:
            excess = 0
        turned = INERTIA * direction[i] + (1.0 - INERTIA) * excess
        if turned < 0.0 and point[i] <= 0.0:
            turned = 0.0
        direction[i] = turned
        norm += turned * turned
    return norm
