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

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.runner.limits import Course, Limits

IntArray = npt.NDArray[np.int64]

# Rows of Room's table, a column for each request that holds blocks.
PROMPT = 0
LAST = 1  # most tokens that it can ever have computed
FIRST = 2  # tokens that were known when it was admitted
LEFT = 3  # known tokens that this call leaves uncomputed
FORESEEN = 4
SHIFT = 5
UNTIL = 6
USED = 7  # blocks that all will need at its last call
SEAT = 8  # the order in which they were admitted
ROWS = 9

_NEVER = 1 << 62


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
        self._seats = 0  # that were given out
        self._peak: tuple[int, int] | None = None  # last call of one at which most is used, blocks
        self._table = np.zeros((ROWS, 64), np.int64)
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
        table = self._view()
        before = np.fromiter(computed, np.int64, len(self.held))
        # Known is one more than computed, unless what was known at first is not computed yet.
        goal = np.minimum(np.maximum(before + 1, table[FIRST]), table[LAST])
        wanted = goal - before
        tokens = np.minimum(wanted, cap)
        if tokens.sum() > self.limits.token_budget:  # who came last waits for the rest
            by_seat = np.argsort(table[SEAT])
            up_to = np.cumsum(tokens[by_seat])
            over = np.maximum(up_to - self.limits.token_budget, 0)
            tokens[by_seat] -= np.minimum(tokens[by_seat], over)
        table[LEFT] = wanted - tokens
        # Who ends keeps its blocks for one more call, on the course of the call that sampled last.
        sampled_at = call - (wanted == 0)
        off_course = (goal - table[SHIFT] != sampled_at) | (goal > table[FORESEEN])
        slots = np.flatnonzero(off_course & (tokens == wanted)).tolist()
        self._correct([(self.held[s], int(goal[s]), int(sampled_at[s])) for s in slots], call)
        self._due = call + 1
        table = self._view()
        if not table[LEFT].any():
            outlivable = table[FORESEEN] < table[LAST]
            ends = (table[FORESEEN] - table[SHIFT])[outlivable]
            self._due = int(ends.min(initial=_NEVER)) + 1
        return int(tokens.sum())

    def _correct(self, strays: list[tuple[Any, int, int]], call: int) -> None:
        """Reckon anew those that have left their course: (request, goal, when it samples)."""
        for request, goal, sampled_at in strays:
            self._reckon(request, goal, sampled_at)

    def _reckon(self, request: Hashable, goal: int, sampled_at: int) -> None:
        slot = self._slots[request]
        self._count_out(slot)
        prompt, foreseen = int(self._table[PROMPT, slot]), int(self._table[FORESEEN, slot])
        foreseen = self._foresee(prompt, foreseen, goal)
        self._set_course(slot, self._course(foreseen, goal, sampled_at, 0))

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
        """Whether so many blocks suffice at every later call if this one joins.

        O(1) where it would still be there when most is used, and there is no room for it then.
        """
        table = self._view()
        if self._peak is None or self._peak[0] <= call:
            later = np.flatnonzero(table[UNTIL] > call)
            most = int(later[table[USED, later].argmax()]) if len(later) else None
            self._peak = None
            if most is not None:
                self._peak = int(table[UNTIL, most]), int(table[USED, most])
        if self._peak is not None and self._peak[0] < course.until:
            then, used = self._peak
            if used + self.limits.blocks_of(min(then + course.shift, course.foreseen)) > blocks:
                return False
        until = table[UNTIL]
        beyond = until >= course.until
        own = self.limits.blocks_of(min(course.until + course.shift, course.foreseen))
        if own + self._blocks_at(table, course.until)[beyond].sum() > blocks:
            return False
        between = ~beyond & (until > call)
        used = table[USED] + self.limits.blocks_of(
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
        self._table[: LEFT + 1, slot] = prompt, last, known, left
        self._seats += 1
        self._table[SEAT, slot] = self._seats
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

    def _view(self) -> IntArray:
        """Give the columns of those that hold blocks."""
        return self._table[:, : len(self.held)]

    def _set_course(self, slot: int, course: Course) -> None:
        """Count in a request at the last calls of all, and all at its own."""
        table = self._view()
        self._peak = None
        table[FORESEEN : UNTIL + 1, slot] = course
        until = table[UNTIL]
        table[USED] += np.where(until <= course.until, self._blocks_of(slot, until), 0)
        at_last = self._blocks_at(table, course.until)
        table[USED, slot] = at_last[until >= course.until].sum()
        last = int(table[LAST, slot])
        self._ends[last - course.shift] = self.ending(last - course.shift) + 1
        if course.foreseen < last:
            self._due = min(self._due, course.foreseen - course.shift + 1)

    def _count_out(self, slot: int) -> None:
        self._peak = None
        table = self._view()
        until = table[UNTIL]
        table[USED] -= np.where(until <= until[slot], self._blocks_of(slot, until), 0)
        end = int(table[LAST, slot] - table[SHIFT, slot])
        self._ends[end] -= 1
        if self._ends[end] == 0:
            del self._ends[end]

    def _blocks_of(self, slot: int, calls: IntArray) -> IntArray:
        """Blocks that one request needs at each of these calls, none beyond its last."""
        shift, foreseen = self._table[SHIFT, slot], self._table[FORESEEN, slot]
        blocks: IntArray = self.limits.blocks_of(np.minimum(calls + shift, foreseen))
        return blocks

    def _blocks_at(self, table: IntArray, call: int) -> IntArray:
        """Blocks that each needs at a call, up to its last."""
        slots = np.minimum(call + table[SHIFT], table[FORESEEN])
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
        others = self._table[LEFT, : len(self.held)]
        wanted = int(np.clip(others, 1, chunk).sum())
        calls = -(-int(others.max(initial=0)) // chunk)
        share = min(chunk, max(budget - wanted, 0))
        if left <= calls * share:
            return -(-left // share)
        rest = left - calls * share
        share = max(min(chunk, budget - len(self.held)), 1)
        return calls + -(-rest // share)
