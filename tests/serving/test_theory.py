"""The theory of online policies: formulas, where it is silent, and what it says of schedules."""

from __future__ import annotations

import numpy as np
import pytest

from sortedf.errors import OptionError
from sortedf.lp import lower_bound
from sortedf.orders.one_bit import proxy_volume
from sortedf.serving import simulate
from sortedf.serving.theory import GeometricLoad, competitive_ratio, mcsf_family, total_latency
from sortedf.serving.workloads import drawn, released
from sortedf.solvers import MaxIterations, solve
from sortedf.solvers.in_order import schedule_by


@pytest.mark.parametrize(("mean_output", "threshold"), [(10.0, 10), (10.0, 1), (3.0, 4), (40, 25)])
def test_means_are_those_of_the_distribution(mean_output: float, threshold: int) -> None:
    """Mean volume and proxy volume, summed over the geometric law; the printed gap is smaller."""
    load = GeometricLoad(0.01, 6, mean_output, 5000)
    o = np.arange(1, 4000)
    chance = (1 - 1 / mean_output) ** (o - 1.0) / mean_output
    s = np.full(len(o), 6)
    volume = float((chance * (s * o + o * (o + 1) / 2)).sum())
    proxy = float((chance * proxy_volume(s, o, load.proxies(threshold))).sum())
    assert load.mean_volume == pytest.approx(volume)
    assert load.proxy_gap(threshold) == pytest.approx(volume - proxy)
    assert load.printed_gap(threshold) <= load.proxy_gap(threshold) * (1 + 1e-12)
    assert load.one_bit_limit(threshold, printed=False) <= load.one_bit_limit(threshold)
    assert load.one_bit_limit(threshold) < load.svf_limit()


def test_limits_by_hand() -> None:
    """With mu = 1/10, E[v] = 6 x 10 + 100; a quarter of M is 400: rho = 0.4."""
    load = GeometricLoad(1.0, 6, 10.0, 1600)
    assert load.rho == pytest.approx(0.4)
    assert load.svf_limit() == pytest.approx(1 + 4 / (0.9 * 0.6))
    q = 0.9**10
    assert load.printed_gap(10) == pytest.approx((10 * q / (1 - q)) ** 2 / 2)
    assert load.printed_gap(10) == pytest.approx(14.3, abs=0.05)
    assert load.proxy_gap(10) == pytest.approx(18.2, abs=0.05)
    assert load.one_bit_limit(10) == pytest.approx(
        1 + 4 / (0.9 * (1 - (160 - load.printed_gap(10)) / 400))
    )


def test_the_theorem_is_silent_from_a_quarter_of_the_cache_on() -> None:
    """At rho of 1 or more there is no limit; the gap of one bit moves that a little."""
    with pytest.raises(OptionError, match="rho is 1"):
        GeometricLoad(2.5, 6, 10.0, 1600).svf_limit()
    assert GeometricLoad(2.5, 6, 10.0, 1600).one_bit_limit(10) > 1
    with pytest.raises(OptionError, match=r"rho is 1\.09"):
        GeometricLoad(3.0, 6, 10.0, 1600).one_bit_limit(10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"rate": float("nan")},
        {"mean_output": 1.0},
        {"mean_prompt": 0},
    ],
)
def test_loads_that_are_none(wrong: dict[str, float]) -> None:
    """A rate, mean or budget out of its range is named."""
    good: dict[str, float] = {"rate": 1.0, "mean_prompt": 6, "mean_output": 10.0}
    with pytest.raises(OptionError, match=next(iter(wrong))):
        GeometricLoad(**(good | wrong), kv_tokens=1600)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="kv_tokens"):
        GeometricLoad(1.0, 6, 10.0, 11)
    with pytest.raises(OptionError, match="threshold"):
        GeometricLoad(1.0, 6, 10.0, 1600).proxy_gap(0)


def test_what_is_drawn_has_the_moments() -> None:
    """Whole steps at the rate, the mean volume, requests that fit; the same for the same seed."""
    load = GeometricLoad(0.5, 6, 10.0, 1600)
    workload = load.draw(4000, seed=2)
    assert workload.arrivals[-1] == pytest.approx(4000 / 0.5, rel=0.05)
    assert float(workload.instance.volume.mean()) == pytest.approx(load.mean_volume, rel=0.1)
    assert not len(workload.instance.oversized)
    assert released(workload) == released(load.draw(4000, seed=2))


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_svf_is_within_its_limit(rho: float) -> None:
    """Against a proved bound, so that its ratio to the optimum is smaller still."""
    rate = rho / GeometricLoad(1.0, 6, 10.0, 400).rho
    load = GeometricLoad(rate, 6, 10.0, 400)
    workload = load.draw(300, seed=1)
    instance = released(workload)
    bound = lower_bound(instance, iterations=150).value
    ratio = competitive_ratio(simulate(workload, "svf", engine="steps"), bound)
    assert 1 <= ratio <= load.svf_limit()
    one_bit = schedule_by("svf-1bit", instance, proxies=load.proxies(10))
    assert 1 <= one_bit.total_latency(instance) / bound <= load.one_bit_limit(10)


def test_no_policy_is_below_the_bound() -> None:
    """Whatever keeps requests running, or starts them again, takes at least the bound."""
    workload = drawn("pareto", 60, 0.02, kv_tokens=20_000, seed=3)
    workload = workload.arriving(np.floor(workload.arrivals))
    bound = lower_bound(released(workload), iterations=200).value
    for name in ("fcfs", "mcsf", "svf", "svf-2", "boost-volume", "sorted-f", "a-min"):
        served = simulate(workload, name, engine="steps")
        assert name == "a-min" or not served.preemptions.any()
        assert competitive_ratio(served, bound) >= 1, name


def test_mcsf_against_the_optimum_in_hindsight() -> None:
    """On small trials of the family the optimum is proved, and MC-SF is at or above it."""
    ratios = []
    for seed in range(6):
        workload = mcsf_family(seed, steps=(4, 6))
        instance = released(workload)
        found = solve(instance, solver="exact", stop=MaxIterations(20_000))
        assert found.status == "optimal"
        served = simulate(workload, "mcsf", engine="steps")
        ratios.append(total_latency(served) / found.total_latency)
    assert min(ratios) >= 1
    assert np.mean(ratios) < 1.2


def test_the_family_is_as_described() -> None:
    """Budgets, lengths and arrivals of many trials lie in their ranges, and reach their ends."""
    trials = [mcsf_family(seed) for seed in range(300)]
    budgets = {trial.instance.kv_tokens for trial in trials}
    assert min(budgets) == 30
    assert max(budgets) == 50
    for trial in trials:
        assert trial.instance.prompt_tokens.max() <= 5
        assert not len(trial.instance.oversized)
        assert trial.arrivals.max() < 60
    assert 45 < np.mean([len(trial) for trial in trials]) < 55


def test_seconds_are_no_steps() -> None:
    """Ratios are of the model in steps, whose arrivals are whole."""
    with pytest.raises(OptionError, match="whole steps"):
        released(drawn("pareto", 5, 0.02, kv_tokens=20_000))
