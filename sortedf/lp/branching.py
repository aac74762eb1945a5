"""Branching on start times, each node bounded by prices: a tree whose leaves are price vectors.

A node holds a window of starts for each request and bounds the schedules within the windows by the
price bound (:mod:`sortedf.kernels.exact_prices`), its prices raised from its parent's. It is split
by one request and one step: started by then, or later. The least bound of the open nodes bounds
every schedule, and where it reaches the best value known, that is optimal. Starts whose cost is
further above the least than the node's bound is below the value to beat are cut off ("reduced cost
fixing"). Everything that the search concludes is kept as a :class:`~sortedf.lp.tree.Tree`, which
proves it to anyone. Derived for this project; branching on start times is the usual way for
time-indexed programs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels import exact_prices
from sortedf.lp.tree import Tree, cuts_between
from sortedf.model import Instance
from sortedf.model.instance import IntArray

FloatArray = npt.NDArray[np.float64]

ROOT_ROUNDS = 20
ROUND = 100
"""The root's ascent: so many rounds of so many evaluations."""

NODE_EVALUATIONS = 100
NODE_STEP = 2.5
"""Evaluations of a node below the root, from its parent's prices; first step of a price, in what
an unfinished request is worth, 1 / M. Measured at 40 to 200 requests of the mix."""

MOST_STEPS = 1 << 16
"""Longest horizon, in steps, for which there is a price a step."""


class Step(NamedTuple):
    """What one step of the search brings.

    ``bound`` on every schedule, if none known is better than the value to beat; ``order``: the
    requests by their mean start in the node, from which a schedule can be made; ``only``: where the
    windows leave but one schedule, its starts, feasible or not.
    """

    bound: Fraction
    order: IntArray
    only: IntArray | None = None


def horizon_of(instance: Instance) -> int:
    """Step by which some best schedule has completed everything: max a + sum o.

    Once all are released something runs at every step of it: an idle step could be left out.
    """
    return int(instance.release.max() + instance.output_tokens.sum())


class Node(NamedTuple):
    """Open node: scaled bound, a number that breaks ties, windows, prices, where to split.

    ``place`` is its number in the tree, if that has room for it.
    """

    bound: int
    number: int
    low: IntArray
    high: IntArray
    prices: IntArray
    place: int | None
    request: int = 0
    at: int = 0


class Branching:
    """Best-first search; ``steps`` goes on until nothing is open.

    Parameters
    ----------
    instance
        Requests that each fit the budget.
    starts
        Of a feasible schedule; prices start from the number of its unfinished requests.
    value
        What its schedules are to beat, kept up to date by the caller: total latency, steps.

    Attributes
    ----------
    tree
        Proof of the bound of the last step; empty before the first one.
    """

    def __init__(self, instance: Instance, starts: IntArray, value: int) -> None:
        self.instance = instance
        self.value = value
        completions = starts + instance.output_tokens
        horizon = horizon_of(instance)
        unfinished = len(instance) - np.searchsorted(
            np.sort(completions), np.arange(horizon + 1), "left"
        )
        # A price is about (unfinished requests) / M; all sums stay far below 2^62.
        self.scale = 1 << 20
        guess = 0.95 * unfinished * self.scale / instance.kv_tokens
        self.prices: IntArray = np.rint(guess).astype(np.int64)
        self.rate = float(guess.max())
        self.released = int(instance.release.sum())
        self.tree = Tree(self.scale, self.released)
        self._only: IntArray | None = None

    def steps(self) -> Iterator[Step]:
        """Yield after every few ms of work; the bounds rise, the last one is the value.

        Before it goes on, the caller may lower ``value``.
        """
        n = len(self.instance)
        low = self.instance.release.astype(np.int64)
        high = np.full(n, len(self.prices) - 1)
        prices = self.prices
        mean, spread = np.empty(n), np.empty(n)
        place = None
        bound = np.iinfo(np.int64).min
        rate = 0.1 * self.rate
        for _ in range(ROOT_ROUNDS):
            high, prices = self._trimmed(low, high, prices)
            bound = self._ascend(low, high, prices, ROUND, rate, 0.6 * rate, mean, spread)
            before, place = place, self.tree.add(bound, prices)
            self.tree.grow(before, [place])
            if bound <= self._most():
                self._shrink(low, high, prices, bound, place)
            rate *= 0.6
            yield Step(self._exact(bound), np.argsort(mean, kind="stable"))
        heap: list[Node] = []
        number = 0
        self._open(heap, Node(bound, number, low, high, prices, place), mean, spread)
        rate = NODE_STEP * self.scale / self.instance.kv_tokens
        while heap:
            parent = heapq.heappop(heap)
            places = []
            for left in (True, False):
                low, high = parent.low.copy(), parent.high.copy()
                if left:
                    high[parent.request] = parent.at
                else:
                    low[parent.request] = parent.at + 1
                high, prices = self._trimmed(low, high, parent.prices)
                bound = self._ascend(
                    low, high, prices, NODE_EVALUATIONS, rate, 0.1 * rate, mean, spread
                )
                number += 1
                places.append(self.tree.add(bound, prices))
                child = Node(bound, number, low, high, prices, places[-1])
                self._open(heap, child, mean, spread)
                least = heap[0].bound if heap else self._most() + self.scale
                if left:
                    least = min(least, parent.bound)
                else:
                    self.tree.grow(parent.place, places, (parent.request, parent.at))
                yield Step(self._exact(least), np.argsort(mean, kind="stable"), self._only)
                self._only = None
        yield Step(Fraction(self.value), np.argsort(mean, kind="stable"), self._only)

    def _trimmed(
        self, low: IntArray, high: IntArray, prices: IntArray
    ) -> tuple[IntArray, IntArray]:
        """End the prices, and the windows, where memory can no longer be short.

        The last priced step T stands for all later starts. If there is enough memory after T
        whatever starts within the windows, they are no better than a start at T, and need no
        prices. O(n + T).
        """
        steps = len(prices)
        size = self.instance.prompt_tokens + self.instance.output_tokens
        end = np.where(high < steps - 1, high + self.instance.output_tokens, steps)
        most = np.zeros(steps + 1, np.int64)  # changes, then sums, of what may be held at a step
        np.add.at(most, low + 1, size)
        np.add.at(most, np.minimum(end + 1, steps), -size)
        short = np.flatnonzero(np.cumsum(most)[:steps] > self.instance.kv_tokens)
        last = max(int(short[-1]) if len(short) else 1, int(low.max()))
        return np.minimum(high, last), prices[: last + 1].copy()

    def _ascend(
        self,
        low: IntArray,
        high: IntArray,
        prices: IntArray,
        evaluations: int,
        first_rate: float,
        last_rate: float,
        mean: FloatArray,
        spread: FloatArray,
    ) -> int:
        return exact_prices.ascend(
            self.instance.prompt_tokens,
            self.instance.output_tokens,
            self.instance.kv_tokens,
            low,
            high,
            prices,
            self.scale,
            evaluations,
            first_rate,
            last_rate,
            mean,
            spread,
        )

    def _shrink(
        self, low: IntArray, high: IntArray, prices: IntArray, bound: int, place: int | None
    ) -> None:
        """Cut off starts that no better schedule has."""
        low_before, high_before = low.copy(), high.copy()
        excess = exact_prices.shrink(
            self.instance.prompt_tokens,
            self.instance.output_tokens,
            low,
            high,
            prices,
            self.scale,
            self._most() - bound,
        )
        self.tree.cut(place, cuts_between(low_before, high_before, low, high), bound + excess)

    def _open(self, heap: list[Node], node: Node, mean: FloatArray, spread: FloatArray) -> None:
        """Put a node among the open ones, unless nothing in it can be better than the value."""
        if node.bound > self._most():
            return
        self._shrink(node.low, node.high, node.prices, node.bound, node.place)
        width = node.high - node.low
        if not width.any():
            self._only = node.low
            self._close(node)
            return
        # A start that moves a lot holds much memory in two places at once.
        weight = np.where(width > 0, (spread + 1e-3) * self.instance.volume, -1.0)
        request = int(np.argmax(weight))
        at = int(np.clip(np.floor(mean[request]), node.low[request], node.high[request] - 1))
        heapq.heappush(heap, node._replace(request=request, at=at))

    def _close(self, node: Node) -> None:
        """Prove what is left of a node whose windows leave but one schedule.

        Its value if it is feasible; otherwise as much as is needed, by a price for a step at which
        it holds more than there is.
        """
        instance = self.instance
        starts, ends = node.low, node.low + instance.output_tokens
        value = self.scale * int(ends.sum())
        prices = np.zeros(len(node.prices), np.int64)
        steps = np.arange(len(prices))[:, None]
        held = np.where(
            (starts < steps) & (steps <= ends), instance.prompt_tokens + steps - starts, 0
        )
        over = held.sum(axis=1) - instance.kv_tokens
        step = int(over.argmax())
        if over[step] > 0:
            missing = max(0, self._most() + self.scale - value)
            prices[step] = -(-missing // int(over[step]))
            value += int(prices[step]) * int(over[step])
        self.tree.grow(node.place, [self.tree.add(value, prices)])

    def _most(self) -> int:
        """Scaled sum of completions that a better schedule has at most."""
        return self.scale * (self.value - 1 + self.released)

    def _exact(self, bound: int) -> Fraction:
        return Fraction(min(bound, self._most() + self.scale), self.scale) - self.released
