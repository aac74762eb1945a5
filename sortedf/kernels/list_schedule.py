"""List scheduling with continuous batching: run requests in an order, admit what fits for ever."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray, advance, earliest_start, new_profile, place

NEVER = np.iinfo(np.int64).max


@jit
def list_schedule(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    release: IntArray,
    order: IntArray,
    budgets: IntArray,
    lookahead: int,
) -> tuple[IntArray, IntArray]:
    """Start steps and workers, shape (n,), of list scheduling exact at all future steps.

    At every step the waiting requests (released, not started) are gone through in ``order``; each
    that fits beside the running ones of some worker until it completes is started there; after
    ``lookahead`` that fit on none the step is over. ``lookahead`` 1 is strict head of line: MC-SF's
    admission [3], phase 2 of Sorted-F [1], SVF's rule [2], each with its own order. So a request
    goes to the worker where it starts first, and as all are equally fast completes first; of
    several to one of the smallest budget, so that the large ones are free for what fits on no
    other; of these to the one that has been given the least so far, in token-steps for its budget;
    of equal ones to the first.

    Parameters
    ----------
    prompt_tokens, output_tokens, release
        s, o (tokens) and a (steps) by request, int64 of shape (n,); s + o <= some budget.
    order
        The requests by rank, a permutation of 0..n-1.
    budgets
        The budget M of each worker in tokens, int64 of shape (R,).
    lookahead
        How many requests that do not fit are passed over, >= 1.

    Notes
    -----
    Time goes from one step at which something can start to the next, not token by token: for each
    passed-over request the earliest step at which it fits beside the running ones is computed, and
    stays a lower bound when more are started. A tree over the ranks holds these bounds (for a
    request not looked at yet, its release), and gives the first request in order that may start
    now, and the next step at which one may. O(log n + R sqrt D) for each look at a request, R
    workers, D the number of different completion steps ahead; strict, each request is looked at
    about twice.
    """
    n = len(order)
    # By rank, so that the loop goes through memory in order.
    prompt = prompt_tokens[order]
    output = output_tokens[order]
    arrival = release[order]
    start_of = np.empty(n, np.int64)
    worker_of = np.zeros(n, np.int64)
    profile = new_profile(n, len(budgets))
    given = np.zeros(len(budgets))  # token-steps over the budget, so far
    leaves = 1
    while leaves < n:
        leaves *= 2
    ready = np.full(2 * leaves, NEVER, np.int64)
    ready[leaves : leaves + n] = arrival
    for node in range(leaves - 1, 0, -1):
        ready[node] = min(ready[2 * node], ready[2 * node + 1])

    passed_over = np.zeros(n, np.bool_)
    width = 0  # how many are passed over now
    heap = np.empty(2 * n + 1, np.int64)  # their ranks, largest first; some no longer passed over
    heap_size = 0
    horizon = n - 1  # last rank that may be looked at: where the step would be over
    step = ready[1]
    left = n
    while left > 0:
        rank = _first_ready(ready, leaves, step)
        if rank > horizon:
            step = _next_ready(ready, leaves, horizon)
            for worker in range(len(budgets)):
                advance(profile, worker, step)
            continue
        s, o = prompt[rank], output[rank]
        start = NEVER
        chosen = 0
        for worker in range(len(budgets)):
            if s + o <= budgets[worker] and (
                start > step
                or budgets[worker] < budgets[chosen]
                or (budgets[worker] == budgets[chosen] and given[worker] < given[chosen])
            ):
                earliest = earliest_start(profile, worker, s, o, step, budgets[worker])
                if earliest < start or earliest == step:
                    start = earliest
                    chosen = worker
        if start == step:
            place(profile, chosen, s, o, step)
            given[chosen] += (s + (o + 1) / 2) * o / budgets[chosen]
            start_of[rank] = step
            worker_of[rank] = chosen
            left -= 1
            _set_ready(ready, leaves, rank, NEVER)
            if passed_over[rank]:
                passed_over[rank] = False
                width -= 1
                horizon = n - 1
                if width == 0:
                    heap_size = 0
            continue
        _set_ready(ready, leaves, rank, start)
        if not passed_over[rank]:
            passed_over[rank] = True
            width += 1
            heap_size = _push(heap, heap_size, rank)
            if width > lookahead:
                # An arrival has come before the last one passed over, which is out of sight now
                # and to be looked at anew when its turn comes.
                heap_size = _drop_stale(heap, heap_size, passed_over)
                last = heap[0]
                passed_over[last] = False
                width -= 1
                _set_ready(ready, leaves, last, arrival[last])
        if width == lookahead:
            heap_size = _drop_stale(heap, heap_size, passed_over)
            horizon = heap[0]
    starts = np.empty(n, np.int64)
    starts[order] = start_of
    workers = np.empty(n, np.int64)
    workers[order] = worker_of
    return starts, workers


@jit
def _first_ready(ready: IntArray, leaves: int, step: int) -> int:
    """First rank whose bound is at or before ``step``; ``leaves`` when there is none."""
    if ready[1] > step:
        return leaves
    node = 1
    while node < leaves:
        node *= 2
        if ready[node] > step:
            node += 1
    return node - leaves


@jit
def _next_ready(ready: IntArray, leaves: int, horizon: int) -> int:
    """Least bound among the ranks 0..horizon."""
    node = horizon + leaves
    least = ready[node]
    while node > 1:
        if node % 2 == 1:
            least = min(least, ready[node - 1])
        node //= 2
    return least


@jit
def _set_ready(ready: IntArray, leaves: int, rank: int, step: int) -> None:
    """Set one bound and the minima above it, as far as they change."""
    node = rank + leaves
    ready[node] = step
    while node > 1:
        node //= 2
        least = min(ready[2 * node], ready[2 * node + 1])
        if ready[node] == least:
            return
        ready[node] = least


@jit
def _push(heap: IntArray, size: int, rank: int) -> int:
    """Add to a heap with the largest first; returns the new size."""
    child = size
    while child > 0 and heap[(child - 1) // 2] < rank:
        heap[child] = heap[(child - 1) // 2]
        child = (child - 1) // 2
    heap[child] = rank
    return size + 1


@jit
def _drop_stale(heap: IntArray, size: int, keep: npt.NDArray[np.bool_]) -> int:
    """Remove ranks from the top until one is still to be kept; returns the new size."""
    while not keep[heap[0]]:
        size -= 1
        rank = heap[size]
        parent = 0
        child = 1
        while child < size:
            if child + 1 < size and heap[child + 1] > heap[child]:
                child += 1
            if heap[child] <= rank:
                break
            heap[parent] = heap[child]
            parent = child
            child = 2 * child + 1
        heap[parent] = rank
    return size
