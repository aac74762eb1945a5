"""Room kept for predicted outputs: blocks that the running requests will hold at every later call.

Of each running request is known, by its prediction, how many slots it needs at a later call k, at
most min(k + SHIFT, FORESEEN), and the last call UNTIL at which it holds its blocks. The sum over
the running ones grows between these last calls, so that it is enough to know it at each of them:
USED. A request is admitted if no such sum, nor that at its own last call, exceeds the blocks.

A prompt computed in chunks needs more calls than one. It is reckoned to need slots as if it were
computed now, and to hold them as long as its chunks can take at most. That is safe because only the
request behind all others ever waits for tokens: who is admitted finds tokens left over by all that
run, and what those want of a step only falls. Derived for this project.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.jit import lean_jit, rare_jit
from sortedf.kernels.replay_state import (
    CHUNK,
    COMPUTED,
    FORESEEN,
    GOAL,
    PROMPT,
    RUNNING,
    SHIFT,
    UNTIL,
    USED,
    Engine,
    IntArray,
    Rules,
)
from sortedf.kernels.standing import THRESHOLD


@lean_jit
def has_room(rules: Rules, engine: Engine, request: int, call: int, end: int) -> bool:
    """Whether blocks suffice at every later call if a waiting request is admitted by this one.

    Leaves in ``engine.room`` what :func:`reserve` needs. O(running).

    Parameters
    ----------
    end
        Tokens of the request that are computed after this step.
    """
    room, running, size = engine.room, engine.lists[RUNNING], rules.block_size
    goal = engine.requests[request, GOAL]
    foresee(rules, engine, request)
    delay = _most_delay(rules, engine, goal - end) if end < goal else 0
    _set_course(rules, engine, request, call, delay)
    last = room[request, UNTIL]
    total = _blocks_at(room, size, request, last)
    for place in range(engine.counts[RUNNING]):
        other = running[place]
        until = room[other, UNTIL]
        if until >= last:
            total += _blocks_at(room, size, other, last)
        elif until > call:
            more = _blocks_at(room, size, request, until)
            if room[other, USED] + more > rules.blocks:
                return False
    return total <= rules.blocks


@lean_jit
def reserve(rules: Rules, engine: Engine, request: int) -> None:
    """Count in a running request at the last calls of all, and all at its own. O(running)."""
    room, running, size = engine.room, engine.lists[RUNNING], rules.block_size
    last = room[request, UNTIL]
    total = _blocks_at(room, size, request, last)
    for place in range(engine.counts[RUNNING]):
        other = running[place]
        if other == request:
            continue
        if room[other, UNTIL] <= last:
            room[other, USED] += _blocks_at(room, size, request, room[other, UNTIL])
        if room[other, UNTIL] >= last:
            total += _blocks_at(room, size, other, last)
    room[request, USED] = total


@lean_jit
def unreserve(rules: Rules, engine: Engine, request: int) -> None:
    """Count a request out again that :func:`reserve` counted in. O(running)."""
    room, running, size = engine.room, engine.lists[RUNNING], rules.block_size
    for place in range(engine.counts[RUNNING]):
        until = room[running[place], UNTIL]
        if until <= room[request, UNTIL]:
            room[running[place], USED] -= _blocks_at(room, size, request, until)


@lean_jit
def correct_course(rules: Rules, engine: Engine, request: int, call: int) -> None:
    """Reckon a running request anew, which samples in this step and has left its course.

    It has when its prompt took several calls, and when it outlives its prediction. O(running).
    """
    unreserve(rules, engine, request)
    foresee(rules, engine, request)
    _set_course(rules, engine, request, call, 0)
    reserve(rules, engine, request)


@rare_jit
def keeps_room(rules: Rules, engine: Engine, request: int, call: int) -> bool:
    """Reckon a running request anew; whether there is room for all that are then foreseen.

    In this call too, for which no blocks have been taken yet.

    O(running).
    """
    correct_course(rules, engine, request, call)
    room, running = engine.room, engine.lists[RUNNING]
    for place in range(engine.counts[RUNNING]):
        other = running[place]
        if room[other, UNTIL] >= call and room[other, USED] > rules.blocks:
            return False
    return True


@lean_jit
def foresee(rules: Rules, engine: Engine, request: int) -> None:
    """Let a request that outlives its prediction be taken to generate as much again as it has.

    Or one token more, or up to its next threshold.
    """
    goal = engine.requests[request, GOAL]
    if goal > engine.room[request, FORESEEN]:
        prompt = engine.requests[request, PROMPT]
        last = goal
        if rules.scoring.guard > 0:
            last = prompt + np.int64(engine.standing[request, THRESHOLD]) - 1
        elif rules.doubles:
            last = goal + goal - prompt
        engine.room[request, FORESEEN] = min(last, rules.longest)


@lean_jit
def _set_course(rules: Rules, engine: Engine, request: int, call: int, delay: int) -> None:
    room = engine.room
    goal = engine.requests[request, GOAL]
    room[request, SHIFT] = goal - call
    last = call + delay + room[request, FORESEEN] - goal
    # Asynchronous: it keeps its blocks for one more call.
    room[request, UNTIL] = last + 1 if rules.asynchronous else last


@lean_jit
def _blocks_at(room: IntArray, size: int, request: int, call: int) -> int:
    """Most blocks that a request needs at a call, up to its last."""
    slots = min(call + room[request, SHIFT], room[request, FORESEEN])
    return (slots + size - 1) // size


@lean_jit
def _most_delay(rules: Rules, engine: Engine, left: int) -> int:
    """Count the calls that ``left`` tokens of a prompt take at most, behind all. O(running)."""
    requests, running = engine.requests, engine.lists[RUNNING]
    budget, n = rules.token_budget, engine.counts[RUNNING]
    chunk = min(rules.chunk_cap, budget) if rules.chunk_cap > 0 else budget
    wanted, calls = 0, 0  # by those that run: tokens in the next call, calls until all decode
    for place in range(n):
        request = running[place]
        known = requests[request, GOAL] - requests[request, COMPUTED] - requests[request, CHUNK]
        wanted += min(max(known, 1), chunk)
        calls = max(calls, (known + chunk - 1) // chunk)
    share = min(chunk, max(budget - wanted, 0))
    if left <= calls * share:
        return (left + share - 1) // share
    rest = left - calls * share
    share = min(chunk, budget - n)
    return calls + (rest + share - 1) // share
