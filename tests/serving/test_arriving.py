"""When requests are to arrive: rates, loads, shifts, and what does not go together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sortedf
from sortedf.engine import EngineSettings, published
from sortedf.errors import OptionError
from sortedf.serving.arriving import Arriving
from sortedf.serving.requests import Requests, first_requests, most_served, rate_of
from sortedf.serving.workloads import Workload, saturated_rate


def requests(n: int = 4000) -> Requests:
    return Requests(n=n, kv_tokens=16_000, kind="mix")


@pytest.mark.parametrize("process", ["poisson", "bursty"])
def test_as_many_as_asked_for(process: str) -> None:
    """The mean rate is the one asked for, anew for each seed, and the same for the same."""
    arriving = Arriving(process=process, rate=8.0)
    one, other = requests().workloads(arriving, 8.0, (0, 1), whole=False)
    for workload in (one, other):
        assert len(workload) / workload.arrivals[-1] == pytest.approx(8.0, rel=0.15)
    assert not np.array_equal(one.arrivals, other.arrivals)
    (again,) = requests().workloads(arriving, 8.0, (1,), whole=False)
    np.testing.assert_array_equal(again.arrivals, other.arrivals)
    np.testing.assert_array_equal(again.instance.output_tokens, other.instance.output_tokens)


def test_bursts_are_burstier() -> None:
    """Counts in windows vary more than Poisson's, the more so with a higher ratio."""
    varied = []
    for arriving in (
        Arriving(process="poisson", rate=20.0),
        Arriving(process="bursty", rate=20.0, burst_ratio=20.0),
    ):
        times = arriving.times(20_000, None, 20.0, seed=0, whole=False)
        counts = np.bincount(times.astype(int))
        varied.append(counts.var() / counts.mean())
    assert varied[0] == pytest.approx(1.0, abs=0.2)
    assert varied[1] > 3


def test_a_load_is_a_share_of_the_saturated_rate() -> None:
    """On the engine by a replay, in steps by memory; a rate is taken as it is."""
    instance = requests(400).lengths(0)
    engine = EngineSettings.for_budget(16_000)
    model = published()["qwen3-8b-h100"]
    most = most_served(instance, engine, model)
    assert most == saturated_rate(instance, engine, model)
    half = Arriving(process="poisson", load=0.5)
    assert rate_of(half, 12.0) == 6.0
    assert rate_of(Arriving(process="poisson", rate=3.0), 12.0) == 3.0
    assert rate_of(Arriving(process="own"), 12.0) is None
    s, o = (np.array(x, float) for x in (instance.prompt_tokens, instance.output_tokens))
    volume = (s * o + o * (o + 1) / 2).mean()
    assert most_served(instance, None, None) == pytest.approx(16_000 / volume)
    assert most_served(requests(19).lengths(0), engine, model) is None
    with pytest.raises(OptionError, match="too few requests"):
        rate_of(half, None)


@given(st.integers(1, 60), st.floats(0.2, 5), st.integers(0, 99))
def test_a_shift_changes_what_comes_after_it(n: int, factor: float, seed: int) -> None:
    """Before it nothing changes; after it the gaps are so many times shorter; order is kept."""
    plainly = Arriving(process="poisson", rate=2.0).times(n, None, 2.0, seed=seed, whole=False)
    arriving = Arriving(process="poisson", rate=2.0, shift=factor)
    times = arriving.times(n, None, 2.0, seed=seed, whole=False)
    half = n // 2
    np.testing.assert_array_equal(times[: half + 1], plainly[: half + 1])
    np.testing.assert_allclose(np.diff(times[half:]) * factor, np.diff(plainly[half:]), rtol=1e-6)
    at = Arriving(process="poisson", rate=2.0, shift=factor, shift_at=float(plainly[half]))
    np.testing.assert_array_equal(at.times(n, None, 2.0, seed=seed, whole=False), times)
    steps = arriving.times(n, None, 2.0, seed=seed, whole=True)
    assert (steps == np.floor(times)).all()


def test_stamps_of_a_trace() -> None:
    """As they are, or with the same pattern at another rate; the first ones alone."""
    instance = sortedf.Instance([5, 6, 7], [1, 2, 3], 100)
    trace = Workload(instance, np.array([0.0, 1.0, 4.0]), "trace")
    read = Requests(n=3, kv_tokens=100, trace=trace)
    (own,) = read.workloads(Arriving(process="own"), None, (0,), whole=False)
    np.testing.assert_array_equal(own.arrivals, [0, 1, 4])
    (faster,) = read.workloads(Arriving(process="own", rate=5.0), 5.0, (0,), whole=False)
    np.testing.assert_allclose(faster.arrivals, [0, 0.1, 0.4])
    assert faster.name == "trace"
    (once,) = read.workloads(Arriving(process="at-once"), None, (0,), whole=False)
    assert not once.arrivals.any()
    assert first_requests(trace, 2).arrivals.tolist() == [0, 1]
    assert first_requests(trace, 2).instance.output_tokens.tolist() == [1, 2]
    assert first_requests(trace, 9) is trace


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"process": "pison", "rate": 1.0}, "own, poisson"),
        ({"process": "poisson"}, "need a rate or a load"),
        ({"process": "bursty"}, "need a rate or a load"),
        ({"process": "poisson", "rate": 1.0, "load": 0.9}, "leave one out"),
        ({"process": "poisson", "rate": 0.0}, "rate is 0.0"),
        ({"process": "poisson", "rate": float("nan")}, "rate is nan"),
        ({"process": "own", "load": float("inf")}, "load is inf"),
        ({"process": "at-once", "rate": 1.0}, "at once"),
        ({"process": "at-once", "shift": 2.0}, "at once"),
        ({"process": "poisson", "rate": 1.0, "burst_share": 0.1}, "only bursty"),
        ({"process": "bursty", "rate": 1.0, "burst_share": 1.0}, "within"),
        ({"process": "bursty", "rate": 1.0, "burst_ratio": 0.5}, "at least 1"),
        ({"process": "poisson", "rate": 1.0, "shift_at": 3.0}, "missing"),
        ({"process": "poisson", "rate": 1.0, "shift": 2.0, "shift_at": -3.0}, "from 0 to"),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    """Refused before anything is drawn."""
    with pytest.raises(OptionError, match=message):
        Arriving(**options)


def test_what_would_take_for_ever() -> None:
    """A million bursts in the time of the arrivals, arrivals over more than 30,000 years."""
    arriving = Arriving(process="bursty", rate=1e-6, burst_seconds=1e-6)
    with pytest.raises(OptionError, match="too many"):
        arriving.times(10, None, 1e-6, seed=0, whole=False)
    with pytest.raises(OptionError, match="higher rate"):
        Arriving(process="poisson", rate=1e-6).times(10**7, None, 1e-6, seed=0, whole=False)
