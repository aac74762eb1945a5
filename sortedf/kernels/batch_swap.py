"""Local swap search for a feasible batch of small F [1]: exchanges, insertions and removals."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.batch_fill import BoolArray, IntArray, is_better
from sortedf.kernels.jit import jit


@jit
def improve_batch(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    by_prompt: IntArray,
    inside: BoolArray,
    kv_tokens: int,
) -> int:
    """Change a feasible batch by single moves until none makes F less; returns the moves made.

    Neighbourhood: take one request in, leave one out, or exchange one for one. Of all moves the one
    of least F is made (of equal ones the first of: exchange, insertion, removal; then the earliest
    position). Where no move lowers F, an exchange for a request of equal output and shorter prompt
    is made, which frees memory: (F, sum of s) falls lexicographically with every move, so that the
    search ends.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    by_prompt
        Positions by prompt descending, shape (n,).
    inside
        Mask of the batch, shape (n,), feasible and not empty; changed in place.
    kv_tokens
        The budget M.

    Notes
    -----
    An exchange lowers F iff the request that comes, j, has less output than the one that goes, i.
    Then the usage rises at t <= o_j only, by s_j - s_i: it is feasible iff s_i >= s_j - (M - P_j),
    P_j the peak usage over t <= o_j. So the best i for j is the one of longest output among those
    with a prompt that is long enough: a binary search over the batch by prompt. One move costs
    O(n log n) instead of the O(n^2) of trying pairs. Derived for this project.
    """
    n = len(output_tokens)
    usage = np.empty(n, np.int64)
    prompts = np.empty(n, np.int64)
    longest = np.empty(n, np.int64)
    moves = 0
    while True:
        count = total = held = 0
        for i in range(n - 1, -1, -1):
            if inside[i]:
                count += 1
                total += output_tokens[i]
                held += prompt_tokens[i]
            # Complete at the first of equal outputs, which is where it is looked at.
            usage[i] = held + count * output_tokens[i]
        # The batch by prompt descending, each with the longest output (last position) so far.
        size = 0
        for position in by_prompt:
            if inside[position]:
                prompts[size] = -prompt_tokens[position]
                last = longest[size - 1] if size > 0 else position
                longest[size] = max(position, last)
                size += 1
        come, go, gain = _best_exchange(
            prompt_tokens, output_tokens, inside, usage, prompts[:size], longest, kv_tokens
        )
        best_total, best_count = total - gain, count
        entering = _first_insertion(prompt_tokens, output_tokens, inside, usage, kv_tokens)
        if entering >= 0 and is_better(
            total + output_tokens[entering], count + 1, best_total, best_count
        ):
            best_total, best_count = total + output_tokens[entering], count + 1
            come, go = entering, -1
        leaving = longest[size - 1]
        if count > 1 and is_better(
            total - output_tokens[leaving], count - 1, best_total, best_count
        ):
            come, go = -1, leaving
        if come < 0 and go < 0:
            come, go = _narrower(prompt_tokens, output_tokens, inside)
            if come < 0:
                return moves
        if come >= 0:
            inside[come] = True
        if go >= 0:
            inside[go] = False
        moves += 1


@jit
def _best_exchange(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    inside: BoolArray,
    usage: IntArray,
    prompts: IntArray,
    longest: IntArray,
    kv_tokens: int,
) -> tuple[int, int, int]:
    """Positions that come and go, and by how much less output; (-1, -1, 0) if there is none.

    ``prompts``: minus the prompts of the batch, ascending; ``longest``: the last position among
    those up to there.
    """
    come = go = -1
    gain = 0
    peak = 0
    for j in range(len(output_tokens)):
        if j == 0 or output_tokens[j] > output_tokens[j - 1]:
            peak = max(peak, usage[j])
        if inside[j]:
            continue
        # How many of the batch have a prompt of at least s_j - (M - peak).
        enough = np.searchsorted(prompts, kv_tokens - peak - prompt_tokens[j], side="right")
        if enough > 0:
            i = longest[enough - 1]
            if output_tokens[i] - output_tokens[j] > gain:
                come, go, gain = j, i, output_tokens[i] - output_tokens[j]
    return come, go, gain


@jit
def _first_insertion(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    inside: BoolArray,
    usage: IntArray,
    kv_tokens: int,
) -> int:
    """First position (least output) that can be taken in; -1 if none can."""
    peak = 0
    for j in range(len(output_tokens)):
        if j == 0 or output_tokens[j] > output_tokens[j - 1]:
            peak = max(peak, usage[j] + output_tokens[j])
        if not inside[j] and peak + prompt_tokens[j] <= kv_tokens:
            return j
    return -1


@jit
def _narrower(
    prompt_tokens: IntArray, output_tokens: IntArray, inside: BoolArray
) -> tuple[int, int]:
    """Exchange one for a request of equal output and the least prompt; (-1, -1): none is less."""
    n = len(output_tokens)
    first = 0
    while first < n:
        come = go = -1
        last = first
        while last < n and output_tokens[last] == output_tokens[first]:
            if inside[last]:
                if go < 0 or prompt_tokens[last] > prompt_tokens[go]:
                    go = last
            elif come < 0 or prompt_tokens[last] < prompt_tokens[come]:
                come = last
            last += 1
        if come >= 0 and go >= 0 and prompt_tokens[come] < prompt_tokens[go]:
            return come, go
        first = last
    return -1, -1
