"""Price bounds within windows of starts, one price a step, in integers.

For any prices lambda_t >= 0 of a token-step and windows low_i <= p_i <= high_i,

    sum_i min_window [p + o_i + sum_{k=1..o_i} lambda_{p+k} (s_i + k)] - M sum_t lambda_t

is a lower bound on the sum of completions of every schedule whose starts lie in the windows (the
price bound of ``docs/bounds.md``, restricted). Prices are zero beyond their last step T, and a
window that ends at T stands for all later starts too, since those cost more. Prices are integers
over a common ``scale``, so that the bound is exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray

FloatArray = npt.NDArray[np.float64]


@jit
def costs_of(
    i: int,
    prompt: IntArray,
    output: IntArray,
    low: IntArray,
    high: IntArray,
    total: IntArray,
    moment: IntArray,
    scale: int,
    costs: IntArray,
) -> None:
    """Costs of request i at each start of its window, into ``costs[low..high]``; O(window).

    ``total`` and ``moment`` are the sums of prices, and of prices times steps, up to each step.
    """
    last = len(total) - 1
    s, o = prompt[i], output[i]
    for p in range(low[i], high[i] + 1):
        end = min(p + o, last)
        costs[p] = scale * (p + o) + (s - p) * (total[end] - total[p]) + moment[end] - moment[p]


@jit
def sum_prices(prices: IntArray, total: IntArray, moment: IntArray) -> None:
    """Sum up prices and of prices times steps up to each step."""
    total[0] = 0
    moment[0] = 0
    for t in range(1, len(prices)):
        total[t] = total[t - 1] + prices[t]
        moment[t] = moment[t - 1] + t * prices[t]


@jit
def ascend(
    prompt: IntArray,
    output: IntArray,
    kv_tokens: int,
    low: IntArray,
    high: IntArray,
    prices: IntArray,
    scale: int,
    evaluations: int,
    first_rate: float,
    last_rate: float,
    mean: FloatArray,
    spread: FloatArray,
) -> int:
    """Raise the bound by Adam (Kingma, Ba 2015); the best prices replace ``prices``.

    Rates are steps of a price, in units of 1 / scale. ``mean`` and ``spread`` take the mean and
    the variance of the cheapest starts over the second half of the evaluations. Returns the best
    bound, times scale. O(evaluations (windows + n + T)).
    """
    n = len(prompt)
    steps = len(prices)
    total = np.empty(steps, np.int64)
    moment = np.empty(steps, np.int64)
    costs = np.empty(steps, np.int64)
    rise = np.empty(steps + 1, np.int64)
    jump = np.empty(steps + 1, np.int64)
    point = prices.astype(np.float64)
    now = prices.copy()
    first = np.zeros(steps)
    second = np.zeros(steps)
    best = np.iinfo(np.int64).min
    mean[:] = 0.0
    spread[:] = 0.0
    counted = 0
    for evaluation in range(evaluations):
        sum_prices(now, total, moment)
        bound = -kv_tokens * total[steps - 1]
        rise[:] = 0
        jump[:] = 0
        late = 2 * evaluation >= evaluations
        counted += late
        for i in range(n):
            costs_of(i, prompt, output, low, high, total, moment, scale, costs)
            start = low[i] + np.argmin(costs[low[i] : high[i] + 1])
            bound += costs[start]
            if late:
                mean[i] += start
                spread[i] += np.float64(start) * start
            # From start + 1 on it holds s + 1, s + 2, ...: rise by one a step after a jump to s.
            end = min(start + output[i], steps - 1)
            if end > start:
                jump[start + 1] += prompt[i]
                rise[start + 1] += 1
                rise[end + 1] -= 1
                jump[end + 1] -= prompt[i] + end - start
        if bound > best:
            best = bound
            prices[:] = now
        rate = first_rate * (last_rate / first_rate) ** (evaluation / evaluations)
        weight_first = 1.0 - 0.9 ** (evaluation + 1)
        weight_second = 1.0 - 0.99 ** (evaluation + 1)
        held = 0
        running = 0
        for t in range(1, steps):
            running += rise[t]
            held += running + jump[t]
            gradient = np.float64(held - kv_tokens)
            first[t] = 0.9 * first[t] + 0.1 * gradient
            second[t] = 0.99 * second[t] + 0.01 * gradient * gradient
            move = first[t] / weight_first / (np.sqrt(second[t] / weight_second) + 1e-9)
            point[t] = max(0.0, point[t] + rate * move)
            now[t] = np.int64(np.rint(point[t]))
    for i in range(n):
        mean[i] /= counted
        spread[i] = spread[i] / counted - mean[i] * mean[i]
    return best


@jit
def shrink(
    prompt: IntArray,
    output: IntArray,
    low: IntArray,
    high: IntArray,
    prices: IntArray,
    scale: int,
    slack: int,
) -> int:
    """Cut starts off both ends of each window that cost over ``slack`` (scaled) above the least.

    With slack = (value to beat - 1) scale - bound no better schedule is lost. Returns how much
    above the least of its window the cheapest start is that was cut off, at least; the largest
    integer if none was. An end at the last step T is kept unless T itself costs too much: it stands
    for the later starts, which cost more still.
    """
    steps = len(prices)
    total = np.empty(steps, np.int64)
    moment = np.empty(steps, np.int64)
    costs = np.empty(steps, np.int64)
    sum_prices(prices, total, moment)
    excess = np.iinfo(np.int64).max
    for i in range(len(prompt)):
        costs_of(i, prompt, output, low, high, total, moment, scale, costs)
        least = costs[low[i] : high[i] + 1].min()
        while costs[low[i]] > least + slack:
            excess = min(excess, costs[low[i]] - least)
            low[i] += 1
        while costs[high[i]] > least + slack:
            excess = min(excess, costs[high[i]] - least)
            high[i] -= 1
    return excess
