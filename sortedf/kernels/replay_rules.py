"""The rules of vLLM's V1 scheduler for one step: who gets how many tokens, who is preempted.

Derived for this project from the behaviour of vllm/v1/core/sched/scheduler.py and
kv_cache_manager.py; docs/engine.md has the rules in words and what holds them against the engine.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit, rare_jit
from sortedf.kernels.replay_pool import find_hits, give_back, mark, take_blocks, take_hits
from sortedf.kernels.replay_room import (
    correct_course,
    foresee,
    has_room,
    keeps_room,
    reserve,
    unreserve,
)
from sortedf.kernels.replay_scores import leaves, let_wait, may_go, note_restart, worst_of_running
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
    LOST,
    MARKED,
    MOVED,
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
from sortedf.kernels.standing import RANKED, RESTARTS, SCORE, SWAPS
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
    VICTIMS has, before, who was preempted for the head of the queue by :func:`displace`.

    O(running), and O(log n) for each admission and preemption; a priority victim costs O(running).
    """
    counts = engine.counts
    counts[SCHEDULED] = 0
    displaced = counts[VICTIMS]
    cap = chunk_cap(rules, counts[RUNNING] + counts[WAITING])
    if rules.planned and rules.scoring.guard > 0:
        pass_thresholds(rules, engine, call, cap)
    budget = _continue_running(rules, engine, call, cap)
    if counts[VICTIMS] > displaced:
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


@rare_jit
def pass_thresholds(rules: Rules, engine: Engine, call: int, cap: int) -> None:
    """Let requests that come to a threshold go on only with room kept until the next one.

    The others are preempted: before blocks are handed out, for those have been promised already.
    O(running), and O(running) for each.
    """
    requests, counts, running = engine.requests, engine.counts, engine.lists[RUNNING]
    budget = rules.token_budget
    place = 0
    while place < counts[RUNNING] and budget > 0:
        request = running[place]
        goal = requests[request, GOAL]
        tokens = min(goal - requests[request, COMPUTED], cap, budget)
        budget -= tokens
        if tokens > 0 and requests[request, COMPUTED] + tokens == goal:
            if goal > engine.room[request, FORESEEN]:
                if not keeps_room(rules, engine, request, call):
                    preempt(rules, engine, call, place)
                    continue
            elif goal != engine.room[request, SHIFT] + call:
                correct_course(rules, engine, request, call)
        place += 1


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
def first_chunk(
    rules: Rules, engine: Engine, request: int, call: int, cap: int, budget: int
) -> int:
    """Tokens that a waiting request gets if it is admitted now; 0 if it does not fit."""
    requests, counts, size = engine.requests, engine.counts, rules.block_size
    if counts[RUNNING] >= rules.seats:
        return 0
    goal = requests[request, GOAL]
    hits, revived = 0, 0
    if rules.caching:
        hits, revived = find_hits(rules, engine, request, goal)
    # Of a swapped one what is computed stays so, but its blocks are to be taken anew.
    done = requests[request, COMPUTED] + hits * size
    tokens = min(goal - done, cap)
    if tokens > budget and not rules.chunked:
        return 0
    tokens = min(tokens, budget)
    room = counts[FREE] - revived
    if counts[RUNNING] > 0:
        room -= rules.watermark
    slots = goal if rules.gate else done + tokens
    if (slots + size - 1) // size - hits > room:
        return 0
    if rules.planned and not has_room(rules, engine, request, call, done + tokens):
        return 0
    return tokens


@lean_jit
def admit(rules: Rules, engine: Engine, call: int, cap: int, budget: int) -> None:
    """Admit from the head of the waiting queue until as many as the lookahead do not fit.

    Or until the next one was preempted by this call: then it would have been in vain.
    """
    requests, lists, counts = engine.requests, engine.lists, engine.counts
    size = rules.block_size
    passed = 0
    while budget > 0 and counts[RUNNING] < rules.seats:
        request = head(engine)
        if request == NONE or _was_preempted(engine, request):
            break
        tokens = first_chunk(rules, engine, request, call, cap, budget)
        if tokens == 0:
            if passed + 1 == rules.lookahead:
                break
            dequeue(engine, request)
            lists[PASSED, passed] = request
            passed += 1
            continue
        dequeue(engine, request)
        hits, revived = 0, 0
        if rules.caching:
            hits, revived = find_hits(rules, engine, request, requests[request, GOAL])
            if requests[request, PREEMPTIONS] > 0:
                requests[request, LOST] -= hits * size
        counts[MOVED] += requests[request, COMPUTED]
        requests[request, COMPUTED] += hits * size
        end = requests[request, COMPUTED] + tokens
        more = (end + size - 1) // size - hits
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
def _was_preempted(engine: Engine, request: int) -> bool:
    """Whether a waiting request was preempted by this call."""
    for place in range(engine.counts[VICTIMS]):  # noqa: SIM110 (any() makes a generator)
        if engine.lists[VICTIMS, place] == request:
            return True
    return False


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
