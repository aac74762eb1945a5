"""Room kept to each request's next threshold, and the standings of those that hold blocks.

The rules of MemGuard as docs/serving.md has them: whoever comes to a threshold without room for the
next stretch is let go there, and nobody in between. Derived for this project.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.runner.boost import Boost
from sortedf.runner.limits import Course, Limits
from sortedf.runner.room import FIRST, FORESEEN, LAST, PROMPT, SEAT, UNTIL, USED, Room

BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]

# Rows of the marks, a column for each request that holds blocks, as in Room's table.
_ATTAINED = 0  # seconds
_SCORE = 1
_THRESHOLD = 2  # output tokens
_OPEN = 3  # 1 while it stands at a threshold, where it may be evicted
_COMPUTED = 4  # tokens, after the last call
_MARKS = 5


class BoostRoom(Room):
    """A ledger that foresees requests to their next threshold.

    Parameters
    ----------
    boost
        Gives the standings; each request that is held must have one.
    let_go
        Evicts a request whose next stretch finds no room.
    blocks
        For those that run, in this call.
    """

    def __init__(
        self,
        limits: Limits,
        boost: Boost,
        *,
        let_go: Callable[[Any], None],
        blocks: Callable[[], int],
    ) -> None:
        super().__init__(limits)
        self._boost = boost
        self._let_go = let_go
        self._blocks = blocks
        self._marks = np.zeros((_MARKS, 64))

    def hold(
        self, request: Any, course: Course, *, prompt: int, last: int, known: int, left: int
    ) -> None:
        """Count in a request that holds blocks now, and its standing."""
        super().hold(request, course, prompt=prompt, last=last, known=known, left=left)
        slot = len(self.held) - 1
        if slot == self._marks.shape[1]:
            self._marks = np.hstack([self._marks, np.zeros_like(self._marks)])
        standing = request.standing
        opens = self._is_open(np.array([known - prompt]), np.array([standing.threshold]))[0]
        computed = request.num_computed_tokens
        attained, score, threshold = standing.attained, standing.score, standing.threshold
        self._marks[:, slot] = attained, score, threshold, opens, computed

    def release(self, request: Hashable) -> None:
        """Count out a request; what it has attained stays with it."""
        slot = self._slots.get(request)
        super().release(request)
        if slot is None:
            return
        standing: Any = request
        standing.standing.attained = float(self._marks[_ATTAINED, slot])
        self._marks[:, slot] = self._marks[:, len(self.held)]

    def rescored(self) -> None:
        """Take over scores that were all brought up to date. O(held)."""
        scores = (request.standing.score for request in self.held)
        self._marks[_SCORE, : len(self.held)] = np.fromiter(scores, np.float64, len(self.held))

    def served(self, computed: Iterable[int]) -> None:
        """Share out the time of the call that was just scheduled. O(held), vectorised.

        Parameters
        ----------
        computed
            Tokens of each of those held that are computed after it.
        """
        n = len(self.held)
        table, marks = self._view(), self._marks[:, :n]
        after = np.fromiter(computed, np.float64, n)
        tokens = after - marks[_COMPUTED]
        if n and tokens.min() > 0:
            marks[_ATTAINED] += self._boost.shares(tokens, marks[_COMPUTED])
        else:
            served = np.flatnonzero(tokens > 0)
            before = marks[_COMPUTED, served]
            marks[_ATTAINED, served] += self._boost.shares(tokens[served], before)
        marks[_COMPUTED] = after
        generated = np.minimum(np.maximum(after + 1, table[FIRST]), table[LAST]) - table[PROMPT]
        for slot in np.flatnonzero(generated >= marks[_THRESHOLD]).tolist():
            request = self.held[slot]
            request.standing.attained = float(marks[_ATTAINED, slot])
            self._boost.pass_threshold(request)
            marks[_SCORE, slot] = request.standing.score
            marks[_THRESHOLD, slot] = request.standing.threshold
        marks[_OPEN] = self._is_open(generated, marks[_THRESHOLD])

    def displaceable(self, limit: float) -> list[Any]:
        """Give those of worse score than the limit that may be evicted, the worst first.

        They stand at a threshold, and do not wait for their last token. Ties by arrival, then by
        id, the last first.
        """
        marks = self._marks[:, : len(self.held)]
        may = (marks[_OPEN] > 0) & (marks[_SCORE] > limit)
        if not may.any():
            return []
        may &= marks[_COMPUTED] < self._view()[LAST]
        found = [self.held[slot] for slot in np.flatnonzero(may).tolist()]
        return sorted(
            found, key=lambda r: (r.standing.score, r.arrival_time, r.request_id), reverse=True
        )

    def could_make_room(self, going: list[Any], foreseen: int, needed: int, free: int) -> bool:
        """Whether a waiting request would fit if these went.

        Parameters
        ----------
        foreseen
            Slots that it is foreseen to need at last.
        needed, free
            Blocks that it needs now, and that nobody holds.
        """
        table, computed = self._view(), self._marks[_COMPUTED, : len(self.held)]
        goes = np.zeros(len(self.held), np.bool_)
        goes[[self._slots[request] for request in going]] = True
        blocks_of = self.limits.blocks_of
        goal = np.minimum(np.maximum(computed.astype(np.int64) + 1, table[FIRST]), table[LAST])
        last = np.maximum(table[FORESEEN], goal)[~goes]
        if blocks_of(foreseen) + blocks_of(last).sum() > self._blocks():
            return False
        back = blocks_of(computed[goes].astype(np.int64)).sum()
        return bool(needed <= free + back)

    def wanted(self, request: Any, cap: int) -> int:
        """Tokens that a running request wants of this call."""
        slot = self._slots[request]
        computed = int(self._marks[_COMPUTED, slot])
        goal = min(max(computed + 1, int(self._table[FIRST, slot])), int(self._table[LAST, slot]))
        return min(goal - computed, cap)

    def _correct(self, strays: list[tuple[Any, int, int]], call: int) -> None:
        if len(strays) > 1:
            strays.sort(key=lambda stray: self._table[SEAT, self._slots[stray[0]]])
        for request, goal, sampled_at in strays:
            outlives = goal > self._table[FORESEEN, self._slots[request]]
            self._reckon(request, goal, sampled_at)
            if outlives and not self._suffices(call):
                self._let_go(request)

    def _suffices(self, call: int) -> bool:
        """Whether there is room for all that is foreseen of those held, from this call on."""
        table = self._view()
        used = table[USED][table[UNTIL] >= call]
        return bool(used.max(initial=0) <= self._blocks())

    def _is_open(self, generated: IntArray, threshold: Any) -> BoolArray:
        guard = self._boost.scoring.guard
        result: BoolArray = (2 * generated == threshold) & (generated >= guard)
        return result

    def _foresee(self, prompt: int, foreseen: int, goal: int) -> int:
        """Foresee to the next threshold; they double."""
        while foreseen < min(goal, self._longest):
            foreseen = min(2 * (foreseen + 1) - prompt - 1, self._longest)
        return foreseen
