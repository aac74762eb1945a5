"""Scores of requests that change while they are served, and queues ordered by them.

The least score goes first. The score of a waiting request stands still, but for promotions and a
new gamma; that of a running one changes with every step that serves it. So the waiting ones are in
a heap, and the running ones are gone through.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import lean_jit

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

# Scoring.kind: what the score of a request is.
RANKED = 0  # none: ranks order the queue
FIXED = 1  # its base
REMAINING = 2  # base - output tokens so far, and weight x known tokens not in cache
BOUND = 3  # its base, or output tokens so far where these are more
BOOST = 4  # base - b_gamma(work)

# Rules.keeps: what an evicted request keeps.
RECOMPUTES = 0  # its sampled tokens; all known ones are computed again
SWAPS = 1  # its KV as well, which moves out and back
RESTARTS = 2  # nothing: output tokens are sampled again

# Columns of Engine.standing.
SCORE = 0
BASE = 1  # what the score comes from: a key, a predicted output, a bound, an arrival
ATTAINED = 2  # engine seconds in service, its share of each step's time
FLOOR = 3  # least work that counts, in seconds
WORK = 4  # that the score is of
THRESHOLD = 5  # output tokens at which WORK is next brought up to date; 0 for always
CHANGES = 6  # how often it was
DUE = 7  # seconds at which it is promoted if it still waits
PROMOTED = 8  # 1 while it goes before all who are not
QUOTA = 9  # output tokens at which the promotion ends
PATIENCE = 10  # seconds of waiting after which it is promoted; inf for never
STANDINGS = 11

# Engine.dials.
NOW = 0  # seconds of this call
GAMMA = 1  # of BOOST
ENDED = 2  # requests that have completed
DIALS = 3

PROMOTION = 1e9
"""Taken from the arrival of a promoted request, it gives a score below all others."""

LEAST_WORK = 1e-9
"""Seconds; less would have a boost without bound."""


class Scoring(NamedTuple):
    """How scores come about; see docs/serving.md for the policies that these make."""

    kind: int = RANKED
    weight: float = 0.0  # REMAINING: output tokens that a known token not in cache counts for
    share: float = np.inf  # REMAINING: of the base, from which on nobody evicts it
    guard: int = 0  # BOOST: first threshold of output tokens, the next ones double; 0 for none
    quantum: int = 1  # output tokens for which a request stays promoted
    window: int = 0  # BOOST: completed requests whose tail gives gamma; 0 for a fixed one
    every: int = 1  # after how many completions it is looked at
    smoothing: float = 1.0  # weight of what is found against what was, in logarithms
    least_gamma: float = 0.0
    most_gamma: float = np.inf


@lean_jit
def boosted(arrival: float, work: float, gamma: float) -> float:
    """Score of gamma-Boost: a - b_gamma(w), b_gamma(w) = (1 / gamma) ln(1 / (1 - exp(-gamma w))).

    gamma 0 is least attained service (the work itself), infinity first come (the arrival): the
    limits of the orders. arXiv 2404.08826, 2606.18431.
    """
    work = max(work, LEAST_WORK)
    if gamma == 0:
        return work
    if gamma == np.inf:
        return arrival
    return arrival + np.log(-np.expm1(-gamma * work)) / gamma


@lean_jit
def goes_before(keys: FloatArray, ranks: IntArray, one: int, other: int) -> bool:
    """Whether a request has the lesser key, ties by rank."""
    return keys[one] < keys[other] or (keys[one] == keys[other] and ranks[one] < ranks[other])


@lean_jit
def put(
    heap: IntArray, place: IntArray, size: int, keys: FloatArray, ranks: IntArray, request: int
) -> None:
    """Add a request to a heap of ``size``; ``place`` says of each where it is. O(log size)."""
    _rise(heap, place, size, keys, ranks, request)


@lean_jit
def take(
    heap: IntArray, place: IntArray, size: int, keys: FloatArray, ranks: IntArray, request: int
) -> None:
    """Take a request, which is there, out of a heap of ``size``. O(log size)."""
    hole, last = place[request], heap[size - 1]
    place[request] = -1
    if last == request:
        return
    size -= 1
    if hole > 0 and goes_before(keys, ranks, last, heap[(hole - 1) // 2]):
        _rise(heap, place, hole, keys, ranks, last)
        return
    child = 2 * hole + 1
    while child < size:
        if child + 1 < size and goes_before(keys, ranks, heap[child + 1], heap[child]):
            child += 1
        if not goes_before(keys, ranks, heap[child], last):
            break
        heap[hole] = heap[child]
        place[heap[hole]] = hole
        hole, child = child, 2 * child + 1
    heap[hole] = last
    place[last] = hole


@lean_jit
def _rise(
    heap: IntArray, place: IntArray, hole: int, keys: FloatArray, ranks: IntArray, request: int
) -> None:
    """Fill a hole with a request, which may have to rise from there."""
    while hole > 0:
        parent = (hole - 1) // 2
        if not goes_before(keys, ranks, request, heap[parent]):
            break
        heap[hole] = heap[parent]
        place[heap[hole]] = hole
        hole = parent
    heap[hole] = request
    place[request] = hole
