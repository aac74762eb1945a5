"""The relaxed states of the exact search: multisets of what running requests still hold.

Seen backwards in time a request is simple: it appears at its completion with its peak w = s + o,
melts by one token a step, and vanishes when it would hold s. So a state is a multiset of holdings,
and feasibility is one comparison at each appearance: what is held, plus w, is at most M.

Which request a holding belongs to is forgotten; to know when it vanishes the requests are sorted
into classes, and a holding of a class vanishes at the class's ``floor``, which is at least every s
in the class. It vanishes no later than in truth: a relaxation, exact where floor = s. With one
class of floor f the states are the partitions of numbers up to M into parts above f (4,951 at
M = 50, f = 5); with several classes, the combinations of such. Derived for this project.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray

Int32Array = npt.NDArray[np.int32]


class States(NamedTuple):
    """States by ascending tokens held; state 0 is the empty one.

    ``held`` (tokens) and ``earlier`` (the state one step earlier in time) have shape (states,).
    ``grown[x, k]`` is the state after a request of kind k appears in x, -1 where it does not fit;
    a kind is a peak w of a class, k = (M + 1) class + w.
    """

    held: IntArray
    earlier: Int32Array
    grown: Int32Array


def count_states(kv_tokens: int, floors: list[int]) -> int:
    """Count the states that classes with these floors would have, O(classes M^2)."""
    ways = [1] + [0] * kv_tokens
    for floor in floors:
        for part in range(floor + 1, kv_tokens + 1):
            for total in range(part, kv_tokens + 1):
                ways[total] += ways[total - part]
    return sum(ways)


def one_class(kv_tokens: int, floor: int, largest: int) -> States:
    """Enumerate the states of one class: parts above ``floor`` up to ``largest``, sum up to M."""
    found: list[tuple[int, ...]] = [()]

    def extend(parts: tuple[int, ...], left: int) -> None:
        for part in range(floor + 1, min(parts[-1] if parts else largest, left) + 1):
            found.append((*parts, part))
            extend(found[-1], left - part)

    extend((), kv_tokens)
    found.sort(key=lambda parts: (sum(parts), parts))
    place = {parts: x for x, parts in enumerate(found)}
    grown = np.full((len(found), kv_tokens + 1), -1, np.int32)
    earlier = np.empty(len(found), np.int32)
    for x, parts in enumerate(found):
        earlier[x] = place[tuple(part - 1 for part in parts if part - 1 > floor)]
        for peak in range(floor + 1, min(kv_tokens - sum(parts), largest) + 1):
            grown[x, peak] = place[tuple(sorted((*parts, peak), reverse=True))]
    held = np.array([sum(parts) for parts in found], np.int64)
    return States(held, earlier, grown)


@jit
def combine(kv_tokens: int, one: States, two: States) -> States:
    """States of two groups of classes together, the kinds of ``two`` after those of ``one``."""
    within = np.zeros(kv_tokens + 1, np.int64)  # states of `two` that hold at most so much
    for tokens in two.held:
        within[tokens] += 1
    for tokens in range(kv_tokens):
        within[tokens + 1] += within[tokens]
    base = np.zeros(len(one.held) + 1, np.int64)
    for x in range(len(one.held)):
        base[x + 1] = base[x] + within[kv_tokens - one.held[x]]
    held = np.empty(base[-1], np.int64)
    for x in range(len(one.held)):
        for y in range(base[x + 1] - base[x]):
            held[base[x] + y] = one.held[x] + two.held[y]
    order = np.argsort(held, kind="mergesort")
    place = np.empty(len(held), np.int32)
    for rank in range(len(held)):
        place[order[rank]] = rank
    kinds = one.grown.shape[1]
    earlier = np.empty(len(held), np.int32)
    grown = np.full((len(held), kinds + two.grown.shape[1]), -1, np.int32)
    for x in range(len(one.held)):
        for y in range(base[x + 1] - base[x]):
            z = place[base[x] + y]
            earlier[z] = place[base[one.earlier[x]] + two.earlier[y]]
            for kind in range(kinds):
                after = one.grown[x, kind]
                if after >= 0 and one.held[after] + two.held[y] <= kv_tokens:
                    grown[z, kind] = place[base[after] + y]
            for kind in range(two.grown.shape[1]):
                after = two.grown[y, kind]
                if after >= 0 and one.held[x] + two.held[after] <= kv_tokens:
                    grown[z, kinds + kind] = place[base[x] + after]
    return States(held[order], earlier, grown)


class Moves(NamedTuple):
    """The states with their appearances as lists: those of state x at first[x]..first[x + 1].

    ``kind`` and ``after`` have shape (moves,); only kinds that some request has.
    """

    earlier: Int32Array
    first: IntArray
    kind: Int32Array
    after: Int32Array


@jit
def list_moves(states: States, used: npt.NDArray[np.bool_]) -> Moves:
    """Drop the kinds that no request has, O(states kinds)."""
    first = np.zeros(len(states.held) + 1, np.int64)
    for x in range(len(states.held)):
        first[x + 1] = first[x]
        for k in range(len(used)):
            if used[k] and states.grown[x, k] >= 0:
                first[x + 1] += 1
    kind = np.empty(first[-1], np.int32)
    after = np.empty(first[-1], np.int32)
    move = 0
    for x in range(len(states.held)):
        for k in range(len(used)):
            if used[k] and states.grown[x, k] >= 0:
                kind[move] = k
                after[move] = states.grown[x, k]
                move += 1
    return Moves(states.earlier, first, kind, after)
