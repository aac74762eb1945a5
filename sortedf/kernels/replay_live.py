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
    first_token_ahead,
)
from sortedf.kernels.replay_state import (
    ABORT,
    ARRIVAL,
    COMPUTED,
    GOAL,
    GONE,
    HEAP,
    LAST,
    PROMPT,
    RUNNING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
    new_engine,
)
from sortedf.kernels.replay_steps import Progress, leave

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
    return first_token_ahead(rules, seconds, live, n_running, busy, prompt, output)
