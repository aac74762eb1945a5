"""Places in memory for the requests of a schedule, so that they can be drawn side by side.

A request that starts at p holds s + k tokens at step p + k, and none is ever moved: each token gets
a cell of memory 0..M - 1 when it comes and keeps it until the request completes. A verified
schedule never holds more than M tokens, so a free cell is always there; which one is chosen decides
whether a request stays in one piece. Derived for this project:

- A request goes to the lowest place where its whole growing shape meets none of the shapes placed
  before it (first fit).
- Where there is none, its prompt and its growth are placed apart, the growth as far as it gets, and
  what does not fit in one piece is cut.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.model.instance import IntArray


class Piece(NamedTuple):
    """Part of a request in consecutive cells ``low``..``high - 1`` from step ``begin`` to ``end``.

    At step t (begin < t <= end) the first ``min(held + t - begin, high - low)`` cells are in use.
    """

    request: int
    low: int
    high: int
    held: int
    begin: int
    end: int


class _Shape:
    """A piece while it lasts: it may grow up to ``most`` tokens; ``end`` is the completion."""

    __slots__ = ("begin", "end", "grows", "held", "low", "most", "request")

    def __init__(
        self, request: int, low: int, held: int, most: int, begin: int, end: int, grows: bool
    ) -> None:
        self.request = request
        self.low = low
        self.held = held
        self.most = most
        self.begin = begin
        self.end = end
        self.grows = grows

    def tokens(self, step: int) -> int:
        return min(self.held + step - self.begin, self.most)

    def full(self) -> int:
        """Return the step at which there is no room for the next token."""
        return self.begin + self.most - self.held


def places(
    starts: IntArray,
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    budget: int,
    first: int,
    last: int,
) -> list[Piece]:
    """Place the requests that run within the steps ``first`` + 1..``last``.

    Parameters
    ----------
    starts, prompt_tokens, output_tokens
        Of a schedule that never holds more than the budget; shape (n,).
    budget
        Cells of memory, in tokens.
    first, last
        The window, first < last. What runs before it is placed as it is at its beginning.

    Returns
    -------
    list[Piece]
        No two pieces are in one cell at one step; at every step of the window the pieces of a
        request hold just its tokens. By request and begin. O(m^2) steps of arrays of length m for
        m requests in the window.
    """
    completions = starts + output_tokens
    inside = np.flatnonzero((starts < last) & (completions > first))
    waiting = inside[np.lexsort((inside, starts[inside]))][::-1].tolist()
    memory = _Memory(budget, last)
    while True:
        times = [max(int(starts[waiting[-1]]), first)] if waiting else []
        times += [s.full() if s.grows else s.end for s in memory.shapes]
        times += [s.end for s in memory.shapes]
        if not times or (now := min(times)) >= last:
            break
        memory.complete(now)
        for shape in memory.shapes.copy():
            if shape.grows and shape.full() == now:
                shape.grows = False
                memory.grow(shape.request, now, shape.end)
        while waiting and max(int(starts[waiting[-1]]), first) == now:
            i = waiting.pop()
            held = int(prompt_tokens[i]) + now - int(starts[i])
            memory.start(i, held, now, int(completions[i]))
    memory.complete(last, everything=True)
    return sorted(memory.pieces, key=lambda piece: (piece.request, piece.begin, piece.low))


class _Memory:
    """The shapes in memory at one step, and the pieces of those that have gone."""

    def __init__(self, budget: int, last: int) -> None:
        self.budget = budget
        self.last = last
        self.shapes: list[_Shape] = []
        self.pieces: list[Piece] = []

    def complete(self, now: int, everything: bool = False) -> None:
        """Turn the shapes that have ended into pieces."""
        left = []
        for s in self.shapes:
            if s.end > now and not everything:
                left.append(s)
                continue
            end = min(s.end, self.last)
            high = s.low + s.tokens(end)
            self.pieces.append(Piece(s.request, s.low, high, s.held, s.begin, end))
        self.shapes = left

    def start(self, request: int, held: int, now: int, end: int) -> None:
        """Place a request that holds so many tokens now and one more each step."""
        low = self._first_fit(held, end - now, now, end)
        if low is not None:
            self.shapes.append(_Shape(request, low, held, held + end - now, now, end, True))
            return
        low = self._first_fit(held, 0, now, end)
        if low is None:
            self._cut(request, held, now, end)
        else:
            self.shapes.append(_Shape(request, low, held, held, now, end, False))
        self.grow(request, now, end)

    def grow(self, request: int, now: int, end: int) -> None:
        """Place the tokens that come one a step, from now until the end: as many as there is room.

        What is left goes on elsewhere when that is full.
        """
        most = end - now
        while most:
            if (low := self._first_fit(0, most, now, end)) is not None:
                break
            most //= 2
        else:
            # Only cells that others will grow into. Half of the widest such gap is taken from the
            # shape below, so that both fill up at the same time.
            below, above = max(self._gaps(now), key=lambda gap: gap[1] - gap[0])
            low = below + (above - below) // 2
            most = min(above - low, end - now)
            self._claim(low)
        self.shapes.append(_Shape(request, low, 0, most, now, end, True))

    def _first_fit(self, held: int, growth: int, now: int, end: int) -> int | None:
        """Find the lowest place for a shape of ``held`` tokens that grows by ``growth``.

        Shapes only grow, so two of them meet if they do at the last step that both are there.
        """
        if held + growth > self.budget:
            return None
        if not self.shapes:
            return 0
        columns = [(s.low, s.held, s.begin, s.most, s.end) for s in self.shapes]
        lows, helds, begins, mosts, ends = np.array(columns, np.int64).T
        both = np.minimum(ends, end)
        tops = lows + np.minimum(helds + both - begins, mosts)
        mine = held + np.minimum(both - now, growth)
        tried = np.unique(np.append(tops, 0))
        tried = tried[tried <= self.budget - held - growth]
        above = lows >= tried[:, None]
        meets = np.where(above, tried[:, None] + mine > lows, tops > tried[:, None])
        fits = np.flatnonzero(~meets.any(axis=1))
        return int(tried[fits[0]]) if len(fits) else None

    def _cut(self, request: int, held: int, now: int, end: int) -> None:
        """Put tokens that are there at once into several gaps, the widest first, from the top."""
        for below, above in sorted(self._gaps(now), key=lambda gap: gap[0] - gap[1]):
            taken = min(held, above - below)
            low = above - taken
            self._claim(low)
            self.shapes.append(_Shape(request, low, taken, taken, now, end, False))
            held -= taken
            if not held:
                return
        raise ValueError("the schedule holds more than the budget")

    def _gaps(self, now: int) -> list[tuple[int, int]]:
        """Find the runs of cells that are free at the next step."""
        used = sorted((s.low, s.low + s.tokens(now + 1)) for s in self.shapes)
        edges = [0, *(edge for run in used for edge in run), self.budget]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]

    def _claim(self, low: int) -> None:
        """Let no shape grow into the cell ``low``, which is above all that it holds next step."""
        for s in self.shapes:
            if s.low < low < s.low + s.most:
                s.most = low - s.low


def colors(pieces: list[Piece]) -> dict[int, int]:
    """Give each request a number, so that those that touch differ; few numbers, greedily.

    Two requests touch if the smallest rectangles around a piece of each have a point in common.
    """
    boxes = np.array([(p.begin, p.end, p.low, p.high) for p in pieces], np.int64).reshape(-1, 4)
    owners = [p.request for p in pieces]
    neighbours: dict[int, set[int]] = {request: set() for request in owners}
    for k, (begin, end, low, high) in enumerate(boxes):
        touching = (
            (boxes[:, 0] <= end)
            & (boxes[:, 1] >= begin)
            & (boxes[:, 2] <= high)
            & (boxes[:, 3] >= low)
        )
        neighbours[owners[k]].update(owners[j] for j in np.flatnonzero(touching))
    given: dict[int, int] = {}
    for request in dict.fromkeys(p.request for p in sorted(pieces, key=lambda p: p.begin)):
        taken = {given[other] for other in neighbours[request] if other in given}
        given[request] = next(c for c in range(len(taken) + 1) if c not in taken)
    return given
