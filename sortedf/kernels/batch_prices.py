"""Lower bounds on the outputs of every feasible batch of k requests, from prices on its memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.batch_fill import IntArray
from sortedf.kernels.jit import jit

FloatArray = npt.NDArray[np.float64]

FAR = 2**62
"""No sum of reduced costs reaches this."""

PATIENCE = 5
"""Price vectors without a better bound after which the step is halved."""

SHORTEST_STEP = 0.01
"""Share of Polyak's step below which the ascent ends."""


@jit
def order_by(cost: IntArray) -> IntArray:
    """Positions by cost ascending, ties by position."""
    return np.argsort(cost, kind="mergesort")


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
    price: IntArray,
    bounds: IntArray,
) -> int:
    """Subgradient ascent on the prices for batches of ``count`` requests; the bound that it finds.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    kv_tokens
        The budget M.
    count
        Size k of the batches whose bound is raised; that of other sizes gains by the way.
    target
        Sum of outputs that such a batch has or should have (Polyak's step aims at it). The ascent
        ends when the bound is above it.
    scale
        Units that one output token or the prices are counted in.
    rounds
        Most price vectors that are tried.
    price
        Prices to begin with, shape (n,); receives the best ones.
    bounds
        By size, shape (n + 1,), in 1 / scale tokens; each is raised where a price vector does.

    Notes
    -----
    The prices move as floats, which only steer; a bound is computed in integers from the rounded
    prices, and holds whatever they are. O(n log n) a round.
    """
    n = len(output_tokens)
    point = price.astype(np.float64)
    trial = np.empty(n, np.int64)
    slope = np.empty(n, np.float64)
    goal = scale * target
    step = 1.0
    best = np.int64(-1)
    stalled = 0
    for _ in range(rounds):
        # All reduced costs together must stay below FAR; what is far beyond any use is not tried.
        if np.sum(point) * kv_tokens * n > FAR / 4:
            break
        for i in range(n):
            trial[i] = np.int64(point[i])
        cost = reduced_costs(prompt_tokens, output_tokens, trial, scale)
        order = order_by(cost)
        here = best
        found = -kv_tokens * trial.sum()
        for size in range(1, n + 1):
            found += cost[order[size - 1]]
            bounds[size] = max(bounds[size], found)
            if size == count:
                here = found
        if here > best:
            best = here
            price[:] = trial
            stalled = 0
        else:
            stalled += 1
            if stalled == PATIENCE:
                stalled = 0
                step /= 2
                if step < SHORTEST_STEP:
                    break
                point[:] = price
        if best > goal:
            break
        norm = _slope(prompt_tokens, output_tokens, order[:count], kv_tokens, point, slope)
        if norm == 0.0:
            break
        length = step * max(float(goal - here), float(scale)) / norm
        for i in range(n):
            point[i] = max(0.0, point[i] + length * slope[i])
    return best


@jit
def _slope(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    chosen: IntArray,
    kv_tokens: int,
    point: FloatArray,
    slope: FloatArray,
) -> float:
    """Usage less budget at each output, 0 where the price cannot follow; returns its square sum."""
    n = len(output_tokens)
    inside = np.zeros(n, np.bool_)
    inside[chosen] = True
    running = held = 0
    norm = 0.0
    for i in range(n - 1, -1, -1):
        if inside[i]:
            running += 1
            held += prompt_tokens[i]
        slope[i] = 0.0
        if i == 0 or output_tokens[i - 1] < output_tokens[i]:
            excess = held + running * output_tokens[i] - kv_tokens
            if excess > 0 or point[i] > 0.0:
                slope[i] = float(excess)
                norm += slope[i] * slope[i]
    return norm
