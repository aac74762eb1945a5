"""Cutting planes: the value of the linear program, never below the prices that they start from."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from brute_bounds import random_instance, random_prices
from brute_force import least_latency

import sortedf
from sortedf import Instance, Schedule
from sortedf.errors import InfeasibleError, OptionError
from sortedf.lp import ascend, cutting_plane, price_bound, relax
from sortedf.lp.ascent import best_in_order
from sortedf.lp.bounds import planes_bound
from sortedf.lp.cutting_plane import relax_by_planes, start_costs
from sortedf.lp.distinct import distinct
from sortedf.lp.highs import LpStatus
from sortedf.solvers import MaxIterations


def test_has_the_value_of_the_linear_program() -> None:
    """On 50 small instances, from poor prices or good ones, it is that of the whole program."""
    rng = random.Random(51)
    for number in range(50):
        instance = random_instance(rng, 6, 5)
        whole = relax(instance, method="simplex")
        for iterations in (0, None):
            prices, bound = ascend(instance, iterations=iterations, horizon=whole.horizon)
            found = relax_by_planes(instance, prices=prices)
            assert found.status == LpStatus.OPTIMAL, number
            assert found.value == pytest.approx(whole.value, rel=1e-6), number
            assert bound <= found.bound <= found.value * (1 + 1e-9)
            assert float(found.bound) == pytest.approx(whole.value, rel=1e-6)
            assert found.bound == price_bound(instance, found.prices) <= least_latency(instance)


@pytest.mark.parametrize(
    ("name", "kv_tokens", "value"),
    [("mix8020-50-s0", 16492, 8476.335076), ("mix8020-200-s0", 16492, 40449.93629)],
)
def test_benchmarks(shared: Path, name: str, kv_tokens: int, value: float) -> None:
    """It has the value that the interior point method finds for the whole program."""
    path = shared / "instances" / f"{name}.csv"
    instance = sortedf.read_backlog(path, kv_tokens=kv_tokens)
    found = relax_by_planes(instance)
    assert found.status == LpStatus.OPTIMAL
    assert found.complete
    assert float(found.bound) == pytest.approx(value, rel=2e-8)
    assert found.starts is not None
    means = found.starts.means() + instance.output_tokens
    assert means.sum() == pytest.approx(value, rel=1e-6)
    bound = planes_bound(instance)
    assert float(bound.value) == pytest.approx(value, rel=2e-8)
    assert bound.prices is not None
    assert price_bound(instance, bound.prices) == bound.value


def test_rounds_only_raise_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """From few planes, each round's bound is no lower, and few rounds are valid too."""
    monkeypatch.setattr(cutting_plane, "STARTS_PER_KIND", 2)
    instance = sortedf.generate("mix", 60, seed=7, kv_tokens=16492)
    start, bound = ascend(instance, iterations=20)
    value = relax_by_planes(instance).value
    seen: list[tuple[int, Fraction | None]] = []

    def stop(iterations: int, best: int, bound: Fraction | None) -> bool:
        assert best == best_in_order(instance).total_latency(instance)
        seen.append((iterations, bound))
        return False

    found = relax_by_planes(instance, prices=start, stop=stop)
    bounds = [b for _, b in seen if b is not None]
    assert bounds[0] == bound
    assert bounds == sorted(bounds)
    rounds = [iterations for iterations, _ in seen]
    assert rounds == sorted(rounds)
    assert rounds[-1] > 3
    assert found.value == pytest.approx(value, rel=1e-6)
    two = relax_by_planes(instance, prices=start, rounds=2)
    assert two.status == LpStatus.STOPPED
    assert bound <= two.bound <= value * (1 + 1e-9)
    assert two.value >= value * (1 - 1e-6)
    assert two.starts is not None


def test_stopped_at_once_it_gives_back_its_prices() -> None:
    """Without a round the prices are those given and there is no value."""
    instance = sortedf.generate("mix", 30, seed=8, kv_tokens=16492)
    prices, bound = ascend(instance, iterations=50)
    for found in (
        relax_by_planes(instance, prices=prices, rounds=0),
        relax_by_planes(instance, prices=prices, stop=MaxIterations(0)),
    ):
        assert found.status == LpStatus.STOPPED
        assert found.prices is prices
        assert (found.bound, found.value, found.starts) == (bound, np.inf, None)


def test_any_schedule_and_prices_to_start_from() -> None:
    """A serial schedule, released requests and random prices lead to the same value."""
    instance = Instance([3, 8, 2, 4], [6, 2, 5, 1], 14, release=[0, 2, 9, 40])
    serial = Schedule([0, 6, 9, 40])
    rng = random.Random(52)
    for horizon in (20, 60):
        value = relax(instance, method="simplex", horizon=horizon).value
        for _ in range(5):
            prices = random_prices(rng, horizon)
            while prices.horizon == 0:
                prices = random_prices(rng, horizon)
            whole = relax(instance, method="simplex", horizon=prices.horizon)
            found = relax_by_planes(instance, prices=prices, start=serial)
            assert found.value == pytest.approx(whole.value, rel=1e-6)
            assert found.value <= value * (1 + 1e-6)


def test_costs_of_all_starts() -> None:
    """Each start costs its latency and what it pays for memory, step by step."""
    instance = Instance([3, 1, 7], [2, 4, 1], 20, release=[0, 3, 12])
    kinds = distinct(instance)
    per_step = np.array([0.0, 0.5, 0.25, 1.0, 0.0, 2.0])
    costs = start_costs(kinds, per_step)
    for kind in range(3):
        s, o, a = (int(column[kind]) for column in kinds[:3])
        for p in range(6):
            start = max(p, a) if p == 5 else p
            paid = sum(per_step[start + k] * (s + k) for k in range(1, o + 1) if start + k <= 5)
            right = start - a + o + paid if start >= a else np.inf
            assert costs[kind, p] == pytest.approx(right)


def test_what_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many starts are an error, and so are requests larger than the budget."""
    with pytest.raises(InfeasibleError, match="'1'"):
        relax_by_planes(Instance([1, 9], [1, 9], 10))
    monkeypatch.setattr(cutting_plane, "MOST_STARTS", 50)
    instance = Instance([5, 6], [30, 40], 46)
    with pytest.raises(OptionError, match="up to 50 starts"):
        relax_by_planes(instance)
