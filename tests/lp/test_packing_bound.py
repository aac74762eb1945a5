"""The bound by dual-feasible functions, against their definition and the brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

from sortedf import Instance
from sortedf.lp.closed_forms import mean_busy_time_bound
from sortedf.lp.distinct import distinct
from sortedf.lp.packing_bound import (
    QUARTERS,
    Values,
    exact_value,
    functions,
    packing_bound,
    rounding,
    weighed,
)


def value_of(values: Values, size: int) -> int:
    """Give the value of a size, by the pieces; they do not overlap."""
    found = [
        constant + slope * size
        for first, last, constant, slope in values.pieces
        if first <= size <= last
    ]
    assert len(found) <= 1
    return sum(found)


@pytest.mark.parametrize("M", [7, 12, 30, 61])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_rounding_is_the_textbook_function(M: int, k: int) -> None:
    """u(x) = x where (k + 1) x is whole, else floor((k + 1) x) / k, for x in shares of M."""
    for size in range(1, M + 1):
        parts = Fraction((k + 1) * size, M)
        expected = k * size if parts.denominator == 1 else (parts.__floor__()) * M
        assert value_of(rounding(M, k), size) == expected


@given(st.integers(4, 60), st.lists(st.integers(1, 60), min_size=1, max_size=12), st.data())
@settings(max_examples=200)
def test_what_fits_into_the_budget_fits_in_values(
    M: int, sizes: list[int], data: st.DataObject
) -> None:
    """Every function that is tried is dual-feasible, and so are the means with the size itself."""
    instance = Instance([max(1, min(x, M) - 1) for x in sizes], [1] * len(sizes), max(M, 2))
    fitting: list[int] = []
    for size in data.draw(st.lists(st.integers(1, M), max_size=20)):
        if sum(fitting) + size <= M:
            fitting.append(size)
    for values in functions(M, distinct(instance)):
        assert sum(value_of(values, size) for size in fitting) <= values.times * M


@given(
    st.lists(st.tuples(st.integers(1, 25), st.integers(1, 9)), min_size=1, max_size=8),
    st.integers(0, 10),
)
@settings(max_examples=60)
def test_value_is_that_of_the_definition(rows: list[tuple[int, int]], spare: int) -> None:
    """Every function and mean, step by step and request by request in fractions."""
    M = max(s + o for s, o in rows) + spare
    s, o = zip(*rows, strict=True)
    kinds = distinct(Instance(s, o, M))
    for values in functions(M, kinds):
        for quarters, mixed in zip(QUARTERS, weighed(kinds, M, values, object), strict=True):
            budget = 4 * values.times * M
            total = done = Fraction(0)
            weights = []
            for prompt, output in rows:
                held = [
                    quarters * value_of(values, prompt + k)
                    + (4 - quarters) * values.times * (prompt + k)
                    for k in range(1, output + 1)
                ]
                if sum(held) == 0:
                    total += output
                    continue
                weights.append(sum(held))
                mean = sum(x * (output - k + Fraction(1, 2)) for k, x in enumerate(held, 1))
                total += Fraction(mean) / sum(held)
            for weight in sorted(weights):
                total += (done + Fraction(weight, 2)) / budget
                done += weight
            assert exact_value(mixed) == total


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=5
    ),
    st.integers(0, 6),
)
@settings(max_examples=150)
def test_never_above_the_optimum(rows: list[tuple[int, int, int]], spare: int) -> None:
    """Of all schedules, deliberate waits and releases included."""
    s, o, a = zip(*rows, strict=True)
    M = max(x + y for x, y in zip(s, o, strict=True)) + spare
    instance = Instance(s, o, M, release=a)
    assert packing_bound(instance) <= least_latency(instance)


@pytest.mark.parametrize(("prompt", "beside"), [(50, 1), (33, 2), (25, 3)])
def test_alike_and_large_it_is_the_optimum(prompt: int, beside: int) -> None:
    """As many as fit beside each other at all, group after group; prices see the tokens only."""
    M, n, o = 100, 60, 4
    instance = Instance([prompt] * n, [o] * n, M)
    assert (beside + 1) * (prompt + 1) > M >= beside * (prompt + o)
    optimum = sum(o * (i // beside + 1) for i in range(n))
    bound = packing_bound(instance)
    assert optimum - n < bound <= optimum
    assert mean_busy_time_bound(instance) < 0.9 * bound
    if beside == 1:
        assert bound == optimum


def test_small_requests_are_bounded_by_their_outputs() -> None:
    """Nothing is to be had from packing where everything is far below the budget."""
    instance = Instance([3, 4], [5, 6], 1000)
    assert packing_bound(instance) == 11


def test_chosen_by_floats_valued_in_integers() -> None:
    """Numbers beyond what floats hold exactly: the value is that of small ones, scaled."""
    scale = 2**30
    small = Instance([6, 5, 7], [1, 1, 1], 10)
    large = Instance(np.array([7, 6, 8]) * scale - 1, [1, 1, 1], 10 * scale)
    assert packing_bound(large) == packing_bound(small) == 6
