"""Requests that decode side by side, kept as one group: a step changes a few sums.

Every member gets one token in every step, so all that differs between members is where they stand;
what a step needs of them are sums. A member's own row in ``Engine.requests`` is out of date until
it leaves the group. Derived for this project.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.int_heap import pop, push
from sortedf.kernels.jit import jit, lean_jit
from sortedf.kernels.replay_state import (
    COMPUTED,
    FINISHED,
    GOAL,
    HELD,
    LAST,
    PROMPT,
    Engine,
    FloatArray,
    IntArray,
    Rules,
)
from sortedf.kernels.step_terms import CONTEXT, CONTEXT_SQUARED, DECODE_TOKENS, STEPS

# Group.sums.
MEMBERS = 0
TOGETHER = 1  # steps of the group so far
PHASE = 2  # that modulo the block size
TOKENS_THERE = 3  # sum of the members' computed tokens
SQUARES = 4  # sum of their squares
SUMS = 5

_REQUEST = (1 << 32) - 1  # bits of an entry of Group.ends that name the request


class Group(NamedTuple):
    """The members, none at first."""

    sums: IntArray  # (SUMS,)
    ends: IntArray  # (n,) heap: TOGETHER after the step of the last token << 32 | request
    needs: IntArray  # (block_size,) how many take a block in a step that finds PHASE so


@jit
def new_group(rules: Rules, n: int) -> Group:
    """Give an empty group with room for ``n`` requests."""
    return Group(
        np.zeros(SUMS, np.int64), np.empty(n, np.int64), np.zeros(rules.block_size, np.int64)
    )


@lean_jit
def decodes(engine: Engine, request: int) -> bool:
    """Whether a request is between its first and its last token, with one token to compute."""
    row = engine.requests[request]
    return row[GOAL] - row[COMPUTED] == 1 and row[COMPUTED] >= row[PROMPT]


@lean_jit
def join(rules: Rules, engine: Engine, group: Group, request: int) -> None:
    """Let a request that decodes be a member. O(log members)."""
    sums = group.sums
    computed = engine.requests[request, COMPUTED]
    end = sums[TOGETHER] + engine.requests[request, LAST] - computed
    push(group.ends, sums[MEMBERS], end << 32 | request)
    group.needs[(sums[TOGETHER] - computed) % rules.block_size] += 1
    sums[MEMBERS] += 1
    sums[TOKENS_THERE] += computed
    sums[SQUARES] += computed * computed


@lean_jit
def part_from(rules: Rules, engine: Engine, group: Group, request: int) -> None:
    """Take a member out of the group; its row is up to date then. O(members)."""
    requests, sums, ends = engine.requests, group.sums, group.ends
    # No early exit: the loop is compiled to vector instructions.
    place = 0
    for here in range(sums[MEMBERS]):
        place += here if ends[here] & _REQUEST == request else 0
    _bring_up(rules, engine, group, place)
    computed = requests[request, COMPUTED]
    group.needs[(sums[TOGETHER] - computed) % rules.block_size] -= 1
    sums[MEMBERS] -= 1
    sums[TOKENS_THERE] -= computed
    sums[SQUARES] -= computed * computed
    # Rise to the top, and be taken from there.
    while place > 0:
        ends[place] = ends[(place - 1) // 2]
        place = (place - 1) // 2
    pop(ends, sums[MEMBERS] + 1)


@lean_jit
def _bring_up(rules: Rules, engine: Engine, group: Group, place: int) -> None:
    """Bring the row of the member at a place of the heap up to date."""
    requests = engine.requests
    request = group.ends[place] & _REQUEST
    left = (group.ends[place] >> 32) - group.sums[TOGETHER]
    computed = requests[request, LAST] - left
    requests[request, COMPUTED] = computed
    requests[request, GOAL] = computed + 1
    requests[request, HELD] = (computed + rules.block_size - 1) // rules.block_size


@lean_jit
def dissolve(rules: Rules, engine: Engine, group: Group) -> None:
    """Bring the members' rows up to date; the group is empty then. O(members + block size)."""
    sums = group.sums
    for place in range(sums[MEMBERS]):
        _bring_up(rules, engine, group, place)
    group.needs[:] = 0
    sums[MEMBERS], sums[TOKENS_THERE], sums[SQUARES] = 0, 0, 0


@lean_jit
def steps_to_end(group: Group) -> int:
    """Count the steps until the first of the members, of whom there is one, has its last token."""
    return (group.ends[0] >> 32) - group.sums[TOGETHER]


@lean_jit
def blocks_needed(rules: Rules, group: Group, steps: int) -> int:
    """Blocks that the members take in the next steps. O(block size)."""
    rounds = steps // rules.block_size
    total = rounds * group.sums[MEMBERS]
    phase = group.sums[PHASE]
    for _ in range(steps - rounds * rules.block_size):
        total += group.needs[phase]
        phase += 1
        if phase == rules.block_size:
            phase = 0
    return total


@lean_jit
def steps_with_blocks(rules: Rules, group: Group, free: int, most: int) -> int:
    """Count the steps, at most ``most``, for which so many blocks suffice. O(block size)."""
    members = group.sums[MEMBERS]
    if members * (most // rules.block_size + 1) <= free:
        return most
    rounds = free // members  # rounds of block size steps, in which each member takes one
    free -= rounds * members
    steps = rounds * rules.block_size
    phase = group.sums[PHASE]
    while steps < most and group.needs[phase] <= free:
        free -= group.needs[phase]
        steps += 1
        phase += 1
        if phase == rules.block_size:
            phase = 0
    return min(steps, most)


@lean_jit
def add_work(group: Group, work: FloatArray) -> None:
    """Add what the members do in the next step to the terms of the step."""
    sums = group.sums
    if sums[MEMBERS] > 0:
        work[STEPS] = 1.0
        work[DECODE_TOKENS] += sums[MEMBERS]
        work[CONTEXT] += sums[TOKENS_THERE]
        work[CONTEXT_SQUARED] += sums[SQUARES]


@lean_jit
def group_seconds(group: Group, seconds: FloatArray, steps: int) -> float:
    """Duration of so many steps in which nothing but the group runs, in closed form.

    With n members, C and Q the sums of their contexts and of the squares of these, the step after i
    others finds C + i n and Q + 2 i C + i^2 n.
    """
    sums = group.sums
    members = float(sums[MEMBERS])
    context, squares = float(sums[TOKENS_THERE]), float(sums[SQUARES])
    count = float(steps)
    first = count * (count - 1) / 2  # sum of 0 .. steps - 1
    second = first * (2 * count - 1) / 3  # sum of their squares
    return (
        (seconds[STEPS] + seconds[DECODE_TOKENS] * members) * count
        + seconds[CONTEXT] * (context * count + members * first)
        + seconds[CONTEXT_SQUARED] * (squares * count + 2 * context * first + members * second)
    )


@lean_jit
def steps_until(group: Group, seconds: FloatArray, duration: float, most: int) -> int:
    """Fewest steps that take so many seconds, but at most ``most``. O(log most)."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if group_seconds(group, seconds, middle) < duration:
            low = middle + 1
        else:
            high = middle
    return low


@lean_jit
def step_together(rules: Rules, engine: Engine, group: Group, steps: int, finished: int) -> int:
    """Let the members compute a token in each of so many steps, at most to the first end.

    Those who end leave the group and are added to FINISHED, which has ``finished`` entries; returns
    how many it has now. O(1), and O(log members) for each end.
    """
    requests, sums, size = engine.requests, group.sums, rules.block_size
    members = sums[MEMBERS]
    sums[SQUARES] += steps * (2 * sums[TOKENS_THERE] + steps * members)
    sums[TOKENS_THERE] += steps * members
    sums[TOGETHER] += steps
    sums[PHASE] = (sums[PHASE] + steps) % size
    while sums[MEMBERS] > 0 and group.ends[0] >> 32 == sums[TOGETHER]:
        request = group.ends[0] & _REQUEST
        pop(group.ends, sums[MEMBERS])
        last = requests[request, LAST]
        requests[request, COMPUTED] = last
        requests[request, GOAL] = last
        requests[request, HELD] = (last + size - 1) // size
        group.needs[(sums[TOGETHER] - last) % size] -= 1
        sums[MEMBERS] -= 1
        sums[TOKENS_THERE] -= last
        sums[SQUARES] -= last * last
        engine.lists[FINISHED, finished] = request
        finished += 1
    return finished


@lean_jit
def gather(rules: Rules, engine: Engine, group: Group, some: IntArray, parts: IntArray) -> int:
    """Let those of ``some`` who decode be members; who has more to compute goes to ``parts``.

    In order; nobody who has its last token. Returns how many there are in ``parts``.
    """
    requests, left = engine.requests, 0
    for place in range(len(some)):
        request = some[place]
        if decodes(engine, request):
            join(rules, engine, group, request)
        elif requests[request, COMPUTED] < requests[request, GOAL]:
            parts[left] = request
            left += 1
    return left
