"""The replay from event to event: stretches in which all running requests decode, in closed form.

Derived for this project. Prefix caching is not replayed by this driver.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.jit import jit, lean_jit
from sortedf.kernels.replay_admission import admit, chunk_cap
from sortedf.kernels.replay_eviction import preempt
from sortedf.kernels.replay_group import (
    MEMBERS,
    Group,
    add_work,
    blocks_needed,
    dissolve,
    gather,
    group_seconds,
    new_group,
    part_from,
    step_together,
    steps_to_end,
    steps_until,
    steps_with_blocks,
)
from sortedf.kernels.replay_lifetime import (
    carry_out_aborts,
    leave,
    let_arrive,
    note_admissions,
    note_tokens,
)
from sortedf.kernels.replay_rules import advance, schedule
from sortedf.kernels.replay_state import (
    ABORT,
    ABORTED,
    ARRIVAL,
    ARRIVED,
    BY_ABORT,
    BY_ARRIVAL,
    CHUNK,
    COMPUTED,
    CONTINUED,
    FINISHED,
    FIRST_STEP,
    FIRSTS,
    FREE,
    GOAL,
    HELD,
    LAST,
    NONE,
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
from sortedf.kernels.step_terms import TERMS, step_seconds


@jit
def replay_events(rules: Rules, engine: Engine, seconds: FloatArray, clock: float) -> bool:
    """Run the engine until everything has finished; False if it never ends.

    The same engine as :func:`sortedf.kernels.replay_steps.run_steps`, whose parameters these are,
    at the same times up to rounding; ``clock`` is when the first call may come.
    """
    n = len(engine.requests)
    group, work = new_group(rules, n), np.zeros(TERMS)
    parts, leaving = np.empty(n, np.int64), np.empty(n, np.int64)
    return run_events(rules, engine, seconds, clock, NONE, group, work, parts, leaving, 0)


@lean_jit
def run_events(
    rules: Rules,
    engine: Engine,
    seconds: FloatArray,
    clock: float,
    target: int,
    group: Group,
    work: FloatArray,
    parts: IntArray,
    leaving: IntArray,
    n_leaving: int,
) -> bool:
    """Run the engine until everything has finished, or ``target`` has its first token.

    Parameters
    ----------
    target
        A request, or NONE. The rows of running requests are out of date when it ends by this.
    group, work, parts
        Room: an empty group, (TERMS,), (n,).
    leaving
        (n,), the first ``n_leaving`` of them requests that leave after the first call.

    Returns
    -------
    bool
        False if the engine never ends.

    Notes
    -----
    Calls of three kinds. *Still*: nothing but decodes, because the call before changed nothing, or
    nobody could be admitted anyway; many of these are one jump, to the first last token, the next
    arrival or abort, or the step for which blocks are too few. O(log n). *Together*: the decodes
    as a group, chunks and admissions one by one, O(log n) each, and preemptions of the tail,
    O(running). *One by one*: other preemptions, and a short token budget, by the rules for each
    running request. O(running).
    """
    counts, n = engine.counts, len(engine.requests)
    call, ran, end = 0, 0, clock
    patience = 2 * np.sum(engine.requests[:, LAST]) + 1000
    fruitless = 0
    unchanged = False  # the last call neither admitted, preempted nor brought an end
    n_parts = gather(rules, engine, group, engine.lists[RUNNING, : counts[RUNNING]], parts)
    grouped = True  # running is the group, the parts and those who leave
    while True:
        arrived = counts[ARRIVED]
        let_arrive(rules, engine, clock)
        if _next_abort(engine) <= clock:
            dissolve(rules, engine, group)
            grouped = False
            carry_out_aborts(rules, engine, clock)
        if counts[RUNNING] + counts[WAITING] == 0:
            if counts[ARRIVED] == n:
                return True
            clock = max(end, engine.times[engine.lists[BY_ARRIVAL, counts[ARRIVED]], ARRIVAL])
            continue

        counts[SCHEDULED], counts[VICTIMS], counts[CONTINUED] = 0, 0, 0
        steps = 0
        if grouped and n_parts == 0 and group.sums[MEMBERS] > 0:
            closed = counts[WAITING] == 0 or (unchanged and counts[ARRIVED] == arrived)
            if closed or (counts[RUNNING] >= rules.seats and n_leaving == 0):
                steps = _still_steps(rules, engine, group, seconds, max(end, clock))
        members = group.sums[MEMBERS]
        begin = max(end, clock)
        if steps > 0:
            counts[FREE] -= blocks_needed(rules, group, steps)
            counts[FIRSTS], counts[FINISHED], counts[TOKENS] = 0, 0, 0
            end = begin + group_seconds(group, seconds, steps)
            begin += group_seconds(group, seconds, steps - 1)
        else:
            grouped = grouped and _schedule_together(rules, engine, group, parts, n_parts, call)
            if not grouped:
                dissolve(rules, engine, group)
                schedule(rules, engine, call)
            members = group.sums[MEMBERS]
            steps = 1
            note_admissions(engine, ran + 1, clock)
            advance(engine, call, work)
            add_work(group, work)
            end = begin + step_seconds(seconds, work)
        if members > 0:
            counts[FINISHED] = step_together(rules, engine, group, steps, counts[FINISHED])
            counts[TOKENS] += members
        if members + counts[SCHEDULED] > 0:
            ran += steps
        note_tokens(engine, ran, end)
        if target != NONE and engine.requests[target, FIRST_STEP] > 0:
            return True
        fruitless = 0 if counts[TOKENS] > 0 else fruitless + 1
        happened = members + counts[SCHEDULED] + counts[VICTIMS]
        if happened + n_leaving == 0 or fruitless > patience:
            return False

        unchanged = counts[SCHEDULED] + counts[VICTIMS] + counts[FINISHED] + n_leaving == 0
        if rules.asynchronous:
            leave(rules, engine, leaving, n_leaving)
            n_leaving = counts[FINISHED]
            for place in range(n_leaving):
                leaving[place] = engine.lists[FINISHED, place]
            clock = begin
        else:
            leave(rules, engine, engine.lists[FINISHED], counts[FINISHED])
            clock = end
        if not grouped:
            n_parts = gather(rules, engine, group, engine.lists[RUNNING, : counts[RUNNING]], parts)
            grouped = True
        elif counts[SCHEDULED] > 0 or n_parts > 0:
            scheduled = engine.lists[SCHEDULED, : counts[SCHEDULED]]
            n_parts = gather(rules, engine, group, scheduled, parts)
        call += steps


@lean_jit
def _still_steps(
    rules: Rules, engine: Engine, group: Group, seconds: FloatArray, begin: float
) -> int:
    """Count the steps in which only the group's decodes can happen; 0 if blocks are too few.

    The call of the first has seen what arrived. Synchronous: the call after step i comes when it
    has ended; asynchronous: when it begins.
    """
    counts = engine.counts
    steps = steps_with_blocks(rules, group, counts[FREE], steps_to_end(group))
    if steps > 1:
        moment = _next_abort(engine)
        if counts[ARRIVED] < len(engine.requests):
            request = engine.lists[BY_ARRIVAL, counts[ARRIVED]]
            moment = min(moment, engine.times[request, ARRIVAL])
        if moment < np.inf:
            ahead = 1 if rules.asynchronous else 0
            seen = steps_until(group, seconds, moment - begin, steps - ahead)
            steps = max(seen + ahead, 1)
    return steps


@lean_jit
def _next_abort(engine: Engine) -> float:
    counts = engine.counts
    if counts[ABORTED] == counts[BY_ABORT]:
        return np.inf
    return engine.times[engine.lists[BY_ABORT, counts[ABORTED]], ABORT]


@lean_jit
def _schedule_together(
    rules: Rules, engine: Engine, group: Group, parts: IntArray, n_parts: int, call: int
) -> bool:
    """Schedule the group, the parts and whom can be admitted; False, and nothing done, if not.

    As :func:`sortedf.kernels.replay_rules.schedule` where tokens suffice for all who run, or fall
    short of the last one's only, and where blocks suffice, or the victims are those at the tail.
    SCHEDULED has all but the group.
    """
    requests, counts, lists = engine.requests, engine.counts, engine.lists
    size = rules.block_size
    cap = chunk_cap(rules, counts[RUNNING] + counts[WAITING])
    budget = rules.token_budget - group.sums[MEMBERS]
    need = blocks_needed(rules, group, 1)
    for place in range(n_parts):
        request = parts[place]
        tokens = min(requests[request, GOAL] - requests[request, COMPUTED], cap)
        if tokens > budget:
            if budget == 0 or lists[RUNNING, counts[RUNNING] - 1] != request:
                return False
            tokens = budget
        budget -= tokens
        lists[SCHEDULED, place] = tokens
        need += _more_blocks(requests, request, tokens, size)
    if need > counts[FREE] and rules.by_priority:
        return False
    # One after another takes its blocks, and the tail gives its own when none is left; so it goes
    # on until there is enough for all who stay.
    while need > counts[FREE]:
        request = lists[RUNNING, counts[RUNNING] - 1]
        if n_parts > 0 and parts[n_parts - 1] == request:
            n_parts -= 1
            need -= _more_blocks(requests, request, lists[SCHEDULED, n_parts], size)
        elif requests[request, COMPUTED] < requests[request, LAST]:
            part_from(rules, engine, group, request)
            need -= _more_blocks(requests, request, 1, size)
        preempt(rules, engine, call, counts[RUNNING] - 1)
    counts[FREE] -= need
    for place in range(n_parts):
        request = parts[place]
        tokens = lists[SCHEDULED, place]
        requests[request, HELD] += _more_blocks(requests, request, tokens, size)
        requests[request, CHUNK] = tokens
        lists[SCHEDULED, place] = request
    counts[SCHEDULED], counts[CONTINUED] = n_parts, n_parts
    if counts[VICTIMS] == 0:
        admit(rules, engine, call, cap, budget)
    return True


@lean_jit
def _more_blocks(requests: IntArray, request: int, tokens: int, size: int) -> int:
    """Blocks that a request takes for its next tokens, its row being up to date."""
    return (requests[request, COMPUTED] + tokens + size - 1) // size - requests[request, HELD]
