"""Figures of a served workload against what can be counted by hand; intervals over seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from small_workloads import MODEL, small

import sortedf
from sortedf.engine import EngineSettings, StepTimeModel, published, replay
from sortedf.errors import OptionError
from sortedf.serving.alone import prefill_seconds, seconds_alone
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import exact, noisy, nothing
from sortedf.serving.metrics import (
    attainment,
    figures,
    interval,
    intervals,
    measured,
    ratio_interval,
    slowdown_by_size,
)
from sortedf.serving.policies import policy
from sortedf.serving.served import Served
from sortedf.serving.workloads import Workload


def by_hand() -> Served:
    """Three requests with times that are easy to add."""
    instance = sortedf.Instance([10, 20, 30], [1, 5, 3], 1000)
    return Served(
        workload=Workload(instance, np.array([0.0, 1.0, 2.0])),
        policy="by hand",
        parameters={},
        side=policy("fcfs").side,
        settings=None,
        known=exact(instance),
        engine="replay",
        admitted=np.array([0.0, 4.0, 2.5]),
        first_token=np.array([1.0, 5.0, 4.0]),
        completion=np.array([1.0, 9.0, 12.0]),
        preemptions=np.array([0, 2, 1]),
        recomputed=np.array([0, 13, 20]),
        steps=9,
    )


def test_by_hand() -> None:
    """Every measure of three requests."""
    served = by_hand()
    times = measured(served)
    assert times["ttft"].tolist() == [1, 4, 2]
    assert times["ttlt"].tolist() == [1, 8, 10]
    assert times["tbt"].tolist() == [1, 4]
    np.testing.assert_allclose(times["seconds_per_token"], [1, 8 / 5, 10 / 3])
    found = figures(served)
    assert found["mean_ttlt"] == pytest.approx(19 / 3)
    assert found["p50_ttlt"] == 8
    assert found["p99_ttlt"] == found["p99.9_ttlt"] == 10
    assert found["throughput"] == pytest.approx(9 / 12)
    assert found["requests_per_second"] == pytest.approx(3 / 12)
    assert found["longest_wait"] == 3
    assert found["preemptions"] == 3
    assert found["recomputed_tokens"] == 33
    assert found["recomputed_share"] == pytest.approx(33 / (10 + 24 + 32))
    np.testing.assert_allclose(attainment(served, [0.5, 1, 2, 4]), [0, 1 / 3, 2 / 3, 1])
    assert attainment(served, [4.0], "tbt").tolist() == [1]
    with pytest.raises(OptionError, match="no measure"):
        attainment(served, [1.0], "joy")
    rows = slowdown_by_size(served, np.array([1.0, 2.0, 5.0]), classes=3)
    assert rows == [(11, 11, 1, 1), (25, 25, 4, 4), (33, 33, 2, 2)]


@pytest.mark.parametrize("name", [*published(), "drawn"])
def test_alone(name: str) -> None:
    """The closed form against the replay of each request by itself, all terms, one-token rests."""
    model = published().get(name) or StepTimeModel(
        fixed=1.0, token=0.5, context=0.25, prefill_work=0.125, context_squared=0.5
    )
    rng = np.random.default_rng(4)
    prompts = [*rng.integers(1, 200, 20).tolist(), 1, 33, 32, 64, 65]
    instance = sortedf.Instance(prompts, rng.integers(1, 50, 25), 10**4)
    engine = EngineSettings(
        num_gpu_blocks=10**4, max_num_batched_tokens=32, max_num_seqs=8, async_scheduling=False
    )
    found = seconds_alone(instance, engine, model)
    for index in range(len(instance)):
        expected = replay(instance.select([index]), engine, model).completion[0]
        assert found[index] == pytest.approx(expected, rel=1e-9)
        one = instance.select([index]).replace(output_tokens=[1])
        first = replay(one, engine, model).completion[0]
        assert prefill_seconds(one, engine, model)[0] == pytest.approx(first, rel=1e-9)


def test_intervals() -> None:
    """Student's t, as scipy has it in one piece; ratios seed by seed."""
    values = [3.0, 4.0, 8.0, 2.0, 5.0]
    found = interval(values)
    low, high = stats.t.interval(0.95, 4, np.mean(values), stats.sem(values))
    assert (found.mean, found.low, found.high) == pytest.approx((4.4, low, high))
    assert found.half_width == pytest.approx((high - low) / 2)
    assert math.isnan(interval([1.0]).low)
    both = intervals([{"a": 1.0, "b": 2.0}, {"a": 3.0}])
    assert list(both) == ["a"]
    assert both["a"].mean == 2
    ratio = ratio_interval([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (ratio.mean, ratio.low, ratio.high) == pytest.approx((2, 2, 2))


def test_what_was_served_says_how() -> None:
    """The engine's side, the parameters and what was known are in the line of a result."""
    workload, engine = small(0)
    text = simulate(workload, "srpt-repaired", engine, MODEL, eviction="swap").describe()
    assert text == (
        "srpt-repaired (weight 0.5); lengths known: exact; swap; waiting evicts running, "
        "hysteresis 0; victim worst; watermark 3 %; no future check"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "chance"}, "no policy is called 'chance'"),
        ({"policy": "fcfs", "gamma": 1.0}, "the policy fcfs has no gamma"),
        ({"policy": "fcfs", "victim": "first"}, "victim is 'first'"),
        ({"policy": "sjf", "displaces": True, "victim": "least"}, "least first of all victims"),
        ({"policy": "fcfs", "hysteresis": -1.0}, "hysteresis is -1.0"),
        ({"policy": "fcfs", "engine": "gpu"}, "engine is 'gpu'"),
        ({"policy": "fcfs", "engine": "steps"}, "no engine settings"),
        ({"policy": "sorted-f", "select": "luck"}, "select is 'luck'"),
    ],
)
def test_refused(options: dict[str, object], message: str) -> None:
    """Each with a line that says what is wrong."""
    workload, engine = small(0)
    with pytest.raises(OptionError, match=message):
        simulate(workload, options.pop("policy"), engine, MODEL, **options)  # type: ignore[arg-type]


def test_knowledge_that_is_missing() -> None:
    """A policy that needs more than is known says so; steps are whole."""
    workload, engine = small(0)
    with pytest.raises(OptionError, match="needs predicted outputs; what is known is nothing"):
        simulate(workload, "svf", engine, MODEL, known=nothing(workload.instance))
    with pytest.raises(OptionError, match="needs bounds on outputs; what is known is noisy"):
        simulate(workload, "a-max", engine, MODEL, known=noisy(workload.instance, 0.5))
    simulate(workload, "uniboost", engine, MODEL, known=nothing(workload.instance), guard=8)
    with pytest.raises(OptionError, match="whole steps"):
        simulate(workload, "fcfs", engine="steps")
