"""An engine that requests are sent to while it runs: places for them, and what can be foreseen."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.jit import jit
from sortedf.kernels.replay_ahead import (
    LIVE_COLUMNS,
    LIVE_COMPUTED,
    LIVE_OUTPUT,
    LIVE_PROMPT,
    LIVE_SAMPLED,
    first_come,
    first_token_ahead,
)
from sortedf.kernels.replay_lifetime import leave
from sortedf.kernels.replay_state import (
    ABORT,
    ARRIVAL,
    ARRIVED,
    COMPUTED,
    FREE,
    GOAL,
    GONE,
    HEAP,
    HELD,
    LAST,
    PROMPT,
    RANK,
    RUNNING,
    WAITING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
    new_engine,
)
from sortedf.kernels.replay_steps import N_LEAVING, Progress

# Foreseen output over predicted output, by the logarithm of sampled over predicted output: at
# place k of a table for a logarithm of LOWEST + k / FINENESS.
LOWEST = -6.0
FINENESS = 16.0
PLACES = 193  # up to a logarithm of 6


@jit
def open_engine(rules: Rules, capacity: int) -> Engine:
    """Engine with room for so many requests, none of which has been sent; first come first served.

    Requests are sent to rows 0, 1, ... in this order, and rank so in the queue. Who drives it hands
    over the leading rows only, those that have been sent.
    """
    order, ones = np.arange(capacity), np.ones(capacity, np.int64)
    never, zeros = np.full(capacity, np.inf), np.zeros(capacity, np.int64)
    nobody = np.empty(0, np.int64)
    return new_engine(rules, ones, ones, order, zeros, never, order, never, nobody, zeros)


@jit
def send(engine: Engine, row: int, prompt: int, output: int, arrival: float) -> None:
    """Put a request (tokens, seconds) into a row that is free."""
    requests = engine.requests
    requests[row, PROMPT] = prompt
    requests[row, GOAL] = prompt
    requests[row, LAST] = prompt + output - 1
    engine.times[row, ARRIVAL] = arrival
    engine.times[row, ABORT] = np.inf


@jit
def withdraw(rules: Rules, engine: Engine, row: int) -> bool:
    """Take a request back before the next call; False if it has ended or its last token comes."""
    if engine.requests[row, GONE] == 1 or leaving(engine, row):
        return False
    leave(rules, engine, np.full(1, row), 1)
    return True


@jit
def leaving(engine: Engine, row: int) -> bool:
    """Whether the last token of a running request is in the step under way."""
    return engine.requests[row, COMPUTED] == engine.requests[row, LAST]


@jit
def foreseen_output(predicted: float, sampled: int, longer: FloatArray) -> int:
    """Output tokens to be expected in all of a request that was predicted so many, and has some.

    ``longer`` has PLACES factors; between them they are interpolated. Always more than sampled.
    """
    place = 0.0
    if sampled > 0:
        place = (np.log(sampled / predicted) - LOWEST) * FINENESS
    place = min(max(place, 0.0), PLACES - 1.0)
    below = min(int(place), PLACES - 2)
    factor = longer[below] + (place - below) * (longer[below + 1] - longer[below])
    return max(int(np.rint(predicted * factor)), sampled + 1)


@jit
def live_rows(
    rules: Rules, engine: Engine, predicted: FloatArray, longer: FloatArray
) -> tuple[IntArray, int]:
    """Rows of all who are there as :func:`first_token_ahead` takes them, and how many run.

    Parameters
    ----------
    predicted
        Output tokens predicted of each request when it was sent, shape (rows,).
    longer
        See :func:`foreseen_output`.
    """
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    n_running = counts[RUNNING]
    waiting = np.sort(lists[HEAP, : counts[HEAP]])
    live = np.empty((n_running + len(waiting), LIVE_COLUMNS), np.int64)
    n = 0
    for place in range(n_running + len(waiting)):
        row = lists[RUNNING, place] if place < n_running else waiting[place - n_running]
        if requests[row, GONE] == 1:
            continue
        prompt, sampled = requests[row, PROMPT], requests[row, GOAL] - requests[row, PROMPT]
        live[n, LIVE_PROMPT] = prompt
        live[n, LIVE_COMPUTED] = requests[row, COMPUTED]
        if leaving(engine, row):
            sampled += 1
            live[n, LIVE_OUTPUT] = sampled
        else:
            output = foreseen_output(predicted[row], sampled, longer)
            live[n, LIVE_OUTPUT] = max(min(output, rules.longest - prompt + 1), sampled + 1)
        live[n, LIVE_SAMPLED] = sampled
        n += 1
    return live[:n], n_running


@jit
def outstanding_tokens(
    rules: Rules, engine: Engine, predicted: FloatArray, longer: FloatArray
) -> int:
    """Tokens still to be computed of all who are there, as far as foreseen."""
    live, _ = live_rows(rules, engine, predicted, longer)
    total = 0
    for place in range(len(live)):
        total += live[place, LIVE_PROMPT] + live[place, LIVE_OUTPUT] - 1
        total -= live[place, LIVE_COMPUTED]
    return total


@jit
def first_token_of_next(
    rules: Rules,
    engine: Engine,
    progress: Progress,
    seconds: FloatArray,
    predicted: FloatArray,
    longer: FloatArray,
    now: float,
    prompt: int,
    output: int,
) -> tuple[float, int]:
    """Seconds from ``now`` to the first token of a request sent now, and preemptions until then.

    The engine has been driven to ``now``. As :func:`first_token_ahead`, on :func:`live_rows`.
    """
    live, n_running = live_rows(rules, engine, predicted, longer)
    moments = progress.moments
    busy = max(moments[0], moments[1], now) - now
    return first_token_ahead(first_come(rules), seconds, live, n_running, busy, prompt, output)


@jit
def without_gone(rules: Rules, engine: Engine, progress: Progress, capacity: int) -> Engine:
    """Give the engine without those who have left, with room for so many; ``progress`` is changed.

    Rows keep their order, so that what was row k of those still there is row k now. O(capacity).
    """
    fresh = open_engine(rules, capacity)
    requests, counts, lists = engine.requests, engine.counts, engine.lists
    number = np.full(len(requests), -1)
    n = 0
    for row in range(len(requests)):
        if requests[row, GONE] == 1:
            continue
        number[row] = n
        fresh.requests[n] = requests[row]
        fresh.requests[n, RANK] = n
        fresh.room[n] = engine.room[row]
        fresh.times[n] = engine.times[row]
        if row < counts[ARRIVED]:
            fresh.counts[ARRIVED] += 1
        n += 1
    fresh.counts[FREE], fresh.counts[WAITING] = counts[FREE], counts[WAITING]
    fresh.counts[RUNNING] = counts[RUNNING]
    for place in range(counts[RUNNING]):
        fresh.lists[RUNNING, place] = number[lists[RUNNING, place]]
    # The numbers ascend with the rows, so that a heap stays one once it is sorted.
    for row in np.sort(lists[HEAP, : counts[HEAP]]):
        if number[row] >= 0:
            fresh.lists[HEAP, fresh.counts[HEAP]] = number[row]
            fresh.counts[HEAP] += 1
    for place in range(progress.numbers[N_LEAVING]):
        progress.leaving[place] = number[progress.leaving[place]]
    return fresh


@jit
def late_rows(engine: Engine, deadline: FloatArray, now: float) -> IntArray:
    """Rows of those who wait for their first token and have missed their deadline, ascending."""
    lists, counts, requests = engine.lists, engine.counts, engine.requests
    found = np.empty(counts[HEAP], np.int64)
    n = 0
    for row in lists[HEAP, : counts[HEAP]]:
        fresh = requests[row, GOAL] == requests[row, PROMPT]
        if fresh and requests[row, GONE] == 0 and deadline[row] < now:
            found[n] = row
            n += 1
    return np.sort(found[:n])


@jit
def note_progress(rules: Rules, engine: Engine, row: int, sampled: int) -> bool:
    """Let a request have so many output tokens (1 to its output - 1), as seen on the real engine.

    False, and nothing done, where it has left or blocks do not suffice. A request that waits in the
    replay runs then. O(there).
    """
    requests, counts, lists = engine.requests, engine.counts, engine.lists
    if requests[row, GONE] == 1 or row >= counts[ARRIVED]:
        return False
    computed = requests[row, PROMPT] + sampled - 1
    held = (computed + rules.block_size - 1) // rules.block_size
    if held - requests[row, HELD] > counts[FREE]:
        return False
    if requests[row, HELD] == 0:
        if counts[RUNNING] >= rules.seats:
            return False
        kept = 0
        for other in np.sort(lists[HEAP, : counts[HEAP]]):
            if other != row:
                lists[HEAP, kept] = other
                kept += 1
        counts[HEAP] = kept
        counts[WAITING] -= 1
        place = counts[RUNNING]
        while place > 0 and lists[RUNNING, place - 1] > row:
            lists[RUNNING, place] = lists[RUNNING, place - 1]
            place -= 1
        lists[RUNNING, place] = row
        counts[RUNNING] += 1
    counts[FREE] -= held - requests[row, HELD]
    requests[row, HELD] = held
    requests[row, COMPUTED] = computed
    requests[row, GOAL] = computed + 1
    return True
