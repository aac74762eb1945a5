"""The fluid relaxation with releases: memory as a machine that works off M token-steps a step.

A schedule holds at most M tokens at every step, so what it holds of each request is work done by a
machine of rate M that may cut requests anywhere and serve several at a time. Of all ways to do so,
the sum over requests of the mean time at which each is worked on is least when the machine always
serves, of the requests that are there, the one of least work, all of it before it was begun:
by the order of work / weight, which is optimal for mean busy times (Goemans, Queyranne, Schulz,
Skutella and Wang, "Single machine scheduling with release dates", 2002); here all weights are 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from sortedf.kernels.fluid import fluid_pieces, fluid_pieces_in_python


class Pieces(NamedTuple):
    """What the machine does, ascending in time: which job, from when, for how long."""

    job: Any
    begin: Any
    length: Any


def pieces_by_rank(release: Any, work: Any, key: Any) -> Pieces:
    """Serve jobs by the least ``key``, ties by position; time in units of work.

    ``release`` and ``work`` (above 0), shape (n,), are floats, or Python's integers (arrays of
    objects), then exact. Jobs that are all there at first are served one after the other.
    """
    n = len(work)
    order = np.argsort(key, kind="stable")
    if not release.any():
        ends = np.cumsum(work[order])
        return Pieces(order, ends - work[order], work[order])
    rank = np.empty(n, np.int64)
    comes = np.argsort(release, kind="stable")
    place = np.empty(n, np.int64)
    place[comes] = np.arange(n)
    rank[place[order]] = np.arange(n)
    columns = release[comes], work[comes], rank, place[order]
    if work.dtype != object:
        found = np.empty(2 * n, np.int64), np.empty(2 * n), np.empty(2 * n)
        count = fluid_pieces(*columns, *found)
        job, begin, length = (column[:count] for column in found)
        return Pieces(comes[job], begin, length)
    lists: list[list[int]] = [[0] * (2 * n) for _ in range(3)]
    count = fluid_pieces_in_python(*(column.tolist() for column in columns), *lists)
    jobs, begins, lengths = (column[:count] for column in lists)
    return Pieces(comes[jobs], np.array(begins, object), np.array(lengths, object))


def mean_times(release: Any, work: Any, each: Any, rate: int) -> Fraction:
    """Sum over requests of the mean time at which the machine works on them, exact, in steps.

    Integers (arrays of objects), shape (kinds,): releases in steps, the work of one request, above
    0, and of all alike.
    """
    pieces = pieces_by_rank(release * rate, each, work)
    gathered: dict[
        int, int
    ] = {}  # by work: twice the time of each piece's middle, times its length
    middles = pieces.length * (2 * pieces.begin + pieces.length)
    for w, twice in zip(work[pieces.job].tolist(), middles.tolist(), strict=True):
        gathered[w] = gathered.get(w, 0) + twice
    return sum_of_fractions([(twice, w) for w, twice in gathered.items()]) / (2 * rate)


def sum_of_fractions(terms: list[tuple[int, int]]) -> Fraction:
    """Sum up numerator / denominator by halves, so that few additions are on long numbers."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        rest = terms[-1:] if len(terms) % 2 else []
        terms = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs] + rest
    return Fraction(*terms[0])


def shortest_remaining(release: Sequence[int], work: Sequence[int]) -> int:
    """Sum of the completions when the least work left goes first, in units of work.

    No schedule of a machine of this rate that may cut jobs anywhere has a smaller one (Schrage,
    1968). O(n log n), exact.
    """
    total = now = 0
    heap: list[int] = []
    for a, w in sorted(zip(release, work, strict=True)):
        while heap and now < a:
            done = min(heap[0], a - now)
            now += done
            if done == heap[0]:
                heappop(heap)
                total += now
            else:
                heap[0] -= done  # the least stays the least
        now = max(now, a)
        heappush(heap, w)
    for w in sorted(heap):
        now += w
        total += now
    return total
