"""Annealing on the order of starts for small backlogs, memory kept step by step.

Each request of the sequence starts at the first step at which it fits beside those before it in the
sequence, no earlier than its predecessor (and its release). A move exchanges two requests or puts
one elsewhere; what stands before is left as it is. O(sum of o) a move, which for tens of requests
is some microseconds. Every strict list schedule can be reached, deliberate waits cannot.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.exact_search import UInt64Array
from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray


@jit
def first_fit(prompt: int, output: int, kv_tokens: int, step: int, usage: IntArray) -> int:
    """First step >= ``step`` at which a request that fits alone fits beside ``usage``."""
    k = output
    while k > 0:
        excess = usage[step + k] + prompt + k - kv_tokens
        if excess > 0:
            # That step fits once it is another k, or behind the start.
            step += min(excess, k)
            k = output
        else:
            k -= 1
    return step


@jit
def decode(
    prompt: IntArray,
    output: IntArray,
    release: IntArray,
    kv_tokens: int,
    sequence: IntArray,
    begin: int,
    starts: IntArray,
    usage: IntArray,
) -> int:
    """Start the requests from position ``begin`` on; returns the sum of all starts.

    ``usage`` holds the tokens of those before, by step, and of all afterwards.
    """
    step = 0
    if begin > 0:
        step = starts[sequence[begin - 1]]
    for position in range(begin, len(sequence)):
        i = sequence[position]
        step = first_fit(prompt[i], output[i], kv_tokens, max(step, release[i]), usage)
        starts[i] = step
        for k in range(1, output[i] + 1):
            usage[step + k] += prompt[i] + k
    return starts.sum()


@jit
def _forget(
    prompt: IntArray,
    output: IntArray,
    sequence: IntArray,
    begin: int,
    starts: IntArray,
    usage: IntArray,
) -> None:
    """Take the tokens of all from position ``begin`` on out of ``usage``."""
    for position in range(begin, len(sequence)):
        i = sequence[position]
        for k in range(1, output[i] + 1):
            usage[starts[i] + k] -= prompt[i] + k


@jit
def anneal(
    prompt: IntArray,
    output: IntArray,
    release: IntArray,
    kv_tokens: int,
    sequence: IntArray,
    usage: IntArray,
    moves: int,
    hot: float,
    cold: float,
    state: UInt64Array,
    best: IntArray,
    best_sum: int,
) -> int:
    """Try ``moves`` moves from ``sequence``, which is left at the last one accepted.

    Temperatures fall from ``hot`` to ``cold`` (steps). ``best`` takes the starts of a schedule
    whose sum is below ``best_sum``; returns the least sum seen. ``usage`` is room for every step,
    zeros before and after. ``state`` is that of the random numbers, one word.
    """
    n = len(sequence)
    starts = np.empty(n, np.int64)
    total = decode(prompt, output, release, kv_tokens, sequence, 0, starts, usage)
    if total < best_sum:
        best_sum = total
        best[:] = starts
    old_sequence = sequence.copy()
    old_starts = starts.copy()
    for move in range(moves if n > 1 else 0):
        temperature = hot * (cold / hot) ** (move / moves)
        low = int(_random(state) * n)
        high = int(_random(state) * n)
        if _random(state) < 0.5:
            high = low + 1 + int(_random(state) * 5)
        if high >= n or low == high:
            continue
        begin = min(low, high)
        limit = total - temperature * np.log(1.0 - _random(state))
        exchange = _random(state) < 0.5
        _forget(prompt, output, sequence, begin, starts, usage)
        moved = sequence[low]
        if exchange:
            sequence[low] = sequence[high]
        elif low < high:
            sequence[low:high] = old_sequence[low + 1 : high + 1]
        else:
            sequence[high + 1 : low + 1] = old_sequence[high:low]
        sequence[high] = moved
        value = decode(prompt, output, release, kv_tokens, sequence, begin, starts, usage)
        if value <= limit:
            total = value
            old_sequence[:] = sequence
            old_starts[:] = starts
            if value < best_sum:
                best_sum = value
                best[:] = starts
            continue
        _forget(prompt, output, sequence, begin, starts, usage)
        sequence[:] = old_sequence
        starts[:] = old_starts
        for position in range(begin, n):
            i = sequence[position]
            for k in range(1, output[i] + 1):
                usage[starts[i] + k] += prompt[i] + k
    _forget(prompt, output, sequence, 0, starts, usage)
    return best_sum


@jit
def _random(state: UInt64Array) -> float:
    """Uniform in [0, 1): xorshift64*, Vigna (2016)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0
