"""Who waits and who runs: into the queue, its head, out of it, and out of running."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.int_heap import pop, push
from sortedf.kernels.jit import lean_jit, rare_jit
from sortedf.kernels.replay_state import (
    BY_RANK,
    GONE,
    HEAP,
    NONE,
    PATIENT,
    PATIENT_PLACE,
    PLACE,
    RANK,
    RUNNING,
    WAITING,
    Engine,
)
from sortedf.kernels.standing import DUE, PROMOTED, SCORE, put, take


@lean_jit
def enqueue(engine: Engine, request: int) -> None:
    """Let a request wait, in its place of the queue. O(log n)."""
    counts = engine.counts
    if len(engine.standing) == 0:
        push(engine.lists[HEAP], counts[HEAP], engine.requests[request, RANK])
    else:
        _enqueue_by_score(engine, request)
    counts[HEAP] += 1
    counts[WAITING] += 1


@rare_jit
def _enqueue_by_score(engine: Engine, request: int) -> None:
    lists, counts, standing = engine.lists, engine.counts, engine.standing
    ranks = engine.requests[:, RANK]
    put(lists[HEAP], lists[PLACE], counts[HEAP], standing[:, SCORE], ranks, request)
    if standing[request, PROMOTED] == 0:
        dues = standing[:, DUE]
        put(lists[PATIENT], lists[PATIENT_PLACE], counts[PATIENT], dues, ranks, request)
        counts[PATIENT] += 1


@lean_jit
def head(engine: Engine) -> int:
    """First of the waiting requests; NONE when nobody waits. Drops stale entries, O(log n) each."""
    while engine.counts[HEAP] > 0:
        request = engine.lists[HEAP, 0]
        if len(engine.standing) == 0:
            request = engine.lists[BY_RANK, request]
        if engine.requests[request, GONE] == 0:
            return request
        _drop(engine, request)
    return NONE


@lean_jit
def dequeue(engine: Engine, request: int) -> None:
    """Take the head, which is not stale, out of the queue. O(log n)."""
    _drop(engine, request)
    engine.counts[WAITING] -= 1


@lean_jit
def _drop(engine: Engine, request: int) -> None:
    counts = engine.counts
    if len(engine.standing) == 0:
        pop(engine.lists[HEAP], counts[HEAP])
    else:
        _drop_by_score(engine, request)
    counts[HEAP] -= 1


@rare_jit
def _drop_by_score(engine: Engine, request: int) -> None:
    lists, counts, standing = engine.lists, engine.counts, engine.standing
    ranks = engine.requests[:, RANK]
    take(lists[HEAP], lists[PLACE], counts[HEAP], standing[:, SCORE], ranks, request)
    if lists[PATIENT_PLACE, request] != NONE:
        dues = standing[:, DUE]
        take(lists[PATIENT], lists[PATIENT_PLACE], counts[PATIENT], dues, ranks, request)
        counts[PATIENT] -= 1


@lean_jit
def take_out(engine: Engine, request: int) -> None:
    """Take a request, which is there, out of running; the order stays. O(running)."""
    running, counts = engine.lists[RUNNING], engine.counts
    # No early exit and no sign: both loops are compiled to vector instructions.
    place = 0
    for here in range(counts[RUNNING]):
        place += here if running[here] == request else 0
    counts[RUNNING] -= 1
    for here in range(np.uint64(place), np.uint64(counts[RUNNING])):
        running[here] = running[here + np.uint64(1)]
