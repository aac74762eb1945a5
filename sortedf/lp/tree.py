"""What a branching search has proved: a tree of splits of start times whose leaves are prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sortedf.model.instance import IntArray

MOST_PIECES = 4_000_000
"""Pieces of prices that are kept, 24 bytes each; a tree with more stops to grow."""


class Cut(NamedTuple):
    """Starts of a request that no better schedule has: those up to a step, or those after it."""

    request: int
    step: int
    after: bool


@dataclass
class _Node:
    """Schedules within windows of starts; bounds are of the sum of completions, scaled."""

    bound: int
    prices: IntArray
    cuts: list[Cut] = field(default_factory=list)
    cut_bound: int = 2**63
    split: tuple[int, int] = (0, 0)
    children: tuple[int, ...] = ()


class Tree:
    """The nodes of a search, as far as they prove something.

    A node without children is a leaf: its prices bound what falls into it. One with children has
    first lost what its cuts take away (the same prices bound that), and is then split: its
    request has started by its step, or starts later.

    Parameters
    ----------
    scale
        Denominator of all prices.
    released
        Sum of the releases, which the bounds of nodes include and ``value`` does not.
    """

    def __init__(self, scale: int, released: int) -> None:
        self.scale = scale
        self.released = released
        self.pieces = 0
        self._nodes: list[_Node] = []

    @property
    def complete(self) -> bool:
        """Whether there is still room, so that the tree proves all that the search has."""
        return self.pieces <= MOST_PIECES

    def add(self, bound: int, prices: IntArray) -> int | None:
        """Keep a node with its prices by step (entry 0 unused); the first one is the root.

        Returns its number, or ``None`` when there is no room for it.
        """
        if not self.complete:
            return None
        pieces = pieces_of(prices)
        self.pieces += len(pieces)
        self._nodes.append(_Node(bound, pieces))
        return len(self._nodes) - 1

    def cut(self, number: int | None, cuts: list[Cut], bound: int) -> None:
        """Take starts away from a node; ``bound`` is the least bound of what is taken away."""
        if number is not None and cuts:
            node = self._nodes[number]
            node.cuts += cuts
            node.cut_bound = min(node.cut_bound, bound)

    def grow(
        self, number: int | None, children: list[int | None], split: tuple[int, int] = (0, 0)
    ) -> None:
        """Give a leaf its children: the two sides of a split, or one that only takes its place.

        Without room for the children it stays a leaf.
        """
        kept = [child for child in children if child is not None]
        if number is None or len(kept) < len(children):
            return
        node = self._nodes[number]
        node.split, node.children = split, tuple(kept)
        if not node.cuts:
            self.pieces -= len(node.prices)
            node.prices = node.prices[:0]

    @property
    def value(self) -> Fraction:
        """The bound that the tree proves: the least of a leaf, releases deducted."""
        bounds = []
        waiting = [0]
        while waiting:
            node = self._nodes[waiting.pop()]
            waiting += node.children
            bounds.append(node.cut_bound if node.children else node.bound)
        return Fraction(min(bounds), self.scale) - self.released

    def to_dict(self) -> dict[str, Any]:
        """Give the keys of a certificate: denominator, price lists, and the tree that uses them.

        Entries of the tree come split by split: [request, step], the tree of those that have
        started by then, the tree of the others. A cut is a split of which one side is a leaf.
        """
        lists: list[list[list[int]]] = []
        tree: list[int | list[int]] = []
        waiting: list[tuple[bool, int]] = [(False, 0)]
        while waiting:
            is_list, number = waiting.pop()
            if is_list:
                tree.append(number)
                continue
            node = self._nodes[number]
            if node.cuts or not node.children:
                lists.append(node.prices.tolist())
            if not node.children:
                tree.append(len(lists) - 1)
                continue
            for request, step, after in node.cuts:
                tree.append([request, step])
                if after:
                    waiting.append((True, len(lists) - 1))
                else:
                    tree.append(len(lists) - 1)
            if len(node.children) > 1:
                tree.append(list(node.split))
            waiting += [(False, child) for child in reversed(node.children)]
        return {"denominator": self.scale, "price_lists": lists, "tree": tree}


def pieces_of(prices: IntArray) -> IntArray:
    """Gather equal prices of successive steps: first step, last step, price; zeros are left out.

    ``prices`` has an entry for each step and an unused one before; the result has shape (k, 3).
    """
    by_step = prices[1:]
    first = np.flatnonzero(np.diff(by_step, prepend=-1))
    pieces = np.column_stack([first + 1, np.append(first[1:], len(by_step)), by_step[first]])
    kept: IntArray = pieces[pieces[:, 2] > 0]
    return kept


def cuts_between(low: IntArray, high: IntArray, new_low: IntArray, new_high: IntArray) -> list[Cut]:
    """List what narrower windows leave out of wider ones; shape (n,) each."""
    before = [Cut(i, int(new_low[i]) - 1, False) for i in np.flatnonzero(new_low > low).tolist()]
    return before + [
        Cut(i, int(new_high[i]), True) for i in np.flatnonzero(new_high < high).tolist()
    ]
