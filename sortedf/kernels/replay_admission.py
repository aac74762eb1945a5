"""Who is admitted in a step, and with how many tokens.

Part of the rules of :mod:`sortedf.kernels.replay_rules`.
"""

from __future__ import annotations

from sortedf.kernels.jit import lean_jit
from sortedf.kernels.replay_pool import find_hits, mark, take_blocks, take_hits
from sortedf.kernels.replay_queue import dequeue, enqueue, head
from sortedf.kernels.replay_room import has_room, reserve
from sortedf.kernels.replay_state import (
    CHUNK,
    COMPUTED,
    FREE,
    GOAL,
    HELD,
    LOST,
    MOVED,
    NONE,
    PASSED,
    PREEMPTIONS,
    RUNNING,
    SAMPLED,
    SCHEDULED,
    VICTIMS,
    Engine,
    IntArray,
    Rules,
)


@lean_jit
def chunk_cap(rules: Rules, present: int) -> int:
    """Most tokens that one request may have in this step."""
    if rules.chunk_cap == 0 or (present <= 1 and not rules.cap_alone):
        return rules.token_budget
    if rules.cap_shared:
        return max(rules.chunk_cap, rules.token_budget // max(present, 1))
    return rules.chunk_cap


@lean_jit
def known_tokens(rules: Rules, requests: IntArray, request: int, call: int) -> int:
    """Tokens whose values are known: blocks of them can be found before they are computed."""
    if rules.asynchronous and requests[request, SAMPLED] == call - 1:
        return requests[request, GOAL] - 1  # the last token is still being sampled
    return requests[request, GOAL]


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
        if request == NONE or (rules.displaces and _was_preempted(engine, request)):
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
            mark(engine, request, min(end, known_tokens(rules, requests, request, call)) // size)
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
