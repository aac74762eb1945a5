"""The replay ahead from a live engine to the first token of a request that comes now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.jit import jit, lean_jit
from sortedf.kernels.replay_events import run_events
from sortedf.kernels.replay_group import new_group
from sortedf.kernels.replay_state import (
    ARRIVED,
    COMPUTED,
    FIRST_TOKEN,
    FREE,
    GOAL,
    HEAP,
    HELD,
    LAST,
    PREEMPTIONS,
    RUNNING,
    WAITING,
    FloatArray,
    IntArray,
    Rules,
    new_engine,
)
from sortedf.kernels.standing import RANKED, RECOMPUTES, Scoring
from sortedf.kernels.step_terms import TERMS

# Columns of a live request, in tokens.
LIVE_PROMPT = 0
LIVE_OUTPUT = 1
LIVE_SAMPLED = 2
LIVE_COMPUTED = 3
LIVE_COLUMNS = 4


class FirstCome(NamedTuple):
    """What first come, first served needs of :class:`Rules`; a few numbers are handed over fast."""

    blocks: int
    block_size: int
    token_budget: int
    seats: int
    chunk_cap: int
    cap_alone: bool
    cap_shared: bool
    chunked: bool
    watermark: int
    gate: bool
    longest: int
    skip_after_victim: bool
    asynchronous: bool


@jit
def first_come(rules: Rules) -> FirstCome:
    """Give the rules of an engine that serves first come, first served, without prefix caching."""
    return FirstCome(
        rules.blocks,
        rules.block_size,
        rules.token_budget,
        rules.seats,
        rules.chunk_cap,
        rules.cap_alone,
        rules.cap_shared,
        rules.chunked,
        rules.watermark,
        rules.gate,
        rules.longest,
        rules.skip_after_victim,
        rules.asynchronous,
    )


@lean_jit
def _whole(few: FirstCome) -> Rules:
    """Give all rules; what is a constant here leaves the kernels that are compiled into this."""
    return Rules(
        few.blocks,
        few.block_size,
        few.token_budget,
        few.seats,
        few.chunk_cap,
        few.cap_alone,
        few.cap_shared,
        few.chunked,
        few.watermark,
        few.gate,
        False,  # by_priority
        False,  # planned
        1,  # lookahead
        few.longest,
        few.skip_after_victim,
        few.asynchronous,
        False,  # caching
        False,  # fresh_first
        True,  # doubles
        RECOMPUTES,
        0.0,  # swap_seconds
        False,  # displaces
        0.0,  # hysteresis
        False,  # least_first
        Scoring(RANKED, 0.0, np.inf, 0, 1, 0, 1, 1.0, 0.0, np.inf),
    )


@jit
def first_token_ahead(
    few: FirstCome,
    seconds: FloatArray,
    live: IntArray,
    n_running: int,
    busy: float,
    prompt: int,
    output: int,
) -> tuple[float, int]:
    """Replay until a request that joins the end of the queue now has its first token.

    Parameters
    ----------
    few
        Of an engine without prefix caching.
    live
        Shape (n, LIVE_COLUMNS): those that run, in the order of admission, then those that wait, in
        that of the queue, as the next schedule() call will find them.
    busy
        Seconds until the step under way ends.
    prompt, output
        Tokens of the request.

    Returns
    -------
    seconds
        nan if the engine never comes to it.
    preemptions
        Until then.
    """
    rules = _whole(few)
    n = len(live) + 1
    target, size = n - 1, rules.block_size
    prompts, outputs = np.empty(n, np.int64), np.empty(n, np.int64)
    for request in range(target):
        prompts[request] = live[request, LIVE_PROMPT]
        outputs[request] = live[request, LIVE_OUTPUT]
    prompts[target], outputs[target] = prompt, output
    order, zeros = np.arange(n), np.zeros(n, np.int64)
    nobody, never = np.empty(0, np.int64), np.full(n, np.inf)
    engine = new_engine(
        rules, prompts, outputs, order, order, np.zeros(n), order, never, nobody, zeros
    )
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    leaving, n_leaving = np.empty(n, np.int64), 0
    for request in range(target):
        requests[request, GOAL] += min(live[request, LIVE_SAMPLED], outputs[request] - 1)
    for request in range(n_running):
        computed = live[request, LIVE_COMPUTED]
        requests[request, COMPUTED] = computed
        requests[request, HELD] = (computed + size - 1) // size
        counts[FREE] -= requests[request, HELD]
        lists[RUNNING, request] = request
        if computed == requests[request, LAST]:
            leaving[n_leaving] = request
            n_leaving += 1
    for request in range(n_running, n):
        lists[HEAP, request - n_running] = request
    counts[ARRIVED], counts[RUNNING] = n, n_running
    counts[HEAP], counts[WAITING] = n - n_running, n - n_running
    group, work, parts = new_group(rules, n), np.zeros(TERMS), np.empty(n, np.int64)
    done = run_events(rules, engine, seconds, busy, target, group, work, parts, leaving, n_leaving)
    return engine.times[target, FIRST_TOKEN] if done else np.nan, requests[:, PREEMPTIONS].sum()
