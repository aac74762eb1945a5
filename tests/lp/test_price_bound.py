"""Prices, and the bound that they prove: exact, and never above the optimum."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from brute_bounds import naive_bound, random_instance, random_prices
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf.lp.prices
from sortedf import Instance
from sortedf.kernels.price_ascent import cost_at
from sortedf.kernels.price_bound import exact_minima_in_python
from sortedf.lp import Prices, cost_tables, min_costs, price_bound
from sortedf.lp.distinct import distinct
from sortedf.lp.prices import exact_costs, rounded


def flat(*numerators: int, denominator: int = 1) -> Prices:
    """One piece a step."""
    steps = np.arange(1, len(numerators) + 1)
    return Prices(steps, steps, np.array(numerators), np.zeros(len(steps), int), denominator)


def test_bound_of_two_requests_by_hand() -> None:
    """Two requests (1, 1), M = 2: prices 1/2 on step 1 prove 1 + 1/2 + 1 + 1/2 x 2 - 1 = 3."""
    instance = Instance([1, 1], [1, 1], 2)
    # Each may start at 0 for 1 + 2/2 or at 1 for 2: 2 + 2 - 2/2 = 3, which is the optimum 1 + 2.
    assert price_bound(instance, flat(1, denominator=2)) == 3 == least_latency(instance)


def test_bound_equals_the_formula_on_thousands() -> None:
    """On 2,000 small instances with random prices the bound is the naive one, as a fraction."""
    rng = random.Random(11)
    for number in range(2000):
        instance = random_instance(rng, 5, 12)
        prices = random_prices(rng, rng.choice([0, 5, 40]))
        assert price_bound(instance, prices) == naive_bound(instance, prices), number


def test_bound_is_never_above_the_optimum() -> None:
    """On 600 tiny instances, whatever the prices, no schedule is below the bound."""
    rng = random.Random(12)
    for number in range(200):
        instance = random_instance(rng, 5, 3)
        optimum = least_latency(instance)
        for horizon in (1, 4, 15):
            assert price_bound(instance, random_prices(rng, horizon)) <= optimum, number


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=6),
    st.integers(0, 6),
    st.lists(st.integers(0, 40), max_size=12),
)
def test_bound_of_arbitrary_prices_by_step(
    requests: list[tuple[int, int]], slack: int, numerators: list[int]
) -> None:
    """Hypothesis finds no prices, horizon too short included, whose bound exceeds the optimum."""
    budget = max(s + o for s, o in requests) + slack
    instance = Instance([s for s, _ in requests], [o for _, o in requests], budget)
    prices = flat(*numerators, denominator=20)
    assert price_bound(instance, prices) <= least_latency(instance)


def test_a_tail_past_the_horizon_is_not_forgotten() -> None:
    """Starts whose last tokens lie past T, at no price, are minimised over too."""
    instance = Instance([1], [4], 10)
    # Price 2 on steps 1..4: waiting until 3 leaves one priced token, 3 + 4 + 2 x 2 = 11 > 4 + 4.
    prices = Prices(np.array([1]), np.array([4]), np.array([2]), np.array([0]), 1)
    assert price_bound(instance, prices) == min(4 + 2 * 14, 5 + 2 * 9, 6 + 2 * 5, 7 + 2 * 2, 8) - 80


def test_numbers_beyond_64_bits_are_exact_too() -> None:
    """Prices whose sums leave int64 go through Python integers and give the exact value."""
    rng = random.Random(14)
    for _ in range(20):
        instance = Instance([rng.randint(1, 1000), 7], [rng.randint(1, 60), 30], 2000)
        high = rng.randint(2**54, 2**56)
        prices = Prices(np.array([1]), np.array([100]), np.array([high]), np.array([-3]), 2**58)
        assert price_bound(instance, prices) == naive_bound(instance, prices)


def test_sums_that_wrap_in_between_are_exact() -> None:
    """Long steep pieces at the largest denominator: int64 modulo 2^64 equals Python integers."""
    rng = np.random.default_rng(1)
    s, o = rng.integers(1, 9000, 60), rng.integers(1, 7000, 60)
    instance = Instance(s, o, 16492, release=rng.integers(0, 2, 60) * 400_000)
    nodes = (2_000_000 * (np.arange(31) / 30) ** 2).astype(np.int64)
    at_nodes = np.sort(rng.random(31) * 60)[::-1]
    slope = np.diff(at_nodes) / np.diff(nodes)
    prices = rounded(instance, nodes, at_nodes[:-1] + slope, slope)
    assert prices.denominator > 2**20
    grid = sortedf.lp.prices.grid_of(instance, prices)
    columns = distinct(instance)[:3]
    exact = [0] * len(columns[0])
    nodes_, value, slopes, prompt, output, release = (c.tolist() for c in (*grid, *columns))
    exact_minima_in_python(
        nodes_, value, slopes, prices.denominator, prompt, output, release, exact
    )
    assert exact_costs(instance, prices)[0] == exact


def test_least_costs_in_floats_agree_with_the_exact_ones() -> None:
    """``min_costs`` sums to the bound; its starts cost what it says, and none is cheaper."""
    rng = random.Random(13)
    for _ in range(300):
        instance = random_instance(rng, 5, 9)
        prices = random_prices(rng, 30)
        found = min_costs(instance, prices)
        kinds, _ = exact_costs(instance, prices)
        exact = [kinds[kind] / prices.denominator for kind in distinct(instance).kind]
        assert found.cost == pytest.approx(exact, rel=1e-9)
        tables = cost_tables(prices)
        for i, (_, s, o, a) in enumerate(instance):
            costs = [cost_at(*tables, s, o, p) - a for p in range(a, max(prices.horizon, a) + 1)]
            near = [a + k for k, cost in enumerate(costs) if cost <= found.cost[i] * (1 + 1e-9)]
            assert min(costs) == pytest.approx(found.cost[i], rel=1e-9)
            assert found.earliest[i] == near[0]
            assert found.latest[i] == near[-1]


def test_prices_by_step_and_in_all() -> None:
    """Gaps cost nothing; the sum of all steps is exact."""
    prices = Prices(np.array([2, 6]), np.array([4, 6]), np.array([9, 5]), np.array([-3, 7]), 6)
    assert prices.per_step().tolist() == [0, 0, 1.5, 1.0, 0.5, 0, 5 / 6]
    assert prices.at(np.arange(8)).tolist() == [0, 0, 1.5, 1.0, 0.5, 0, 5 / 6, 0]
    assert prices.total() == Fraction(9 + 6 + 3 + 5, 6)
    assert prices.horizon == 6
    assert flat().horizon == 0
    assert flat().per_step().tolist() == [0.0]
    assert flat().at(np.array([0, 1, 10**12])).tolist() == [0.0] * 3
    assert price_bound(Instance([3, 1], [2, 5], 9), flat()) == 7


@pytest.mark.parametrize(
    ("first", "last", "numerator", "slope", "denominator", "fault"),
    [
        ([1], [2], [1], [-2], 1, "negative"),
        ([1], [2], [-1], [2], 1, "negative"),
        ([0], [2], [1], [0], 1, "after those of step 0"),
        ([3], [2], [1], [0], 1, "steps 3..2"),
        ([1, 3], [3, 4], [1, 1], [0, 0], 1, "after those of step 3"),
        ([1], [2], [1], [0], 0, "denominator"),
        ([1], [2], [1], [0, 0], 1, "shapes"),
        ([1], [3], [1], [2**61], 1, "2\\^62"),
    ],
)
def test_prices_that_are_none(
    first: list[int],
    last: list[int],
    numerator: list[int],
    slope: list[int],
    denominator: int,
    fault: str,
) -> None:
    """Negative prices, overlapping pieces and the like are refused, and the fault is named."""
    with pytest.raises(ValueError, match=fault):
        Prices(np.array(first), np.array(last), np.array(numerator), np.array(slope), denominator)


def test_rounding_keeps_prices_non_negative_and_near() -> None:
    """Rounded prices differ from the floats by less than a slope's rounding over its piece."""
    rng = np.random.default_rng(2)
    instance = Instance([5], [7], 40)
    for _ in range(200):
        nodes = np.append(0, np.unique(rng.integers(1, 400, 8)))
        at_nodes = np.maximum(rng.normal(size=len(nodes)), 0)
        slope = np.diff(at_nodes) / np.diff(nodes)
        prices = rounded(instance, nodes, at_nodes[:-1] + slope, slope)
        expected = np.interp(np.arange(nodes[-1] + 1), nodes, at_nodes)
        assert prices.per_step()[1:] == pytest.approx(expected[1:], abs=400 / prices.denominator)


def test_denominators_that_no_float_holds() -> None:
    """Prices over 2**1100 are next to nothing as floats, and exact in the bound."""
    instance = Instance([3, 2], [2, 4], 9)
    first, last = np.array([1]), np.array([20])
    prices = Prices(first, last, np.array([2**60]), np.array([0]), 2**1100)
    assert 5.9 < price_bound(instance, prices) < 6
    assert prices.per_step().max() == 0.0
    assert min_costs(instance, prices).cost.tolist() == [2.0, 4.0]
