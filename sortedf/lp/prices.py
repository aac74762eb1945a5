"""Prices of memory by step, and the lower bound that they prove, in exact integers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.price_ascent import FloatArray, cheapest_starts
from sortedf.kernels.price_bound import exact_minima, exact_minima_in_python
from sortedf.lp.distinct import distinct
from sortedf.model import Instance
from sortedf.model.instance import IntArray

FITS = 2**62
"""Numbers of the exact kernel that are compared or divided stay below this."""

LARGEST_DENOMINATOR = 2**40


@dataclass(frozen=True)
class Prices:
    """What a token of KV memory costs at each step: exact, linear on pieces of the time axis.

    Parameters
    ----------
    first, last
        First and last step of each piece, 1-based and inclusive, ascending and disjoint, int64 of
        shape (pieces,). Between and after the pieces memory costs nothing.
    numerator, slope
        Integers of the same shape: step t of a piece costs
        (numerator + slope (t - first)) / denominator, never below 0.
    denominator
        At least 1.

    Raises
    ------
    ValueError
        If the pieces are not ascending and disjoint, or a price is negative, or its numerator
        2**62 or more.
    """

    first: IntArray
    last: IntArray
    numerator: IntArray
    slope: IntArray
    denominator: int

    def __post_init__(self) -> None:
        for name in ("first", "last", "numerator", "slope"):
            array = np.array(getattr(self, name), np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        shapes = {a.shape for a in (self.first, self.last, self.numerator, self.slope)}
        if len(shapes) != 1 or self.first.ndim != 1:
            raise ValueError("the columns of prices have different shapes")
        if self.denominator < 1:
            raise ValueError(f"the denominator of prices is {self.denominator}")
        before = 0
        for first, last, numerator, slope in self.pieces():
            if not before < first <= last:
                raise ValueError(f"prices of steps {first}..{last} after those of step {before}")
            if min(numerator, numerator + slope * (last - first)) < 0:
                raise ValueError(f"a price of the steps {first}..{last} is negative")
            if max(numerator, numerator + slope * (last - first)) >= FITS:
                raise ValueError(f"a numerator of the steps {first}..{last} is 2^62 or more")
            before = last

    def pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """Go through the pieces: first step, last step, numerator, slope, as Python integers."""
        columns = (self.first, self.last, self.numerator, self.slope)
        return zip(*(column.tolist() for column in columns), strict=True)

    @property
    def horizon(self) -> int:
        """The last priced step T, 0 without pieces."""
        return int(self.last[-1]) if len(self.last) else 0

    @property
    def divisor(self) -> float:
        """The denominator as a float; infinite if none is that large."""
        try:
            return float(self.denominator)
        except OverflowError:
            return inf

    def per_step(self) -> FloatArray:
        """Price of each step, shape (T + 1,), entry 0 unused (0.0); O(T)."""
        prices = np.zeros(self.horizon + 1)
        steps = np.arange(self.horizon + 1)
        for first, last, numerator, slope in self.pieces():
            offset = steps[: last - first + 1]
            prices[first : last + 1] = (numerator + slope * offset) / self.divisor
        return prices

    def at(self, steps: IntArray) -> FloatArray:
        """Price of each of these steps, 0.0 beyond T; O(log K) each, however far apart they are."""
        if not len(self.last):
            return np.zeros(len(steps))
        piece = np.minimum(np.searchsorted(self.last, steps), len(self.last) - 1)
        inside = (self.first[piece] <= steps) & (steps <= self.last[piece])
        offset = np.where(inside, steps - self.first[piece], 0)
        prices = (self.numerator[piece] + self.slope[piece] * offset) / self.divisor
        return np.where(inside, prices, 0.0)

    def total(self) -> Fraction:
        """Sum of the prices of all steps."""
        total = 0
        for first, last, numerator, slope in self.pieces():
            m = last - first + 1
            total += numerator * m + slope * (m * (m - 1) // 2)
        return Fraction(total, self.denominator)

    def to_dict(self) -> dict[str, Any]:
        """Give the keys of a certificate; pieces without a price are left out."""
        pieces = [
            [first, last, numerator, slope] if slope else [first, last, numerator]
            for first, last, numerator, slope in self.pieces()
            if numerator or slope
        ]
        return {"denominator": self.denominator, "prices": pieces}


class Grid(NamedTuple):
    """Pieces without gaps, as the kernels take them; the last one is beyond T and costs nothing.

    ``nodes`` has one entry more than ``value`` and ``slope``, which are numerators.
    """

    nodes: IntArray
    value: IntArray
    slope: IntArray


def grid_of(instance: Instance, prices: Prices) -> Grid:
    """Lay the pieces out without gaps, up to beyond the last step that a request can touch."""
    rows: list[tuple[int, int, int]] = []
    end = 0
    for first, last, numerator, slope in prices.pieces():
        if first > end + 1:
            rows.append((end, 0, 0))
        rows.append((first - 1, numerator, slope if last > first else 0))
        end = last
    rows.append((end, 0, 0))
    nodes, value, slopes = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Grid(np.append(nodes, beyond(instance, end)), value, slopes)


def beyond(instance: Instance, horizon: int) -> int:
    """Return a step after every one that a request can touch if it starts by T or its release."""
    return max(horizon, int(instance.release.max())) + int(instance.output_tokens.max()) + 1


def largest_number(instance: Instance, nodes: IntArray, highest: int, denominator: int) -> int:
    """Bound what must fit into 64 bits in ``exact_minima``, for numerators up to ``highest``.

    With z = highest, w = max(s + o), h the longest piece: a cost is at most D (T + o) + z v, and
    each part of the first one, piece by piece, at most 2 z v. A first difference is at most
    D + 3 z w; a slope is at most z, so that second and third ones are below 3 z w and 2 z. The
    products of lengths are h^3 and 2 max(o)^3.
    """
    h = int(np.diff(nodes[:-1]).max()) if len(nodes) > 2 else 1
    w = int((instance.prompt_tokens + instance.output_tokens).max())
    o = int(instance.output_tokens.max())
    cost = denominator * int(nodes[-1]) + 2 * highest * int(instance.volume.max())
    return max(cost, denominator + 4 * highest * w, h**3, 2 * o**3)


def exact_costs(instance: Instance, prices: Prices) -> tuple[list[int], list[int]]:
    """Least cost over all starts of each kind of request, times the denominator; and its count."""
    nodes, value, slope = grid_of(instance, prices)
    highest = max(int(value.max()), int((value + slope * (np.diff(nodes) - 1)).max()))
    s, o, a, count, _ = distinct(instance)
    fits = largest_number(instance, nodes, highest, prices.denominator) < FITS
    if fits and exact_minima is not exact_minima_in_python:
        least = np.empty(len(s), np.int64)
        exact_minima(nodes, value, slope, prices.denominator, s, o, a, least)
        return least.tolist(), count.tolist()
    # Too large for 64 bits, or not compiled: the same code on Python integers, far slower.
    exact = [0] * len(s)
    exact_minima_in_python(
        nodes.tolist(),
        value.tolist(),
        slope.tolist(),
        prices.denominator,
        s.tolist(),
        o.tolist(),
        a.tolist(),
        exact,
    )
    return exact, count.tolist()


def price_bound(instance: Instance, prices: Prices) -> Fraction:
    """Lower bound on the total latency that prices prove; exact.

    For any prices, no schedule has a total latency below

        sum_i min_{a_i <= p <= max(T, a_i)} [p - a_i + o_i + sum_{k=1..o_i} price(p + k) (s_i + k)]
        - M sum_t price(t),

    because a schedule never holds more than M, so that what it pays for memory is at most the last
    term (the Lagrangian of the memory rows; a start after T costs more than one at T). Derived for
    this project. O(K) for each kind of request, K pieces, in 64-bit integers where they suffice.
    """
    costs = sum(cost * count for cost, count in zip(*exact_costs(instance, prices), strict=True))
    return Fraction(costs, prices.denominator) - instance.kv_tokens * prices.total()


class MinCosts(NamedTuple):
    """Least cost of each request, and its first and last start of that cost; shape (n,) each."""

    cost: FloatArray
    earliest: IntArray
    latest: IntArray


TOLERANCE = 1e-9
"""Relative difference up to which two costs count as equal."""


def min_costs(instance: Instance, prices: Prices) -> MinCosts:
    """Least cost of each request at these prices, in floats, and the starts that have it.

    The cost of a start p is p - a + o + sum_{k=1..o} price(p + k) (s + k), minimised over all
    a <= p <= max(T, a); costs that differ by less than ``TOLERANCE`` (relative) count as equal.
    O(K) for each kind of request, K pieces.
    """
    nodes, value, slope = grid_of(instance, prices)
    s, o, a, _, kind = distinct(instance)
    n = len(s)
    found = MinCosts(np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64))
    cheapest_starts(
        nodes,
        value / prices.divisor,
        slope / prices.divisor,
        s,
        o,
        a,
        *found,
        TOLERANCE,
    )
    return MinCosts(found.cost[kind], found.earliest[kind], found.latest[kind])


class CostTables(NamedTuple):
    """Sums by step t = 0..T from which ``kernels.price_ascent.cost_at`` takes any cost F(p).

    ``total`` is L(t), the sum of the prices up to step t; ``moment`` Q(t), that of price times
    step. Shape (T + 1,); a step after T has the values of T.
    """

    total: FloatArray
    moment: FloatArray


def cost_tables(prices: Prices) -> CostTables:
    """Sum up the prices for evaluation at single starts; O(T)."""
    per_step = prices.per_step()
    return CostTables(np.cumsum(per_step), np.cumsum(per_step * np.arange(len(per_step))))


def rounded(
    instance: Instance,
    nodes: npt.NDArray[np.int64],
    value: FloatArray,
    slope: FloatArray,
) -> Prices:
    """Turn float prices into exact ones, over the largest power of two that keeps 64 bits enough.

    ``nodes`` (K + 1,) are the ends of the pieces from 0 to T, ``value`` and ``slope`` (K,) as in
    the kernels. Negative prices become 0.
    """
    value = np.maximum(value, 0.0)
    steps = np.diff(nodes) - 1
    highest = max(float(value.max()), float((value + slope * steps).max()), 1e-9)
    grid = np.append(nodes, beyond(instance, int(nodes[-1])))
    denominator = LARGEST_DENOMINATOR
    while denominator > 1 and (
        largest_number(
            instance, grid, int(highest * denominator) + int(steps.max()) + 2, denominator
        )
        >= FITS
    ):
        denominator //= 2
    numerator = np.rint(value * denominator).astype(np.int64)
    slopes = np.floor(slope * denominator + 0.5).astype(np.int64)
    # A slope rounded down may carry the last step of a piece below 0.
    slopes = np.where(steps > 0, np.maximum(slopes, -(numerator // np.maximum(steps, 1))), 0)
    return Prices(nodes[:-1] + 1, nodes[1:], numerator, slopes, denominator)
