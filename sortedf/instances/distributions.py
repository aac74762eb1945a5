"""Random token counts that are the same everywhere: whole numbers drawn through integer tables.

numpy lets the methods of its ``Generator`` change from version to version. What it does guarantee
is that "a fixed seed will always produce the same random integer stream" of ``PCG64`` (its
documentation, "Compatibility Guarantee"; NEP 19). So only the raw words of that stream are used,
and they become token counts by integer arithmetic here.

A distribution is a table of whole thresholds out of 2**32, one for each token count k: the chance
of k tokens or fewer. Logarithms and the like are needed to fill a table only, and there the last
bits of a float, in which platforms differ, are rounded away. The tests show that no threshold of
the packaged distributions lies so near to half-way between two whole numbers that an error of 45
units in the last place could move it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.model.instance import IntArray

Words: TypeAlias = npt.NDArray[np.uint64]
Tail: TypeAlias = Callable[[Fraction], float | Fraction]
"""Chance that a length is more than so many tokens (a positive number)."""

WORD = 2**32
"""Words are whole numbers uniform on 0 .. WORD - 1."""


def words(rows: int, columns: int, seed: int) -> Words:
    """Words of a seed, shape (rows, columns); more rows continue the same stream."""
    raw = np.random.PCG64(seed).random_raw(rows * columns)
    return (np.asarray(raw, np.uint64) >> np.uint64(32)).reshape(rows, columns)


def uniform(draws: Words, low: int, high: int | IntArray) -> IntArray:
    """Whole numbers uniform on low .. high, both included, shape (n,).

    ``high`` may differ from draw to draw; high - low must be below 2**32. No value's chance is off
    by more than 2**-32.
    """
    width = np.asarray(high, np.int64) - (low - 1)
    return low + ((draws * width.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def from_table(draws: Words, table: Words) -> IntArray:
    """Lengths in tokens, 1 .. len(table) + 1, shape (n,)."""
    return 1 + np.searchsorted(table, draws, side="right").astype(np.int64)


def table(tail: Tail, most: int) -> Words:
    """Thresholds out of 2**32 of a length rounded to whole tokens and cut to 1 .. most.

    Shape (most - 1,): entry k - 1 is the chance of k tokens or fewer, that is, of k + 1/2 or less
    before rounding. The tail is what is rounded, because floats hold small chances best.
    """
    half = Fraction(1, 2)
    return np.array([WORD - round(tail(k + half) * WORD) for k in range(1, most)], np.uint64)


def log_normal(median: int, sigma: float) -> Tail:
    """Log-normal lengths: ``median`` in tokens, ``sigma`` the deviation of their logarithm."""

    def tail(length: Fraction) -> float:
        return math.erfc(math.log(length / median) / (sigma * math.sqrt(2))) / 2

    return tail


def pareto(least: int, index: float) -> Tail:
    """Pareto lengths: from ``least`` tokens on, the chance of more than x is (least / x)**index."""

    def tail(length: Fraction) -> float:
        return float(least / length) ** index if length > least else 1.0

    return tail


def piecewise(tokens: Sequence[int], per_mille: Sequence[int]) -> Tail:
    """Lengths by their quantiles, linear in between.

    A length is at most ``tokens[j]`` with chance ``per_mille[j]`` / 1000; both ascend, the chances
    from 0 to 1000. Rational, so that nothing is rounded before the table is.
    """
    knots = list(zip(tokens, per_mille, strict=True))

    def tail(length: Fraction) -> Fraction:
        if length <= tokens[0]:
            return Fraction(1)
        for (low, p), (high, q) in pairwise(knots):
            if length <= high:
                return 1 - (p + (length - low) * (q - p) / (high - low)) / 1000
        return Fraction(0)

    return tail
