"""The replay, step by step, with a log of every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.jit import jit, lean_jit
from sortedf.kernels.replay_eviction import displace, release
from sortedf.kernels.replay_pool import mark
from sortedf.kernels.replay_rules import advance, schedule
from sortedf.kernels.replay_scores import attain, let_wait, note_latencies, promote, settle
from sortedf.kernels.replay_state import (
    ABORT,
    ABORTED,
    ADMITTED,
    ADMITTED_STEP,
    ARRIVAL,
    ARRIVED,
    BY_ABORT,
    BY_ARRIVAL,
    CHUNK,
    COMPUTED,
    CONTINUED,
    DONE,
    DONE_STEP,
    FINISHED,
    FIRST_STEP,
    FIRST_TOKEN,
    FIRSTS,
    FREE,
    GONE,
    HELD,
    LAST,
    MOVED,
    PREEMPTIONS,
    RUNNING,
    SCHEDULED,
    TOKENS,
    VICTIMS,
    WAITING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
    enqueue,
    take_out,
)
from sortedf.kernels.standing import NOW, RANKED, RESTARTS
from sortedf.kernels.step_terms import TERMS, step_seconds

CONTINUES, NEW, RESUMED = 0, 1, 2

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


class Log(NamedTuple):
    """Every step, in arrays with room for all or for none (shape[0] = 0)."""

    begin: FloatArray  # (steps,) seconds at which the step starts to run
    end: FloatArray
    work: FloatArray  # (steps, TERMS)
    running: IntArray  # (steps,) requests that run, those of this step included
    waiting: IntArray  # (steps,) requests that wait after scheduling
    used: IntArray  # (steps,) blocks held after scheduling
    entries: IntArray  # (steps + 1,) where the entries of a step begin
    request: IntArray  # (entries,)
    tokens: IntArray
    kind: IntArray  # CONTINUES, NEW or RESUMED
    evictions: IntArray  # (steps + 1,) where the victims of a step begin
    victim: IntArray  # (victims,)


@jit
def new_log(steps: int, entries: int, victims: int) -> Log:
    """Log with room for so many steps, entries and victims."""
    return Log(
        np.empty(steps),
        np.empty(steps),
        np.empty((steps, TERMS)),
        np.empty(steps, np.int64),
        np.empty(steps, np.int64),
        np.empty(steps, np.int64),
        np.zeros(steps + 1, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.empty(entries, np.int64),
        np.zeros(steps + 1, np.int64),
        np.empty(victims, np.int64),
    )


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
            _log_choice(rules, engine, log, steps, entries, victims)
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


@lean_jit
def let_arrive(rules: Rules, engine: Engine, clock: float) -> None:
    """Give the engine what has arrived by now."""
    counts = engine.counts
    while counts[ARRIVED] < len(engine.requests):
        request = engine.lists[BY_ARRIVAL, counts[ARRIVED]]
        if engine.times[request, ARRIVAL] > clock:
            break
        if rules.scoring.kind != RANKED:
            engine.dials[NOW] = engine.times[request, ARRIVAL]
            let_wait(rules, engine, request)
        enqueue(engine, request)
        counts[ARRIVED] += 1


@lean_jit
def carry_out_aborts(rules: Rules, engine: Engine, clock: float) -> None:
    """Remove the requests whose abort has come by now."""
    counts = engine.counts
    while counts[ABORTED] < counts[BY_ABORT]:
        request = engine.lists[BY_ABORT, counts[ABORTED]]
        if engine.times[request, ABORT] > clock:
            break
        counts[ABORTED] += 1
        _remove(rules, engine, request)


@lean_jit
def leave(rules: Rules, engine: Engine, finished: IntArray, n: int) -> None:
    """Remove the first ``n`` of these requests, whose last token has come."""
    requests = engine.requests
    for place in range(n):
        request = finished[place]
        if rules.caching and requests[request, HELD] > 0:
            mark(engine, request, requests[request, COMPUTED] // rules.block_size)
        _remove(rules, engine, request)


@lean_jit
def _remove(rules: Rules, engine: Engine, request: int) -> None:
    requests = engine.requests
    if requests[request, GONE] == 1:
        return
    requests[request, GONE] = 1
    if requests[request, HELD] > 0:
        release(rules, engine, request)
        take_out(engine, request)
    else:
        engine.counts[WAITING] -= 1


@lean_jit
def note_admissions(engine: Engine, ran: int, clock: float) -> None:
    """Note who is admitted for the first time by the call at ``clock``."""
    requests = engine.requests
    for place in range(engine.counts[CONTINUED], engine.counts[SCHEDULED]):
        request = engine.lists[SCHEDULED, place]
        if requests[request, ADMITTED_STEP] == 0:
            requests[request, ADMITTED_STEP] = ran
            engine.times[request, ADMITTED] = clock


@lean_jit
def note_tokens(engine: Engine, ran: int, end: float) -> None:
    """Note whose first and last tokens the step brings; an abort before its end forestalls them."""
    requests, times, lists = engine.requests, engine.times, engine.lists
    for place in range(engine.counts[FIRSTS]):
        request = lists[FIRSTS, place]
        # A request that restarts has had its first token before.
        if times[request, ABORT] >= end and requests[request, FIRST_STEP] == 0:
            requests[request, FIRST_STEP] = ran
            times[request, FIRST_TOKEN] = end
    for place in range(engine.counts[FINISHED]):
        request = lists[FINISHED, place]
        if times[request, ABORT] >= end:
            requests[request, DONE_STEP] = ran
            times[request, DONE] = end


@lean_jit
def _log_choice(
    rules: Rules, engine: Engine, log: Log, step: int, entry: int, eviction: int
) -> None:
    """Write down who was scheduled and preempted."""
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    for place in range(counts[SCHEDULED]):
        request = lists[SCHEDULED, place]
        log.request[entry] = request
        log.tokens[entry] = requests[request, CHUNK]
        if place < counts[CONTINUED]:
            log.kind[entry] = CONTINUES
        else:
            log.kind[entry] = RESUMED if requests[request, PREEMPTIONS] > 0 else NEW
        entry += 1
    for place in range(counts[VICTIMS]):
        log.victim[eviction] = lists[VICTIMS, place]
        eviction += 1
    log.entries[step + 1] = entry
    log.evictions[step + 1] = eviction
    log.running[step] = counts[RUNNING]
    log.waiting[step] = counts[WAITING]
    log.used[step] = rules.blocks - counts[FREE]
