"""What comes to a request: arrival, admission, first and last token, abort, departure."""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit
from sortedf.kernels.replay_eviction import release
from sortedf.kernels.replay_pool import mark
from sortedf.kernels.replay_queue import enqueue, take_out
from sortedf.kernels.replay_scores import let_wait
from sortedf.kernels.replay_state import (
    ABORT,
    ABORTED,
    ADMITTED,
    ADMITTED_STEP,
    ARRIVAL,
    ARRIVED,
    BY_ABORT,
    BY_ARRIVAL,
    COMPUTED,
    CONTINUED,
    DONE,
    DONE_STEP,
    FINISHED,
    FIRST_STEP,
    FIRST_TOKEN,
    FIRSTS,
    GONE,
    HELD,
    SCHEDULED,
    WAITING,
    Engine,
    IntArray,
    Rules,
)
from sortedf.kernels.standing import NOW, RANKED


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
