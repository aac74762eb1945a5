"""The price bound as a concave function of prices on a grid, in floats, with its supergradient."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sortedf.kernels.price_ascent import FloatArray, cheapest_starts, piece_loads
from sortedf.lp.distinct import distinct
from sortedf.model import Instance
from sortedf.model.instance import IntArray


class Groups(NamedTuple):
    """Requests with how often each counts; shape (groups,) each. All of them, or a sample."""

    prompt_tokens: IntArray
    output_tokens: IntArray
    release: IntArray
    weight: FloatArray
    sampled: bool


def groups_of(instance: Instance, most: int, seed: int) -> Groups:
    """Gather equal requests; if there are more than ``most`` different ones, draw a sample.

    In the order of release and volume one of every k requests is drawn and counts k times: the
    middle one for seed 0, else any. O(n log n).
    """
    s, o, a, count, _ = distinct(instance)
    if len(s) <= most:
        return Groups(s, o, a, count.astype(np.float64), sampled=False)
    n = len(instance)
    offset = 0.5 if seed == 0 else np.random.PCG64(seed).random_raw(most) / 2**64
    places = np.minimum((np.arange(most) + offset) * (n / most), n - 1).astype(np.int64)
    drawn = np.searchsorted(np.cumsum(count), places, side="right")
    return Groups(s[drawn], o[drawn], a[drawn], np.full(most, n / most), sampled=True)


class Dual:
    """The bound for prices that are linear between nodes, given at the nodes.

    Parameters
    ----------
    groups
        The requests.
    kv_tokens
        The budget M.
    nodes
        Ends of the pieces, int64 of shape (K + 1,), from 0 to T.
    reach
        A step after every one that a request can touch.
    """

    def __init__(self, groups: Groups, kv_tokens: int, nodes: IntArray, reach: int) -> None:
        self.groups = groups
        self.kv_tokens = float(kv_tokens)
        self.nodes = nodes
        self.steps = np.diff(nodes).astype(np.float64)
        self.pairs = self.steps * (self.steps - 1) / 2
        self.cells = 0  # looked at by the last evaluation
        # What the kernels read and write; the piece beyond T costs nothing.
        self._nodes = np.append(nodes, reach)
        self._value = np.zeros(len(nodes))
        self._slope = np.zeros(len(nodes))
        self._load = np.empty(len(nodes))
        self._moment = np.empty(len(nodes))
        n = len(groups.weight)
        self._least = np.empty(n)
        self._earliest = np.empty(n, np.int64)
        self._latest = np.empty(n, np.int64)

    @property
    def cheapest(self) -> IntArray:
        """Start of each group that the last evaluation found cheapest, shape (groups,)."""
        return self._earliest

    def pieces(self, at_nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value at the first step, and slope, of each piece; shape (K,)."""
        slope = np.diff(at_nodes) / self.steps
        return at_nodes[:-1] + slope, slope

    def __call__(self, at_nodes: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient at prices of shape (K + 1,); O(groups K)."""
        least = self.look(at_nodes)
        paid, gradient = self.slopes(self.groups.weight)
        return float(np.sum(least * self.groups.weight)) - paid, gradient

    def look(self, at_nodes: FloatArray) -> FloatArray:
        """Find the least cost of each group at these prices, shape (groups,), valid until next."""
        s, o, a, _, _ = self.groups
        value, slope = self._value[:-1], self._slope[:-1]
        value[:], slope[:] = self.pieces(at_nodes)
        found = (self._least, self._earliest, self._latest)
        self.cells = cheapest_starts(self._nodes, self._value, self._slope, s, o, a, *found, 0.0)
        return self._least

    def slopes(self, weight: FloatArray) -> tuple[float, FloatArray]:
        """Sum up what the budget pays at most, and give the supergradient, at the prices looked at.

        ``weight`` (groups,) says how often each group is there.
        """
        s, o, _, _, _ = self.groups
        value, slope = self._value[:-1], self._slope[:-1]
        piece_loads(self._nodes, s, o, weight, self._earliest, self._load, self._moment)
        paid = self.kv_tokens * float(np.sum(value * self.steps + slope * self.pairs))
        by_value = self._load[:-1] - self.kv_tokens * self.steps
        by_slope = self._moment[:-1] - self.kv_tokens * self.pairs
        tilt = (by_value + by_slope) / self.steps
        gradient = np.zeros(len(self.nodes))
        gradient[:-1] = by_value - tilt
        gradient[1:] += tilt
        return paid, gradient


class Decrements:
    """The same for prices that fall, given by how much they fall from each node to the next."""

    def __init__(self, dual: Dual) -> None:
        self.dual = dual

    @staticmethod
    def at_nodes(falls: FloatArray) -> FloatArray:
        """Sum up the falls from the right; shape (K + 1,) both."""
        return np.cumsum(falls[::-1])[::-1]

    @staticmethod
    def of(at_nodes: FloatArray) -> FloatArray:
        """Falls of prices that do not rise."""
        return np.append(at_nodes[:-1] - at_nodes[1:], at_nodes[-1])

    def __call__(self, falls: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient by the falls."""
        bound, gradient = self.dual(self.at_nodes(falls))
        return bound, np.cumsum(gradient)
