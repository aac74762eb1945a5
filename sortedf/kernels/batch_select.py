"""The three ways of [1] to choose a batch of small F: exactly, by local swaps, by quantiles."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.batch_fill import (
    BoolArray,
    IntArray,
    fill_batch,
    is_better,
    order_by,
    take_cheapest,
)
from sortedf.kernels.batch_prices import choose_scale, raise_bounds
from sortedf.kernels.batch_search import NOT_FOUND, TOO_MANY, search_size
from sortedf.kernels.batch_swap import improve_batch
from sortedf.kernels.jit import jit

SCREEN = (100, 5)
POLISH = (500, 10)
"""Rounds and patience of the ascent for a size that is in question, and before it is searched."""


@jit
def select_by_quantiles(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    left: IntArray,
    kv_tokens: int,
    sample: int,
    quantiles: int,
) -> IntArray:
    """Quantile greedy [1]: set long prompts aside, fill by output; the best of a few thresholds.

    Of the requests left a sample, evenly spaced by output, gives the prompt lengths at the
    quantiles 1 / q, 2 / q, .., 1. For each, requests with a longer prompt are set aside and a batch
    is filled by output ascending (see :func:`~sortedf.kernels.batch_fill.fill_batch`, which sets
    those of long output aside by itself). The batch of least F counts; of equal ones the larger,
    then the one of the lower threshold.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o of all requests by output ascending, int64 of shape (n,).
    left
        Positions that remain, ascending, shape (m,), m >= 1.
    kv_tokens
        The budget M; each request fits alone.
    sample, quantiles
        Size of the sample and number of thresholds, >= 1.

    Returns
    -------
    ndarray
        Positions of the batch, ascending.
    """
    m = len(left)
    size = min(sample, m)
    drawn = np.empty(size, np.int64)
    for x in range(size):
        drawn[x] = prompt_tokens[left[x * m // size]]
    drawn.sort()
    best = np.empty(m, np.int64)
    batch = np.empty(m, np.int64)
    best_count = best_total = 0
    widest = -1
    for q in range(1, quantiles + 1):
        quantile = drawn[(q * size + quantiles - 1) // quantiles - 1]
        if quantile == widest:
            continue
        widest = quantile
        count, total = fill_batch(prompt_tokens, output_tokens, left, widest, kv_tokens, batch)
        if is_better(total, count, best_total, best_count):
            best_count, best_total = count, total
            best, batch = batch, best
    return best[:best_count].copy()


@jit
def select_by_swaps(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    kv_tokens: int,
    quantiles: int,
    weights: IntArray,
) -> IntArray:
    """Local swap search [1] from a few greedy batches; the best of what it ends in.

    A start for each quantile of the prompts (those above are set aside, the batch is filled by
    output ascending) and for each weight of a prompt token in output tokens (the cheapest by
    o + weight s). From each the moves of :func:`~sortedf.kernels.batch_swap.improve_batch`, until
    none makes F less. Which starts, the paper does not say; chosen for this project by measurement.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    kv_tokens
        The budget M; each request fits alone.
    quantiles
        Number of quantiles, >= 1.
    weights
        In units of 1 / ``WEIGHT_UNIT``, integers >= 0.

    Returns
    -------
    ndarray
        Positions of the batch, ascending: the least F; of equal ones the most requests, then the
        earliest start.
    """
    n = len(output_tokens)
    everyone = np.arange(n)
    by_prompt = order_by(-prompt_tokens)
    inside = np.empty(n, np.bool_)
    batch = np.empty(n, np.int64)
    best = batch[:0]
    best_count = best_total = 0
    for start in range(quantiles + len(weights)):
        if start < quantiles:
            above = n - ((start + 1) * n + quantiles - 1) // quantiles
            widest = prompt_tokens[by_prompt[above]]
            count, _ = fill_batch(prompt_tokens, output_tokens, everyone, widest, kv_tokens, batch)
            begin = batch[:count]
        else:
            begin = take_cheapest(
                prompt_tokens, output_tokens, weights[start - quantiles], kv_tokens
            )
        inside[:] = False
        inside[begin] = True
        improve_batch(prompt_tokens, output_tokens, by_prompt, inside, kv_tokens)
        count = total = 0
        for i in range(n):
            if inside[i]:
                count += 1
                total += output_tokens[i]
        if is_better(total, count, best_total, best_count):
            best_count, best_total = count, total
            best = np.flatnonzero(inside)
    return best


def select_exactly(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    kv_tokens: int,
    start: IntArray,
    max_nodes: int,
) -> IntArray:
    """Feasible batch of least F; of equal ones, one with the most requests.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    kv_tokens
        The budget M; each request fits alone.
    start
        Positions of a feasible batch, the better the faster.
    max_nodes
        Memory of one search; see :func:`~sortedf.kernels.batch_search.search_size`.

    Returns
    -------
    ndarray
        Positions ascending; of shape (0,) when a search was given up for memory.

    Notes
    -----
    For every size k of a batch there is a greatest sum of outputs with which it would be better
    than the best known one. Price bounds first rule out most sizes: one price vector bounds all of
    them, so that the middle one of those in question is taken each time. The sizes that are left
    are searched by their bound ascending. Until a search has found a batch, each looks at first
    only a little above its bound, then in a range twice as wide, as a start far from the least F
    leaves a range in which the states would be many.
    """
    n = len(output_tokens)
    everything = int(output_tokens.sum())
    scale = choose_scale(everything, n)
    best = start
    total = output_tokens[start].sum()
    bounds = np.zeros(n + 1, np.int64)
    known = np.zeros(n + 1, np.bool_)  # sizes with prices of their own
    prices: dict[int, IntArray] = {}
    size = len(start)
    while size > 0:
        near = _nearest(known, size)
        prices[size] = prices[near].copy() if near > 0 else np.zeros(n, np.int64)
        known[size] = True
        most = _most_total(size, total, len(best), everything)
        raise_bounds(
            prompt_tokens,
            output_tokens,
            kv_tokens,
            size,
            most,
            scale,
            *SCREEN,
            prices[size],
            bounds,
        )
        size = _middle_open(bounds, known, scale, total, len(best), everything)
    polished = np.zeros(n + 1, np.bool_)
    closed = np.zeros(n + 1, np.bool_)
    searched = False
    while True:
        size = _least_open(bounds, closed, scale, total, len(best), everything)
        if size == 0:
            return best
        most = _most_total(size, total, len(best), everything)
        price = prices[size]
        if not polished[size]:
            polished[size] = True
            raise_bounds(
                prompt_tokens,
                output_tokens,
                kv_tokens,
                size,
                most,
                scale,
                *POLISH,
                price,
                bounds,
            )
            continue
        closed[size] = True
        least = -(-bounds[size] // scale)
        reach = most - least + 1 if searched else 1
        while True:
            within = min(most, least + reach - 1)
            found, batch, _ = search_size(
                prompt_tokens, output_tokens, kv_tokens, size, within, price, scale, max_nodes
            )
            if found == TOO_MANY:
                return batch
            if found != NOT_FOUND:
                best, total = batch, found
                searched = True
                break
            if within == most:
                break
            reach *= 2


@jit
def _least_open(
    bounds: IntArray,
    closed: BoolArray,
    scale: int,
    best_total: int,
    best_count: int,
    everything: int,
) -> int:
    """Find the open size of least bound on F, and close those that no better batch can have.

    0 if none is open.
    """
    size = 0
    lowest = 0
    for k in range(1, len(closed)):
        if closed[k]:
            continue
        least = -(-bounds[k] // scale)
        if least > _most_total(k, best_total, best_count, everything):
            closed[k] = True
        elif size == 0 or is_better(least, k, lowest, size):
            size, lowest = k, least
    return size


@jit
def _most_total(size: int, best_total: int, best_count: int, everything: int) -> int:
    """Greatest sum of outputs with which a batch of this size is better than the best known.

    The greatest u with u / size^2 < best_total / best_count^2, or equal for a larger batch; never
    more than ``everything``, the sum of all outputs. For n up to 2^15 no product overflows.
    """
    square = best_count * best_count
    whole, part = best_total // square, best_total % square
    if whole > everything // (size * size):
        return everything
    scaled = part * size * size
    most = whole * size * size + scaled // square
    if scaled % square == 0 and size <= best_count:
        most -= 1
    return min(most, everything)


@jit
def _nearest(known: BoolArray, size: int) -> int:
    """Find the known size nearest to this one; 0 if none is known."""
    for distance in range(len(known)):
        for near in (size - distance, size + distance):
            if 0 < near < len(known) and known[near]:
                return near
    return 0


@jit
def _middle_open(
    bounds: IntArray,
    known: BoolArray,
    scale: int,
    best_total: int,
    best_count: int,
    everything: int,
) -> int:
    """Of the unknown sizes that a better batch may have, the middle one; 0 if there is none."""
    sizes = np.empty(len(known), np.int64)
    found = 0
    for size in range(1, len(known)):
        most = _most_total(size, best_total, best_count, everything)
        if not known[size] and bounds[size] <= most * scale:
            sizes[found] = size
            found += 1
    return sizes[found // 2] if found > 0 else 0
