"""Feasible batches: what a batch is, how two are compared, and a batch filled by output ascending.

A batch X starts together, so that it is feasible iff at every t the requests that still run hold
``sum over {i in X: o_i >= t} (s_i + t) <= M``; it is enough to look at t = each o_i. Its value is
``F(X) = (sum of o in X) / |X|^2`` [1, arXiv 2508.06133]; the feasibility is derived for this
project. All kernels here take the requests by output ascending.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

WEIGHT_UNIT = 1 << 12
"""What the weight of a prompt token is counted in; 2^40 tokens in all leave room for weights."""


@jit
def order_by(cost: IntArray) -> IntArray:
    """Positions by cost ascending, ties by position."""
    return np.argsort(cost, kind="mergesort")


@jit
def compare_fractions(a: int, b: int, c: int, d: int) -> int:
    """Sign of a / b - c / d for a, c >= 0 and b, d >= 1, exact: no product that could overflow.

    Whole parts first; equal ones leave fractions below 1, whose reciprocals compare the other way.
    O(log min(b, d)) divisions, as in Euclid's algorithm.
    """
    sign = 1
    while True:
        whole, other = a // b, c // d
        if whole != other:
            return sign if whole > other else -sign
        a -= whole * b
        c -= other * d
        if a == 0 or c == 0:
            if a == c:
                return 0
            return sign if a > 0 else -sign
        a, b, c, d = b, a, d, c
        sign = -sign


@jit
def is_better(total: int, count: int, best_total: int, best_count: int) -> bool:
    """Whether F = total / count^2 is less than the best, or equal with more requests.

    A best count of 0 stands for no batch at all.
    """
    if best_count == 0:
        return count > 0
    sign = compare_fractions(total, count * count, best_total, best_count * best_count)
    return sign < 0 or (sign == 0 and count > best_count)


@jit
def peak_tokens(prompt_tokens: IntArray, output_tokens: IntArray, inside: BoolArray) -> int:
    """Most KV tokens that the batch under this mask holds at any step, O(n).

    ``prompt_tokens``, ``output_tokens``, ``inside``: shape (n,), by output ascending.
    """
    peak = running = held = 0
    for i in range(len(output_tokens) - 1, -1, -1):
        if inside[i]:
            running += 1
            held += prompt_tokens[i]
            peak = max(peak, held + running * output_tokens[i])
    return peak


@jit
def fill_batch(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    left: IntArray,
    widest: int,
    kv_tokens: int,
    batch: IntArray,
) -> tuple[int, int]:
    """Fill a batch by output ascending with all that fits; keep its best beginning.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o of all requests by output ascending, int64 of shape (n,).
    left
        Positions that may be taken, ascending, at least one.
    widest
        Requests with a longer prompt are set aside; at least one must not be.
    kv_tokens
        The budget M; each request fits alone.
    batch
        Receives the positions taken, shape at least that of ``left``, or (M // (1 + o_first),).

    Returns
    -------
    tuple of int
        Number of requests in the beginning of least F, and the sum of their outputs.

    Notes
    -----
    With k requests and S prompt tokens taken, the usage at the output t_b of the b-th one is
    S + k t_b - (what had been taken before it, S_b + b t_b): S plus a line in k of slope t_b.
    Slopes ascend, so that the lines' upper envelope is a stack and the greatest one moves only
    forward: O(1) amortised for a request. One more request adds s and t_b everywhere: it fits iff
    s is at most ``room``, whatever its output.

    Each one more takes at least 1 + o_first of the room, and has at least the present o. The least
    F that this allows lies at either end of the range of counts; the scan ends when it is no better
    than the best so far. Derived for this project.
    """
    # Each of a batch holds at least 1 + o_first tokens at step o_first.
    size = min(len(left), kv_tokens // (1 + output_tokens[left[0]]))
    slope = np.empty(size, np.int64)
    offset = np.empty(size, np.int64)
    since = np.empty(size, np.int64)  # count from which a line is above the one below it
    lines = at = 0
    count = total = held = 0
    best_count = best_total = 0
    room = kv_tokens
    for position in left:
        s, o = prompt_tokens[position], output_tokens[position]
        if count > 0:
            least = 1 + output_tokens[batch[0]]
            most = min(count + (room - 1) // least + 1, len(left))
            if most <= count or not is_better(
                total + (most - count) * o, most, best_total, best_count
            ):
                break
        if s > widest or s > room:
            continue
        # Of equal outputs the first request's line is above the others'.
        if lines == 0 or slope[lines - 1] < o:
            line = -(held + count * o)
            start = count
            while lines > 0:
                above = offset[lines - 1] - line
                start = -(-above // (o - slope[lines - 1]))
                if lines == 1 or start > since[lines - 1]:
                    break
                lines -= 1
            slope[lines], offset[lines], since[lines] = o, line, start
            lines += 1
            at = min(at, lines - 1)
        batch[count] = position
        count += 1
        total += o
        held += s
        while at + 1 < lines and since[at + 1] <= count + 1:
            at += 1
        room = kv_tokens - held - offset[at] - (count + 1) * slope[at]
        if is_better(total, count, best_total, best_count):
            best_count, best_total = count, total
    return best_count, best_total


@jit
def take_cheapest(
    prompt_tokens: IntArray, output_tokens: IntArray, weight: int, kv_tokens: int
) -> IntArray:
    """Take the least ``o + weight s / WEIGHT_UNIT``, as many as fit; of those the best beginning.

    ``prompt_tokens``, ``output_tokens``: shape (n,), by output ascending, each fits alone. Returns
    positions ascending. The peak usage only grows with the batch: O(n log n) by bisection.
    """
    n = len(output_tokens)
    order = order_by(output_tokens * WEIGHT_UNIT + prompt_tokens * weight)
    inside = np.zeros(n, np.bool_)
    fits, fails = 1, n + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        for rank in range(n):
            inside[order[rank]] = rank < middle
        if peak_tokens(prompt_tokens, output_tokens, inside) <= kv_tokens:
            fits = middle
        else:
            fails = middle
    total = best_total = 0
    best_count = 0
    for count in range(1, fits + 1):
        total += output_tokens[order[count - 1]]
        if is_better(total, count, best_total, best_count):
            best_count, best_total = count, total
    for rank in range(n):
        inside[order[rank]] = rank < best_count
    return np.flatnonzero(inside)
