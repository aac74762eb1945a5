"""Room kept for predicted outputs in a real engine: the rules of the replay's policy ``planned``.

Of each request that holds blocks is known, by its prediction, how many slots it needs at a later
call k of the scheduler, at most min(k + shift, foreseen), and the last call ``until`` at which it
holds its blocks: its course. The sum of the blocks grows between these last calls, so that it is
enough to know it at each of them: ``used``. The rules are those of
:mod:`sortedf.kernels.replay_room`, which docs/engine.md has in words; here without numba, which an
engine's process may not want, and with what only a real engine has: several groups of layers with
blocks of their own, and requests that come and go in any order. Derived for this project.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

# Rows of Room's table, a column for each request that holds blocks.
_PROMPT = 0
_LAST = 1  # most tokens that it can ever have computed
_FIRST = 2  # tokens that were known when it was admitted
_LEFT = 3  # known tokens that this call leaves uncomputed
_FORESEEN = 4
_SHIFT = 5
_UNTIL = 6
_USED = 7  # blocks that all will need at its last call
_ROWS = 8

_NEVER = 1 << 62


class Group(NamedTuple):
    """Layers that share blocks: tokens in a block, and most blocks of one request.

    ``most`` is ``None`` where a request holds all its tokens, and a number for sliding windows.
    """

    block_size: int
    most: int | None = None


@dataclass(frozen=True)
class Limits:
    """What an engine has, and how it hands it out.

    Parameters
    ----------
    blocks
        Blocks that requests can get.
    groups
        Groups of layers, each of which takes blocks of its own.
    token_budget
        Most tokens in a step.
    chunk_cap
        Most tokens of one request in a step; 0 for no cap.
    max_model_len
        Most tokens of a request.
    asynchronous
        Whether a request that has ended keeps its blocks for one more call.
    """

    blocks: int
    groups: tuple[Group, ...]
    token_budget: int
    chunk_cap: int
    max_model_len: int
    asynchronous: bool

    def blocks_of(self, slots: Any) -> Any:
        """Blocks for so many slots, an ``int`` or an array."""
        first, *others = [
            blocks if most is None else np.minimum(blocks, most)
            for blocks, most in (((slots + size - 1) // size, most) for size, most in self.groups)
        ]
        return sum(others, first)

    @property
    def longest(self) -> int:
        """Most slots that one request can hold."""
        return bisect_right(range(self.max_model_len), self.blocks, key=self.blocks_of) - 1


class Course(NamedTuple):
    """Slots needed at call k: min(k + shift, foreseen), up to the call ``until``."""

    foreseen: int
    shift: int
    until: int


class Room:
    """Ledger of the requests that hold blocks.

    Calls of the scheduler are numbered, one up each time. In each that admits, :meth:`begin` comes
    first; then, for each request that waits, :meth:`course` and :meth:`has_room`, and :meth:`hold`
    if it was admitted. O(requests held) each, vectorised.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.held: list[Any] = []
        """Requests that hold blocks, in the order in which :meth:`begin` wants them."""
        self._longest = limits.longest
        self._slots: dict[Hashable, int] = {}
        self._table = np.zeros((_ROWS, 64), np.int64)
        self._due = 0  # first call in which somebody may have left its course
        self._ends: dict[int, int] = {}  # how many have their last token sampled by a call

    def __contains__(self, request: Hashable) -> bool:
        return request in self._slots

    def begin(self, call: int, computed: Iterable[int], cap: int) -> int:
        """Bring the ledger up to this call, in which all that hold blocks get their tokens.

        Who samples in this call and has left its course is reckoned anew: when its prompt took
        several calls, and when it outlives its prediction. O(1) where nobody can have left it.

        Parameters
        ----------
        computed
            Tokens of each of :attr:`held` that are computed before this call.
        cap
            Most tokens of one request in this call.

        Returns
        -------
        tokens
            That they get in this call, all together.
        """
        if call < self._due:
            return len(self.held) - self.ending(call - 1)
        table = self._table[:, : len(self.held)]
        before = np.fromiter(computed, np.int64, len(self.held))
        # Known is one more than computed, unless what was known at first is not computed yet.
        goal = np.minimum(np.maximum(before + 1, table[_FIRST]), table[_LAST])
        wanted = goal - before
        tokens = np.minimum(wanted, cap)
        table[_LEFT] = wanted - tokens
        # Who ends keeps its blocks for one more call, on the course of the call that sampled last.
        sampled_at = call - (wanted == 0)
        off_course = (goal - table[_SHIFT] != sampled_at) | (goal > table[_FORESEEN])
        for slot in np.flatnonzero(off_course & (tokens == wanted)).tolist():
            self._count_out(slot)
            foreseen = self._foresee(
                int(table[_PROMPT, slot]), int(table[_FORESEEN, slot]), int(goal[slot])
            )
            course = self._course(foreseen, int(goal[slot]), int(sampled_at[slot]), 0)
            self._set_course(slot, course)
        self._due = call + 1
        if not table[_LEFT].any():
            outlivable = table[_FORESEEN] < table[_LAST]
            ends = (table[_FORESEEN] - table[_SHIFT])[outlivable]
            self._due = int(ends.min(initial=_NEVER)) + 1
        return int(tokens.sum())

    def ending(self, call: int) -> int:
        """Count those whose last token this call samples; O(1)."""
        return self._ends.get(call, 0)

    def disturb(self) -> None:
        """Say that somebody may have left its course: not all had one token in the last call."""
        self._due = 0

    def course(self, prompt: int, predicted: int, known: int, call: int, left: int) -> Course:
        """Foresee the course of a request that is admitted by this call.

        Parameters
        ----------
        prompt, predicted
            Tokens of its prompt and predicted output.
        known
            Tokens of prompt and outputs so far.
        left
            Known tokens that this call would leave uncomputed.
        """
        first = min(prompt + predicted - 1, self._longest)
        foreseen = self._foresee(prompt, first, known)
        return self._course(foreseen, known, call, self._most_delay(left) if left > 0 else 0)

    def has_room(self, course: Course, call: int, blocks: int) -> bool:
        """Whether so many blocks suffice at every later call if this one joins."""
        table = self._table[:, : len(self.held)]
        until = table[_UNTIL]
        beyond = until >= course.until
        own = self.limits.blocks_of(min(course.until + course.shift, course.foreseen))
        if own + self._blocks_at(table, course.until)[beyond].sum() > blocks:
            return False
        between = ~beyond & (until > call)
        used = table[_USED] + self.limits.blocks_of(
            np.minimum(until + course.shift, course.foreseen)
        )
        return bool(used[between].max(initial=0) <= blocks)

    def hold(
        self, request: Hashable, course: Course, *, prompt: int, last: int, known: int, left: int
    ) -> None:
        """Count in a request that holds blocks now.

        Parameters
        ----------
        prompt
            Tokens of its prompt.
        last
            Most tokens that it can ever have computed.
        known
            Tokens of prompt and outputs so far.
        left
            Known tokens that this call leaves uncomputed.
        """
        self.release(request)
        slot = len(self.held)
        if slot == self._table.shape[1]:
            self._table = np.hstack([self._table, np.zeros_like(self._table)])
        self.held.append(request)
        self._slots[request] = slot
        self._table[: _LEFT + 1, slot] = prompt, last, known, left
        self._set_course(slot, course)
        if left > 0:
            self.disturb()

    def release(self, request: Hashable) -> None:
        """Count out a request whose blocks are given back; one that holds none is passed over."""
        slot = self._slots.pop(request, None)
        if slot is None:
            return
        self._count_out(slot)
        moved = self.held.pop()
        if moved != request:
            self.held[slot] = moved
            self._slots[moved] = slot
            self._table[:, slot] = self._table[:, len(self.held)]

    def _set_course(self, slot: int, course: Course) -> None:
        """Count in a request at the last calls of all, and all at its own."""
        table = self._table[:, : len(self.held)]
        table[_FORESEEN : _UNTIL + 1, slot] = course
        until = table[_UNTIL]
        table[_USED] += np.where(until <= course.until, self._blocks_of(slot, until), 0)
        at_last = self._blocks_at(table, course.until)
        table[_USED, slot] = at_last[until >= course.until].sum()
        last = int(table[_LAST, slot])
        self._ends[last - course.shift] = self.ending(last - course.shift) + 1
        if course.foreseen < last:
            self._due = min(self._due, course.foreseen - course.shift + 1)

    def _count_out(self, slot: int) -> None:
        table = self._table[:, : len(self.held)]
        until = table[_UNTIL]
        table[_USED] -= np.where(until <= until[slot], self._blocks_of(slot, until), 0)
        end = int(table[_LAST, slot] - table[_SHIFT, slot])
        self._ends[end] -= 1
        if self._ends[end] == 0:
            del self._ends[end]

    def _blocks_of(self, slot: int, calls: IntArray) -> IntArray:
        """Blocks that one request needs at each of these calls, none beyond its last."""
        shift, foreseen = self._table[_SHIFT, slot], self._table[_FORESEEN, slot]
        blocks: IntArray = self.limits.blocks_of(np.minimum(calls + shift, foreseen))
        return blocks

    def _blocks_at(self, table: IntArray, call: int) -> IntArray:
        """Blocks that each needs at a call, up to its last."""
        slots = np.minimum(call + table[_SHIFT], table[_FORESEEN])
        blocks: IntArray = self.limits.blocks_of(slots)
        return blocks

    def _course(self, foreseen: int, goal: int, call: int, delay: int) -> Course:
        last = call + delay + foreseen - goal
        return Course(foreseen, goal - call, last + 1 if self.limits.asynchronous else last)

    def _foresee(self, prompt: int, foreseen: int, goal: int) -> int:
        """Let a request that outlives its prediction be taken to generate as much again."""
        while foreseen < min(goal, self._longest):
            foreseen = min(2 * (foreseen + 1) - prompt, self._longest)
        return foreseen

    def _most_delay(self, left: int) -> int:
        """Count the calls that ``left`` tokens of a prompt take at most, behind all."""
        budget, cap = self.limits.token_budget, self.limits.chunk_cap
        chunk = min(cap, budget) if cap > 0 else budget
        others = self._table[_LEFT, : len(self.held)]
        wanted = int(np.clip(others, 1, chunk).sum())
        calls = -(-int(others.max(initial=0)) // chunk)
        share = min(chunk, max(budget - wanted, 0))
        if left <= calls * share:
            return -(-left // share)
        rest = left - calls * share
        share = max(min(chunk, budget - len(self.held)), 1)
        return calls + -(-rest // share)
