"""The rules of vLLM's V1 scheduler for one step: who gets how many tokens, who is preempted.

Derived for this project from the behaviour of vllm/v1/core/sched/scheduler.py and
kv_cache_manager.py; docs/engine.md has the rules in words and what holds them against the engine.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit
from sortedf.kernels.replay_pool import find_hits, give_back, mark, take_blocks, take_hits
from sortedf.kernels.replay_room import correct_course, has_room, reserve, unreserve
from sortedf.kernels.replay_state import (
    CHUNK,
    COMPUTED,
    CONTINUED,
    FINISHED,
    FIRSTS,
    FORESEEN,
    FREE,
    GOAL,
    HELD,
    LAST,
    MARKED,
    NONE,
    PASSED,
    PREEMPTIONS,
    PROMPT,
    RUNNING,
    SAMPLED,
    SCHEDULED,
    SENIORITY,
    SHIFT,
    TOKENS,
    VICTIMS,
    WAITING,
    Engine,
    FloatArray,
    IntArray,
    Rules,
    dequeue,
    enqueue,
    head,
)
from sortedf.kernels.step_terms import (
    CHUNK_SQUARED,
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    PREFILL_WORK,
    STEPS,
)


@lean_jit
def schedule(rules: Rules, engine: Engine, call: int) -> None:
    """Choose the requests of a step and their tokens: running ones first, then waiting ones.

    Leaves in SCHEDULED the requests of the step, with CHUNK tokens each and their blocks taken, the
    first CONTINUED of them those that ran before; in VICTIMS the preempted. Nothing is computed
    yet: :func:`advance` does that.

    Parameters
    ----------
    call
        Number of this call, from 0 on.

    Notes
    -----
    O(running), and O(log n) for each admission and preemption; a priority victim costs O(running).
    """
    counts = engine.counts
    counts[SCHEDULED] = 0
    counts[VICTIMS] = 0
    cap = chunk_cap(rules, counts[RUNNING] + counts[WAITING])
    budget = _continue_running(rules, engine, call, cap)
    if counts[VICTIMS] > 0:
        _drop_taken_back(engine)
        counts[CONTINUED] = counts[SCHEDULED]
    else:
        counts[CONTINUED] = counts[SCHEDULED]
        admit(rules, engine, call, cap, budget)


@lean_jit
def chunk_cap(rules: Rules, present: int) -> int:
    """Most tokens that one request may have in this step."""
    if rules.chunk_cap == 0 or (present <= 1 and not rules.cap_alone):
        return rules.token_budget
    if rules.cap_shared:
        return max(rules.chunk_cap, rules.token_budget // max(present, 1))
    return rules.chunk_cap


@lean_jit
def _continue_running(rules: Rules, engine: Engine, call: int, cap: int) -> int:
    """Schedule the running requests in order, preempting where blocks end; the budget left."""
    requests, counts = engine.requests, engine.counts
    running, scheduled = engine.lists[RUNNING], engine.lists[SCHEDULED]
    size, budget = rules.block_size, rules.token_budget
    placed = 0
    place = 0
    while place < counts[RUNNING] and budget > 0:
        request = running[place]
        tokens = min(requests[request, GOAL] - requests[request, COMPUTED], cap, budget)
        if tokens == 0:  # its last token is being sampled while this step is scheduled
            place += 1
            continue
        end = requests[request, COMPUTED] + tokens
        if end > requests[request, HELD] * size:
            more = (end + size - 1) // size - requests[request, HELD]
            preempted = False
            while more > counts[FREE] and not preempted:
                where = _victim(rules, engine)
                victim = running[where]
                back = requests[victim, CHUNK]
                if where < place and (back > 0 or not rules.skip_after_victim):
                    place -= 1
                budget += back
                requests[victim, CHUNK] = 0
                preempt(rules, engine, call, where)
                preempted = victim == request
            if preempted:
                break
            counts[FREE] -= more
            if rules.caching:
                take_blocks(engine, request, requests[request, HELD], more)
            requests[request, HELD] += more
        if rules.caching:
            known = min(end, _known(rules, requests, request, call))
            if known >= (requests[request, MARKED] + 1) * size:
                mark(engine, request, known // size)
        requests[request, CHUNK] = tokens
        if (
            rules.planned
            and end == requests[request, GOAL]
            and (end != engine.room[request, SHIFT] + call or end > engine.room[request, FORESEEN])
        ):
            correct_course(rules, engine, request, call)
        scheduled[placed] = request
        placed += 1
        budget -= tokens
        place += 1
    counts[SCHEDULED] = placed
    return budget


@lean_jit
def _known(rules: Rules, requests: IntArray, request: int, call: int) -> int:
    """Tokens whose values are known: blocks of them can be found before they are computed."""
    if rules.asynchronous and requests[request, SAMPLED] == call - 1:
        return requests[request, GOAL] - 1  # the last token is still being sampled
    return requests[request, GOAL]


@lean_jit
def _victim(rules: Rules, engine: Engine) -> int:
    """Place in running of the request that is preempted next."""
    last = engine.counts[RUNNING] - 1
    if not rules.by_priority:
        return last
    requests, running = engine.requests, engine.lists[RUNNING]
    worst = 0
    for place in range(1, last + 1):
        if requests[running[place], SENIORITY] > requests[running[worst], SENIORITY]:
            worst = place
    return worst


@lean_jit
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
    requests[victim, COMPUTED] = 0
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
def _drop_taken_back(engine: Engine) -> None:
    """Drop from SCHEDULED the victims that had been scheduled in this step before."""
    scheduled = engine.lists[SCHEDULED]
    kept = 0
    for place in range(engine.counts[SCHEDULED]):
        request = scheduled[place]
        if engine.requests[request, CHUNK] > 0:
            scheduled[kept] = request
            kept += 1
    engine.counts[SCHEDULED] = kept


@lean_jit
def admit(rules: Rules, engine: Engine, call: int, cap: int, budget: int) -> None:
    """Admit from the head of the waiting queue until as many as the lookahead do not fit."""
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    size = rules.block_size
    passed = 0
    while budget > 0 and counts[RUNNING] < rules.seats:
        request = head(engine)
        if request == NONE:
            break
        goal = requests[request, GOAL]
        hits, revived = 0, 0
        if rules.caching:
            hits, revived = find_hits(rules, engine, request, goal)
        tokens = min(goal - hits * size, cap)
        fits = tokens <= budget or rules.chunked
        tokens = min(tokens, budget)
        end = hits * size + tokens
        more = (end + size - 1) // size - hits
        room = counts[FREE] - revived
        if counts[RUNNING] > 0:
            room -= rules.watermark
        fits = fits and more <= room
        fits = fits and not (rules.gate and (goal + size - 1) // size - hits > room)
        if not (fits and (not rules.planned or has_room(rules, engine, request, call, end))):
            if passed + 1 == rules.lookahead:
                break
            dequeue(engine)
            lists[PASSED, passed] = request
            passed += 1
            continue
        dequeue(engine)
        requests[request, COMPUTED] = hits * size
        requests[request, HELD] = hits + more
        requests[request, CHUNK] = tokens
        counts[FREE] -= more + revived
        if rules.caching:
            take_hits(engine, request, hits)
            take_blocks(engine, request, hits, more)
            mark(engine, request, min(end, _known(rules, requests, request, call)) // size)
        lists[RUNNING, counts[RUNNING]] = request
        counts[RUNNING] += 1
        lists[SCHEDULED, counts[SCHEDULED]] = request
        counts[SCHEDULED] += 1
        budget -= tokens
        if rules.planned:
            reserve(rules, engine, request)
    for place in range(passed):
        enqueue(engine, lists[PASSED, place])


@lean_jit
def advance(engine: Engine, call: int, work: FloatArray) -> None:
    """Compute what was scheduled: tokens are there, and whoever reached its goal samples one.

    Leaves in FIRSTS and FINISHED whose first and last token the step brings, and in ``work``
    (TERMS,) what the step is made of. O(scheduled).
    """
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    scheduled = lists[SCHEDULED]
    firsts, finished, sampled = 0, 0, 0
    prefill, decode, context, squared, attended, chunks = 0, 0, 0, 0.0, 0, 0
    for place in range(counts[SCHEDULED]):
        request = scheduled[place]
        tokens = requests[request, CHUNK]
        before = requests[request, COMPUTED]
        requests[request, CHUNK] = 0
        if tokens == 1:
            decode += 1
            context += before
            squared += float(before) * before
        else:
            prefill += tokens
            attended += tokens * before + tokens * (tokens + 1) // 2
            chunks += tokens * tokens
        end = before + tokens
        requests[request, COMPUTED] = end
        if end < requests[request, GOAL]:
            continue
        requests[request, SAMPLED] = call
        sampled += 1
        if end == requests[request, PROMPT]:
            lists[FIRSTS, firsts] = request
            firsts += 1
        if end == requests[request, LAST]:
            lists[FINISHED, finished] = request
            finished += 1
        else:
            requests[request, GOAL] = end + 1
    counts[FIRSTS] = firsts
    counts[FINISHED] = finished
    counts[TOKENS] = sampled
    work[STEPS] = 1.0 if counts[SCHEDULED] > 0 else 0.0
    work[PREFILL_TOKENS] = prefill
    work[DECODE_TOKENS] = decode
    work[CONTEXT] = context
    work[PREFILL_WORK] = attended
    work[CHUNK_SQUARED] = chunks
    work[CONTEXT_SQUARED] = squared
