"""Replay of a plan that knows only a bound on each output: admit by it, evict when it was short."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.batch_fill import IntArray
from sortedf.kernels.jit import jit


@jit
def replay(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    release: IntArray,
    bound: IntArray,
    rank: IntArray,
    kv_tokens: int,
) -> tuple[IntArray, IntArray]:
    """Run a backlog on bounds of its outputs, against the true ones, with eviction and restart.

    At every step, in this order: what has produced its true output leaves; while what runs would
    not fit the next step, the running request of least current bound is evicted (ties: the first in
    the backlog), its work is lost, and its bound becomes the tokens generated so far if that is
    more; the head of the queue is admitted while every future step is feasible with current bounds
    in place of outputs (the check of [3]; strict). A running request that has outlived its bound is
    taken to need one more token.

    Parameters
    ----------
    prompt_tokens, output_tokens, release
        s, true o and a by request, int64 of shape (n,); s + o <= kv_tokens.
    bound
        Bound on each output, >= 1, with s + bound <= kv_tokens.
    rank
        Place of each request in the queue, shape (n,), kept after an eviction; of shape (0,) the
        queue is by current bound ascending, ties by position.
    kv_tokens
        The budget M.

    Returns
    -------
    starts : ndarray
        Start steps of the last, successful runs, shape (n,); each completes o steps later.
    evicted : ndarray
        Evicted runs in order of time, shape (e, 3): request, start, step of the eviction. Such a
        run held s + k tokens at step start + k, up to the step of its eviction.

    Notes
    -----
    It ends: of the running requests the one of greatest bound is never evicted (alone it fits), and
    only one of greater bound can take its place. O(steps x running), and O(n) an eviction. The
    order of eviction and the admission are [4]'s (arXiv 2508.14544) as handed down; what happens in
    which order within a step is derived for this project.
    """
    n = len(output_tokens)
    current = bound.copy()
    starts = np.full(n, -1, np.int64)
    evicted = np.empty((16, 3), np.int64)
    evictions = 0
    arrivals = np.argsort(release, kind="mergesort")
    arrived = 0
    queue = np.empty(n, np.int64)
    head = tail = 0
    running = np.empty(n, np.int64)  # by expected end ascending
    ends = np.empty(n, np.int64)
    width = 0
    step = 0
    left = n
    while left > 0:
        if width == 0 and head == tail:
            step = max(step, release[arrivals[arrived]])
        while arrived < n and release[arrivals[arrived]] <= step:
            head, tail = _enqueue(queue, head, tail, arrivals[arrived], current, rank)
            arrived += 1

        kept = 0
        next_usage = 0
        for x in range(width):
            i = running[x]
            if step - starts[i] == output_tokens[i]:
                left -= 1
            else:
                running[kept] = i
                kept += 1
                next_usage += prompt_tokens[i] + step - starts[i] + 1
        width = kept
        while next_usage > kv_tokens:
            out = 0
            for x in range(1, width):
                i, j = running[x], running[out]
                a = max(current[i], step - starts[i] + 1)
                b = max(current[j], step - starts[j] + 1)
                if a < b or (a == b and i < j):
                    out = x
            i = running[out]
            next_usage -= prompt_tokens[i] + step - starts[i] + 1
            if evictions == len(evicted):
                longer = np.empty((2 * evictions, 3), np.int64)
                longer[:evictions] = evicted
                evicted = longer
            evicted[evictions, 0] = i
            evicted[evictions, 1] = starts[i]
            evicted[evictions, 2] = step
            evictions += 1
            current[i] = max(current[i], step - starts[i])
            for x in range(out, width - 1):
                running[x] = running[x + 1]
            width -= 1
            head, tail = _enqueue(queue, head, tail, i, current, rank)
        _expect(running, ends, width, starts, current, step)

        while head < tail and _fits(
            prompt_tokens, starts, running, ends, width, queue[head], current, step, kv_tokens
        ):
            i = queue[head]
            head += 1
            starts[i] = step
            running[width] = i
            width += 1
            _expect(running, ends, width, starts, current, step)
        step += 1
    return starts, evicted[:evictions]


@jit
def _enqueue(
    queue: IntArray, head: int, tail: int, request: int, current: IntArray, rank: IntArray
) -> tuple[int, int]:
    """Put a request in its place of queue[head:tail]; returns head and tail."""
    key = current if len(rank) == 0 else rank
    place = tail
    while place > head:
        other = queue[place - 1]
        if key[other] < key[request] or (key[other] == key[request] and other < request):
            break
        place -= 1
    if head > 0:
        for x in range(head, place):
            queue[x - 1] = queue[x]
        queue[place - 1] = request
        return head - 1, tail
    for x in range(tail, place, -1):
        queue[x] = queue[x - 1]
    queue[place] = request
    return head, tail + 1


@jit
def _expect(
    running: IntArray, ends: IntArray, width: int, starts: IntArray, current: IntArray, step: int
) -> None:
    """Set the expected ends, and sort both arrays by them; they were nearly sorted before."""
    for x in range(width):
        i = running[x]
        end = max(starts[i] + current[i], step + 1)
        place = x
        while place > 0 and ends[place - 1] > end:
            running[place] = running[place - 1]
            ends[place] = ends[place - 1]
            place -= 1
        running[place] = i
        ends[place] = end


@jit
def _fits(
    prompt_tokens: IntArray,
    starts: IntArray,
    running: IntArray,
    ends: IntArray,
    width: int,
    request: int,
    current: IntArray,
    step: int,
    kv_tokens: int,
) -> bool:
    """Whether a request started now fits at every expected end, its own included."""
    s = prompt_tokens[request]
    end = step + current[request]
    holders = base = 0  # usage at t of those that end at t or later is base + holders t
    seen = False
    for x in range(width - 1, -1, -1):
        if not seen and ends[x] < end:
            seen = True
            if base + holders * end + s + end - step > kv_tokens:
                return False
        holders += 1
        base += prompt_tokens[running[x]] - starts[running[x]]
        own = s + ends[x] - step if ends[x] <= end else 0
        if base + holders * ends[x] + own > kv_tokens and own > 0:
            return False
    return seen or base + holders * end + s + end - step <= kv_tokens
