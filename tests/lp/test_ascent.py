"""The price ascent: good on the benchmarks, reproducible, valid whatever it is told."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from brute_bounds import naive_bound, random_instance
from brute_force import least_latency

import sortedf
import sortedf.lp.ascent
from sortedf import Instance, Schedule
from sortedf.errors import InfeasibleError, OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp import Prices, ascend, lower_bound, price_bound
from sortedf.lp.adam import adam
from sortedf.lp.ascent import (
    best_in_order,
    fluid_prices,
    quadratic_nodes,
    unfinished_prices,
)
from sortedf.lp.bounds import CLOSED_FORMS
from sortedf.lp.dual import Decrements, Dual, groups_of
from sortedf.lp.prices import beyond

SHARE = {
    # Least share of `lower_bound` in known.csv that the default ascent must reach.
    ("mix8020-50-s0", 16492): 0.9997,
    ("mix8020-200-s0", 16492): 0.9998,
    ("mix8020-500-s0", 16492): 0.9998,
    ("mix8020-2000-s0", 16492): 0.9999,
    ("mix8020-2000-s0", 100000): 0.9999,
    ("mix8020-10000-s0", 16492): 0.9999,
    ("azure-1000-s0", 100000): 0.9997,
    ("azure-5000-s0", 100000): 0.9998,
}


def columns(prices: Prices) -> tuple[list[int], ...]:
    return tuple(c.tolist() for c in (prices.first, prices.last, prices.numerator, prices.slope))


@pytest.fixture(scope="module")
def mix() -> Instance:
    """6,000 requests of the mix: more than the ascent looks at."""
    return sortedf.generate("mix", 6000, seed=5, kv_tokens=16492)


@pytest.mark.parametrize(("name", "kv_tokens"), SHARE)
def test_benchmarks(shared: Path, name: str, kv_tokens: int) -> None:
    """The default reaches the bound known from a cutting plane, and stays below the best TEL."""
    for row in (shared / "instances" / "known.csv").read_text().split()[1:]:
        instance_name, budget, best, bound = row.split(",")
        if (instance_name, int(budget)) == (name, kv_tokens):
            break
    path = shared / "instances" / f"{name}.csv"
    instance = sortedf.read_backlog(path, kv_tokens=kv_tokens)
    found = lower_bound(instance)
    assert SHARE[name, kv_tokens] * int(bound) <= found.value <= int(best)
    assert found.kind == "prices"
    assert found.prices is not None
    assert price_bound(instance, found.prices) == found.value


def test_never_above_the_optimum_and_never_below_the_closed_forms() -> None:
    """On 120 tiny instances: closed forms <= bound <= optimum, the bound as the formula has it."""
    rng = random.Random(31)
    for number in range(120):
        instance = random_instance(rng, 5, 3)
        prices, value = ascend(instance, iterations=150)
        assert value == naive_bound(instance, prices), number
        found = lower_bound(instance, iterations=150)
        assert found.value == max(value, *(form(instance) for form in CLOSED_FORMS.values()))
        assert found.value <= least_latency(instance), number
        assert (found.prices is None) == (found.kind != "prices")


def test_same_arguments_same_prices(mix: Instance) -> None:
    """Twice the same prices for the same seed, sampled or not; another seed, another sample."""
    small = mix.select(np.arange(150))
    for instance, seed in ((small, 0), (mix, 0), (mix, 7)):
        (one, bound), (two, again) = (ascend(instance, iterations=130, seed=seed) for _ in range(2))
        assert bound == again
        assert columns(one) == columns(two)
        assert one.denominator == two.denominator
    assert columns(one) != columns(ascend(mix, iterations=130, seed=0)[0])


def test_more_iterations_give_better_prices() -> None:
    """The bound of an instance of the mix rises with the iterations, from a good start."""
    instance = sortedf.generate("mix", 120, seed=2, kv_tokens=16492)
    values = [ascend(instance, iterations=count)[1] for count in (0, 100, 400, 1500)]
    assert values[0] <= values[1] < values[2] < values[3]
    assert values[0] > 0.9 * float(values[-1])
    assert values[-1] <= best_in_order(instance).total_latency(instance)


def test_sample_is_spread_and_weighted(mix: Instance) -> None:
    """A sample counts n requests in all, from all volumes; equal requests are one group."""
    groups = groups_of(mix, 100, seed=0)
    assert groups.sampled
    assert len(groups.weight) == 100
    assert groups.weight.sum() == pytest.approx(6000)
    volume = groups.prompt_tokens * groups.output_tokens
    volume += groups.output_tokens * (groups.output_tokens + 1) // 2
    assert volume @ groups.weight == pytest.approx(float(mix.volume.sum()), rel=0.1)
    alike = Instance([3, 3, 2, 3], [5, 5, 5, 5], 99, release=[0, 0, 0, 1])
    every = groups_of(alike, 100, seed=3)
    assert not every.sampled
    assert [c.tolist() for c in every[:4]] == [[2, 3, 3], [5, 5, 5], [0, 0, 1], [1, 2, 1]]


def test_equal_requests_in_groups_prove_the_same_bound() -> None:
    """The dual function of grouped requests is that of the single ones."""
    instance = Instance([3, 3, 2, 3] * 5, [5, 5, 5, 9] * 5, 40)
    nodes = quadratic_nodes(60, 12)
    groups = groups_of(instance, 100, 0)
    single = groups._replace(
        prompt_tokens=instance.prompt_tokens,
        output_tokens=instance.output_tokens,
        release=instance.release,
        weight=np.ones(20),
    )
    prices = np.linspace(0.9, 0.0, len(nodes))
    reach = beyond(instance, 60)
    grouped, gradient = Dual(groups, 40, nodes, reach)(prices)
    value, by_node = Dual(single, 40, nodes, reach)(prices)
    assert grouped == pytest.approx(value)
    assert gradient == pytest.approx(by_node)


@pytest.mark.parametrize("falling", [False, True])
def test_supergradient(falling: bool) -> None:
    """The dual function lies below each of its supergradients (it is concave)."""
    instance = sortedf.generate("mix", 40, seed=1, kv_tokens=16492)
    nodes = quadratic_nodes(900, 30)
    dual = Dual(groups_of(instance, 100, 0), 16492, nodes, beyond(instance, 900))
    function = Decrements(dual) if falling else dual
    rng = np.random.default_rng(3)
    points = [rng.random(len(nodes)) * 0.003 for _ in range(25)]
    for x in points:
        value, gradient = function(x)
        for y in points:
            assert function(y)[0] <= value + np.sum(gradient * (y - x)) + 1e-6 * abs(value)


def test_falls_are_the_prices_in_another_form() -> None:
    """Prices at nodes that do not rise come back from their falls, the last one included."""
    at_nodes = np.array([7.0, 7.0, 4.5, 2.0])
    assert Decrements.of(at_nodes).tolist() == [0.0, 2.5, 2.5, 2.0]
    assert Decrements.at_nodes(Decrements.of(at_nodes)).tolist() == at_nodes.tolist()


def test_dual_in_floats_is_the_exact_bound() -> None:
    """Prices at nodes, rounded to integers, prove what the float function says of them."""
    instance = sortedf.generate("mix", 60, seed=4, kv_tokens=16492)
    nodes = quadratic_nodes(1500, 40)
    dual = Dual(groups_of(instance, 100, 0), 16492, nodes, beyond(instance, 1500))
    at_nodes = 0.004 * (1 - nodes / 1500)
    value, _ = dual(at_nodes)
    exact = price_bound(
        instance, sortedf.lp.prices.rounded(instance, nodes, *dual.pieces(at_nodes))
    )
    assert value == pytest.approx(float(exact), rel=1e-9)


def test_stop_ends_the_ascent_with_valid_prices() -> None:
    """A stop is asked with iterations and the start's latency, and ends both stages."""
    instance = sortedf.generate("mix", 80, seed=3, kv_tokens=16492)
    latency = best_in_order(instance).total_latency(instance)
    asked: list[int] = []

    def stop(iterations: int, best: int, bound: Fraction | None) -> bool:
        assert best == latency
        assert bound is None
        asked.append(iterations)
        return iterations >= 10

    prices, value = ascend(instance, stop=stop)
    assert asked == list(range(1, len(asked) + 1))
    assert len(asked) < 20
    assert price_bound(instance, prices) == value <= latency
    assert value > 0.9 * float(ascend(instance)[1])


def test_start_and_horizon() -> None:
    """Any schedule and any horizon give a valid bound; T is the horizon, or the makespan."""
    instance = sortedf.generate("mix", 30, seed=6, kv_tokens=16492)
    serial = Schedule(np.cumsum(instance.output_tokens) - instance.output_tokens)
    best = best_in_order(instance).total_latency(instance)
    prices, value = ascend(instance, iterations=200, start=serial)
    assert value == price_bound(instance, prices) <= best
    assert prices.horizon == serial.makespan(instance)
    for horizon in (1, 40, 9000):
        prices, value = ascend(instance, iterations=200, horizon=horizon)
        assert value == price_bound(instance, prices) <= best
        assert prices.horizon == horizon


def test_ample_memory_is_bounded_by_the_outputs() -> None:
    """Where all run at once the bound is the optimum: the sum of outputs."""
    instance = Instance([4, 9, 1], [7, 2, 5], 2**61)
    found = lower_bound(instance)
    assert found.value == 14
    assert ascend(instance)[1] <= 14


def test_what_cannot_be_bounded_is_refused() -> None:
    """Requests larger than the budget are named; options out of range are refused."""
    with pytest.raises(InfeasibleError, match="'1'"):
        ascend(Instance([1, 9], [1, 9], 10))
    with pytest.raises(OptionError, match="iterations is -1"):
        ascend(Instance([1], [1], 4), iterations=-1)
    with pytest.raises(OptionError, match="horizon is step 0"):
        ascend(Instance([1], [1], 4), horizon=0)


def test_adam_climbs_a_kinked_hill() -> None:
    """On -|x - 3| - |y| - 2 |y - 1| it finds (3, 1) from afar, and stays non-negative."""

    def hill(x: FloatArray) -> tuple[float, FloatArray]:
        assert (x >= 0).all()
        value = -abs(x[0] - 3) - x[1] - 2 * abs(x[1] - 1)
        return float(value), np.array([np.sign(3 - x[0]), -1 - 2 * np.sign(x[1] - 1)])

    best = adam(hill, np.array([0.0, 5.0]), 0.2, 300, lambda: False)
    assert best == pytest.approx([3, 1], abs=0.02)


def test_adam_tries_the_mean_of_its_second_half() -> None:
    """The last two points evaluated are the end and the mean; the best of all is returned."""
    seen: list[FloatArray] = []

    def hill(x: FloatArray) -> tuple[float, FloatArray]:
        seen.append(x)
        return -float(abs(x[0] - 0.3)), np.sign(0.3 - x)

    best = adam(hill, np.array([0.0]), 0.5, 20, lambda: False)
    assert len(seen) == 22
    assert seen[21] == pytest.approx(np.mean(seen[11:21], axis=0))
    assert abs(best[0] - 0.3) == min(abs(x[0] - 0.3) for x in seen)


def test_first_prices() -> None:
    """Shares of M: the unfinished of the fluid schedule, and the most released and unfinished."""
    instance = Instance([1, 1, 3], [1, 1, 3], 4, release=[0, 5, 5])
    nodes = np.array([0, 1, 4, 5, 6, 8])
    # Volumes 2, 2 and 15 are worked off by steps 1/2, 1 and 4.75.
    assert fluid_prices(instance, nodes).tolist() == [0.75, 0.25, 0.25, 0, 0, 0]
    schedule = Schedule([0, 5, 5])
    assert unfinished_prices(instance, schedule, nodes).tolist() == [0.5, 0.5, 0.5, 0.5, 0.25, 0]


def test_quadratic_nodes() -> None:
    """Nodes are distinct, from 0 to T, one a step where there are as many pieces as steps."""
    assert quadratic_nodes(4, 9).tolist() == [0, 1, 2, 3, 4]
    assert quadratic_nodes(100, 5).tolist() == [0, 4, 16, 36, 64, 100]
    assert quadratic_nodes(10, 9).tolist() == [0, 1, 2, 3, 4, 6, 8, 10]
