"""The log of a replay: every step, who was scheduled in it and who was preempted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.jit import jit, lean_jit
from sortedf.kernels.replay_state import (
    CHUNK,
    CONTINUED,
    FREE,
    PREEMPTIONS,
    RUNNING,
    SCHEDULED,
    VICTIMS,
    WAITING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
)
from sortedf.kernels.step_terms import TERMS

CONTINUES, NEW, RESUMED = 0, 1, 2  # Log.kind


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


@lean_jit
def log_choice(
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
