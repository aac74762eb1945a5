"""The replay, step by step, with a log of every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.jit import jit
from sortedf.kernels.replay_eviction import displace
from sortedf.kernels.replay_lifetime import (
    carry_out_aborts,
    leave,
    let_arrive,
    note_admissions,
    note_tokens,
)
from sortedf.kernels.replay_log import Log, log_choice
from sortedf.kernels.replay_rules import advance, schedule
from sortedf.kernels.replay_scores import attain, note_latencies, promote, settle
from sortedf.kernels.replay_state import (
    ARRIVAL,
    ARRIVED,
    BY_ARRIVAL,
    FINISHED,
    LAST,
    MOVED,
    RUNNING,
    SCHEDULED,
    TOKENS,
    VICTIMS,
    WAITING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
)
from sortedf.kernels.standing import NOW, RANKED, RESTARTS
from sortedf.kernels.step_terms import TERMS, step_seconds

PAUSED, ALL_DONE, ENDLESS, LEARNING = 0, 1, 2, 3

# Progress.numbers.
CALL = 0  # number of the next call
RAN = 1  # steps in which anything ran
LOGGED = 2  # steps of the log
ENTRIES = 3  # of the log
EVICTIONS = 4  # of the log
FRUITLESS = 5  # calls since the last one that brought something to stay
N_LEAVING = 6
NUMBERS = 7


class Progress(NamedTuple):
    """Where a replay stands between two calls."""

    moments: FloatArray  # (3,) seconds: of the call, ends of the step under way and the one before
    numbers: IntArray  # (NUMBERS,)
    leaving: IntArray  # (n,) requests that leave after the call, the first of them


@jit
def new_progress(n: int, clock: float) -> Progress:
    """Give the beginning of a replay of ``n`` requests: the first call may come at ``clock``."""
    return Progress(np.full(3, clock), np.zeros(NUMBERS, np.int64), np.empty(n, np.int64))


@jit
def run_steps(
    rules: Rules,
    engine: Engine,
    seconds: FloatArray,
    log: Log,
    progress: Progress,
    pause: float,
) -> int:
    """Run the engine until everything has finished, one schedule() call after another.

    Parameters
    ----------
    engine
        Where to start; holds when what happened to each request at the end.
    seconds
        Seconds per unit of each term, (TERMS,). A step in which nothing runs takes no time.
    log
        Filled, if it has room.
    progress
        Where the replay stands; at the end it holds the sizes of the log: steps (those in which
        nothing ran, but somebody was preempted, included), entries and victims.
    pause
        Seconds; inf for never.

    Returns
    -------
    int
        ALL_DONE. ENDLESS if the engine never ends: the head of the queue can never fit, or requests
        preempt each other for ever. PAUSED before the first call at ``pause`` or later, what has
        arrived by then waiting. LEARNING after a step whose completions give a new gamma.

    Notes
    -----
    Synchronous: a call at the end of the step before. Asynchronous: call j + 1 comes when step
    j - 1 has ended, while step j runs, so that a request which finishes keeps its seat and blocks
    for one more call, and an arrival during step j is seen by call j + 2.

    O(running) a step, O(log n) an event.
    """
    counts = engine.counts
    logged = len(log.begin) > 0
    by_score = rules.scoring.kind != RANKED
    work = np.zeros(TERMS)
    leaving, n_leaving = progress.leaving, progress.numbers[N_LEAVING]
    clock, end, end_before = progress.moments
    numbers = progress.numbers
    call, ran, steps = numbers[CALL], numbers[RAN], numbers[LOGGED]
    entries, victims, fruitless = numbers[ENTRIES], numbers[EVICTIONS], numbers[FRUITLESS]
    # A token once sampled is kept: only a circle goes on for longer than to compute all, without.
    patience = 2 * np.sum(engine.requests[:, LAST]) + 1000
    state = PAUSED
    while state == PAUSED:
        let_arrive(rules, engine, clock)
        carry_out_aborts(rules, engine, clock)
        if counts[RUNNING] + counts[WAITING] == 0:
            if counts[ARRIVED] == len(engine.requests):
                state = ALL_DONE
                break
            # After aborts a step may still run; the engine waits for it before it looks again.
            clock = max(end, engine.times[engine.lists[BY_ARRIVAL, counts[ARRIVED]], ARRIVAL])
            continue
        if clock >= pause:
            break

        counts[VICTIMS], counts[MOVED] = 0, 0
        if by_score:
            engine.dials[NOW] = clock
            promote(rules, engine)
            if rules.displaces:
                displace(rules, engine, call)
        schedule(rules, engine, call)
        scheduled, preempted = counts[SCHEDULED], counts[VICTIMS]
        if scheduled > 0:
            ran += 1
        if logged and scheduled + preempted > 0:
            log_choice(rules, engine, log, steps, entries, victims)
        note_admissions(engine, ran, clock)
        if by_score:
            attain(engine, seconds)
        advance(engine, call, work)
        begin = max(end, clock)
        end = begin + step_seconds(seconds, work) + rules.swap_seconds * counts[MOVED]
        note_tokens(engine, ran, end)
        if by_score:
            settle(rules, engine)
        if scheduled + preempted > 0:
            if logged:
                log.begin[steps], log.end[steps], log.work[steps] = begin, end, work
            steps += 1
            entries += scheduled
            victims += preempted
        # Those who restart lose sampled tokens, but not their last.
        fruits = counts[FINISHED] if rules.keeps == RESTARTS else counts[TOKENS]
        fruitless = 0 if fruits > 0 else fruitless + 1
        if scheduled + preempted + n_leaving == 0 or fruitless > patience:
            state = ENDLESS
            break

        # What a step brings is known when it has ended.
        if not rules.asynchronous:
            n_leaving = counts[FINISHED]
            leaving[:n_leaving] = engine.lists[FINISHED, :n_leaving]
        if rules.scoring.window > 0 and note_latencies(rules, engine, leaving, n_leaving):
            state = LEARNING
        if rules.asynchronous:
            leave(rules, engine, leaving, n_leaving)
            n_leaving = counts[FINISHED]
            leaving[:n_leaving] = engine.lists[FINISHED, :n_leaving]
            clock, end_before = max(clock, end_before), end
        else:
            leave(rules, engine, leaving, n_leaving)
            n_leaving = 0
            clock = end
        call += 1
    progress.moments[0], progress.moments[1], progress.moments[2] = clock, end, end_before
    numbers[CALL], numbers[RAN], numbers[LOGGED] = call, ran, steps
    numbers[ENTRIES], numbers[EVICTIONS], numbers[FRUITLESS] = entries, victims, fruitless
    numbers[N_LEAVING] = n_leaving
    return state
