"""The rules of vLLM's V1 scheduler for one step: who gets how many tokens, who is preempted.

Derived for this project from the behaviour of vllm/v1/core/sched/scheduler.py and
kv_cache_manager.py; docs/engine.md has the rules in words and what holds them against the engine.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit, rare_jit
from sortedf.kernels.replay_admission import admit, chunk_cap, known_tokens
from sortedf.kernels.replay_eviction import drop_taken_back, next_victim, preempt
from sortedf.kernels.replay_pool import mark, take_blocks
from sortedf.kernels.replay_room import correct_course, keeps_room
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
    PROMPT,
    RUNNING,
    SAMPLED,
    SCHEDULED,
    SHIFT,
    TOKENS,
    VICTIMS,
    WAITING,
    Engine,
    FloatArray,
    Rules,
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
        drop_taken_back(engine)
        counts[CONTINUED] = counts[SCHEDULED]
    else:
        counts[CONTINUED] = counts[SCHEDULED]
        admit(rules, engine, call, cap, budget)


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
                where = next_victim(rules, engine)
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
            known = min(end, known_tokens(rules, requests, request, call))
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
