"""Who is preempted, for want of blocks or for the head of the queue, and what becomes of it.

Part of the rules of :mod:`sortedf.kernels.replay_rules`.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit, rare_jit
from sortedf.kernels.replay_admission import chunk_cap, first_chunk
from sortedf.kernels.replay_pool import give_back, mark
from sortedf.kernels.replay_queue import enqueue, head
from sortedf.kernels.replay_room import foresee, unreserve
from sortedf.kernels.replay_scores import leaves, let_wait, may_go, note_restart, worst_of_running
from sortedf.kernels.replay_state import (
    CHUNK,
    COMPUTED,
    FORESEEN,
    FREE,
    GOAL,
    HELD,
    LAST,
    LOST,
    MOVED,
    NONE,
    PREEMPTIONS,
    RUNNING,
    SAMPLED,
    SCHEDULED,
    SENIORITY,
    VICTIMS,
    WAITING,
    Engine,
    Rules,
)
from sortedf.kernels.standing import RANKED, RESTARTS, SCORE, SWAPS


@lean_jit
def next_victim(rules: Rules, engine: Engine) -> int:
    """Place in running of the request that is preempted next."""
    last = engine.counts[RUNNING] - 1
    if not rules.by_priority:
        return last
    if rules.scoring.kind != RANKED:
        return worst_of_running(rules, engine, False)
    requests, running = engine.requests, engine.lists[RUNNING]
    worst = 0
    for place in range(1, last + 1):
        if requests[running[place], SENIORITY] > requests[running[worst], SENIORITY]:
            worst = place
    return worst


@rare_jit
def displace(rules: Rules, engine: Engine, call: int) -> None:
    """Preempt running requests of worse score for the head of the queue, if that makes room for it.

    One head a step, and only where tokens are left over for it. Nobody is preempted in vain: those
    who may be make room together, and they go one by one, the worst first, until there is enough.
    O(running) each.
    """
    requests, counts, running = engine.requests, engine.counts, engine.lists[RUNNING]
    request = head(engine)
    if request == NONE or counts[RUNNING] == 0:
        return
    cap = chunk_cap(rules, counts[RUNNING] + counts[WAITING])
    foresee(rules, engine, request)  # a waiting one may have come to its threshold since
    limit = engine.standing[request, SCORE] + rules.hysteresis
    budget = rules.token_budget
    for place in range(counts[RUNNING]):
        other = running[place]
        budget -= min(requests[other, GOAL] - requests[other, COMPUTED], cap)
    if budget <= 0:
        return
    enough = False
    while first_chunk(rules, engine, request, call, cap, budget) == 0:
        if not enough and not _could_make_room(rules, engine, request, limit, min(cap, budget)):
            return
        enough = True
        where = worst_of_running(rules, engine, True)
        other = running[where]
        if not _may_be_displaced(rules, engine, other, limit):
            return
        budget += min(requests[other, GOAL] - requests[other, COMPUTED], cap)
        preempt(rules, engine, call, where)


@lean_jit
def _could_make_room(rules: Rules, engine: Engine, request: int, limit: float, tokens: int) -> bool:
    """Whether a waiting request fits if all running ones above a score go that may. O(running)."""
    requests, counts, running = engine.requests, engine.counts, engine.lists[RUNNING]
    size = rules.block_size
    goal = requests[request, GOAL]
    stay = counts[RUNNING]
    blocks = counts[FREE]
    foreseen = (max(engine.room[request, FORESEEN], goal) + size - 1) // size
    for place in range(counts[RUNNING]):
        other = running[place]
        if _may_be_displaced(rules, engine, other, limit):
            stay -= 1
            blocks += requests[other, HELD]
        else:
            last = max(engine.room[other, FORESEEN], requests[other, GOAL])
            foreseen += (last + size - 1) // size
    slots = goal if rules.gate else min(goal, requests[request, COMPUTED] + tokens)
    needed = (slots + size - 1) // size + (rules.watermark if stay > 0 else 0)
    if rules.planned and foreseen > rules.blocks:
        return False
    return stay < counts[RUNNING] and needed <= blocks


@lean_jit
def _may_be_displaced(rules: Rules, engine: Engine, request: int, limit: float) -> bool:
    if engine.standing[request, SCORE] <= limit or leaves(engine, request):
        return False
    return may_go(rules, engine, request)


@rare_jit
def preempt(rules: Rules, engine: Engine, call: int, where: int) -> None:
    """Take a running request's blocks and let it wait; what it has computed is lost."""
    requests, counts, running = engine.requests, engine.counts, engine.lists[RUNNING]
    victim = running[where]
    for place in range(where, counts[RUNNING] - 1):
        running[place] = running[place + 1]
    counts[RUNNING] -= 1
    if rules.caching and rules.asynchronous and requests[victim, SAMPLED] < call - 1:
        mark(engine, victim, requests[victim, COMPUTED] // rules.block_size)
    release(rules, engine, victim)
    if rules.keeps == SWAPS:
        counts[MOVED] += requests[victim, COMPUTED]
    else:
        if requests[victim, COMPUTED] < requests[victim, LAST]:
            requests[victim, LOST] += requests[victim, COMPUTED]
        requests[victim, COMPUTED] = 0
    if rules.keeps == RESTARTS:
        note_restart(rules, engine, victim)
    if rules.scoring.kind != RANKED:
        let_wait(rules, engine, victim)
    requests[victim, PREEMPTIONS] += 1
    engine.lists[VICTIMS, counts[VICTIMS]] = victim
    counts[VICTIMS] += 1
    enqueue(engine, victim)


@lean_jit
def release(rules: Rules, engine: Engine, request: int) -> None:
    """Give back the blocks of a request, and the room that was kept for it."""
    if rules.planned:
        unreserve(rules, engine, request)
    if rules.caching:
        engine.counts[FREE] += give_back(rules, engine, request)
    else:
        engine.counts[FREE] += engine.requests[request, HELD]
    engine.requests[request, HELD] = 0


@lean_jit
def drop_taken_back(engine: Engine) -> None:
    """Drop from SCHEDULED the victims that had been scheduled in this step before."""
    scheduled = engine.lists[SCHEDULED]
    kept = 0
    for place in range(engine.counts[SCHEDULED]):
        request = scheduled[place]
        if engine.requests[request, CHUNK] > 0:
            scheduled[kept] = request
            kept += 1
    engine.counts[SCHEDULED] = kept
