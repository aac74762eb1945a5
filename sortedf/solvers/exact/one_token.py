"""Backlogs whose outputs are one token each: a step is a set of requests, and nothing else.

A request of s prompt tokens and one output token, all released at 0, holds w = s + 1 tokens at the
step at which it completes and none at any other. So a schedule is a sequence of sets of at most M
tokens, and what is left costs the same whatever came before. Is there a schedule of total latency
V at most? Asked for V = bound, bound + 1, ..., the first yes is the optimum and every no a bound
by full search. Derived for this project; three facts keep the search small.

- Equal requests are interchangeable: a node is a count for each w, and one that failed with a
  budget fails with any smaller one.
- A request that still fits into a step may be taken there from a later one: only sets that take in
  no more are tried.
- *The bound.* With n requests of W tokens left, of which at most k fit into one step, the steps
  hold at most k each and are at least W / M in number. Least is the sum of completions if all of
  these steps hold one request, and the others fill up the first steps to k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from math import ceil

from sortedf.model import Instance, Schedule
from sortedf.solvers.exact.work import Work

Counts = tuple[int, ...]
"""Requests left (or taken) of each w, in descending order of w."""

MOST_LOOKS = 2_000_000
"""Choices of how many requests of one w to take, some seconds; then the other ways go on."""

LOOKS_PER_TICK = 2_000
"""Such choices between two looks at the clock, some ms."""


class _OutOfLooks(Exception):  # noqa: N818 - not an error: the way out of nested loops
    """Raised when ``MOST_LOOKS`` is reached."""


def has_one_token_outputs(instance: Instance) -> bool:
    """Whether all outputs are one token, all releases 0."""
    return int(instance.output_tokens.max()) == 1 and int(instance.release.max()) == 0


def by_sets(work: Work) -> None:
    """Raise the bound until the search is over, or ``MOST_LOOKS`` choices have been tried.

    Exponential in the number of different w in the worst case: the problem is NP-hard, see
    ``docs/proofs/three-partition.md``. One node in memory for each set tried, at most.
    """
    search = _Search(work)
    value = max(search.least(search.counts), ceil(work.bound or 0))
    with suppress(_OutOfLooks):
        while True:
            work.proved(Fraction(value))  # ends the search if it is the best value
            steps = search.within(search.counts, value)
            if steps is None:
                value += 1
            else:
                work.found(_schedule(work.instance, search.tokens, steps))


class _Search:
    """Nodes that were found to have no schedule of a total latency."""

    def __init__(self, work: Work) -> None:
        kinds: Counter[int] = Counter((work.instance.prompt_tokens + 1).tolist())
        self.tokens = sorted(kinds, reverse=True)
        self.counts: Counts = tuple(kinds[w] for w in self.tokens)
        self._looks = 0
        self._work = work
        self._budget = work.instance.kv_tokens
        self._failed: dict[Counts, int] = {}

    def within(self, left: Counts, most: int) -> list[Counts] | None:
        """Find sets for steps 1, 2, ... with a sum of completions of ``most`` at most, if any."""
        if not any(left):
            return []
        if self._failed.get(left, -1) >= most or self.least(left) > most:
            return None
        after = most - sum(left)  # every request that is left counts this step
        for taken in self._sets(left, self._budget):
            rest = self.within(tuple(a - b for a, b in zip(left, taken, strict=True)), after)
            if rest is not None:
                return [taken, *rest]
        self._failed[left] = most
        return None

    def least(self, left: Counts) -> int:
        """Bound the sum of completions of what is left, see above."""
        number = sum(left)
        total = sum(w * count for w, count in zip(self.tokens, left, strict=True))
        most, room = 0, self._budget
        for w, count in zip(reversed(self.tokens), reversed(left), strict=True):
            fit = min(count, room // w)
            most += fit
            room -= fit * w
        steps = -(-total // self._budget)
        bound = steps * (steps + 1) // 2
        spare, step = number - steps, 1
        while spare > 0:
            # Steps beyond `steps` hold no request yet.
            extra = min(spare, most - 1 if step <= steps else most)
            bound += step * extra
            spare -= extra
            step += 1
        return bound

    def _sets(self, left: Counts, room: int, kind: int = 0) -> Iterator[Counts]:
        """Give the sets of at most ``room`` tokens, from this kind on, that take in no more."""
        if kind == len(left):
            yield ()
            return
        w = self.tokens[kind]
        later = sum(map(int.__mul__, self.tokens[kind + 1 :], left[kind + 1 :]))
        for count in range(min(left[kind], room // w), -1, -1):
            self._look()
            still = room - count * w
            # Room for one more of w beside all smaller ones, and with fewer of w all the more. If
            # not all of these are taken, one does not fit that is smaller than w.
            if count < left[kind] and still - later >= w:
                break
            for others in self._sets(left, still, kind + 1):
                yield (count, *others)

    def _look(self) -> None:
        self._looks += 1
        if self._looks % LOOKS_PER_TICK == 0:
            self._work.tick()
        if self._looks >= MOST_LOOKS:
            raise _OutOfLooks


def _schedule(instance: Instance, tokens: list[int], steps: list[Counts]) -> Schedule:
    """Hand the places out to the requests of each w, in input order."""
    places: dict[int, list[int]] = {w: [] for w in tokens}
    for start, taken in enumerate(steps):
        for w, count in zip(tokens, taken, strict=True):
            places[w] += [start] * count
    waiting = {w: iter(starts) for w, starts in places.items()}
    return Schedule([next(waiting[w]) for w in (instance.prompt_tokens + 1).tolist()])
