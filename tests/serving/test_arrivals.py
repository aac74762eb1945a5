"""Arrival processes: their rates, how they come in bursts, traces in time; loads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_workloads import MODEL

import sortedf
from sortedf.engine import EngineSettings
from sortedf.errors import OptionError
from sortedf.serving.arrivals import burst, modulated, poisson, shifted, stretched
from sortedf.serving.workloads import Workload, drawn, of_trace, reasoning, saturated_rate


def counts_in(arrivals: np.ndarray, window: float) -> np.ndarray:
    return np.bincount((arrivals / window).astype(int))[:-1]


def test_poisson() -> None:
    """The rate asked for; as many in a window vary as their mean; the same seed, the same times."""
    times = poisson(200_000, 8.0, seed=3)
    assert len(times) / times[-1] == pytest.approx(8.0, rel=0.01)
    counts = counts_in(times, 2.0)
    assert counts.var() == pytest.approx(counts.mean(), rel=0.05)
    assert (np.diff(times) >= 0).all()
    np.testing.assert_array_equal(times, poisson(200_000, 8.0, seed=3))
    assert not np.array_equal(times, poisson(200_000, 8.0, seed=4))


@pytest.mark.parametrize("ratio", [1.0, 3.0, 6.0])
def test_modulated(ratio: float) -> None:
    """The mean rate; the variance of counts that the two states' autocorrelation implies.

    In a window T: mean + 2 v tau (T - tau (1 - exp(-T / tau))), v the variance of the rate.
    """
    rate, share, tau = 10.0, 0.2, 2.0
    times = modulated(400_000, rate, ratio=ratio, share=share, correlation=tau, seed=1)
    assert len(times) / times[-1] == pytest.approx(rate, rel=0.03)
    low = rate / (1 - share + share * ratio)
    variance = share * (1 - share) * (ratio * low - low) ** 2
    for window in (0.5, 4.0, 20.0):
        counts = counts_in(times, window)
        extra = 2 * variance * tau * (window - tau * (1 - np.exp(-window / tau)))
        assert counts.var() == pytest.approx(counts.mean() + extra, rel=0.12)


def test_trace_at_a_load() -> None:
    """The pattern stays, the rate is as asked; a shift brings the rest faster."""
    stamps = [7.0, 3.0, 4.0, 11.0]
    times = stretched(stamps, 2.0)
    np.testing.assert_allclose(times, [0, 0.1875, 0.75, 1.5])
    np.testing.assert_allclose(shifted(times, at=0.5, factor=2), [0, 0.1875, 0.625, 1.0])
    assert burst(3).tolist() == [0, 0, 0]
    assert stretched([5.0, 5.0], 1.0).tolist() == [0, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: poisson(3, 0.0),
        lambda: modulated(3, 1.0, ratio=0.5),
        lambda: modulated(3, 1.0, share=1.0),
        lambda: stretched([], 1.0),
        lambda: shifted([1.0], at=0, factor=-1),
        lambda: drawn("poetry", 3, 1.0, kv_tokens=100),
        lambda: Workload(sortedf.Instance([1, 1], [1, 1], 9), np.array([2.0, 1.0])),
        lambda: Workload(sortedf.Instance([1], [1], 9), np.array([1.0, 2.0])),
    ],
)
def test_refused(make: object) -> None:
    """Rates and shares out of range, times out of order or of another number."""
    with pytest.raises(OptionError):
        make()  # type: ignore[operator]


def test_of_a_file(tmp_path: Path) -> None:
    """Stamps with their decimals, in the order of time, repeated ids left out."""
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:50.2500000,3,4\n"
        "2023-11-16 18:15:46.6800000,1,2\n"
    )
    workload = of_trace(path, kv_tokens=100)
    np.testing.assert_allclose(workload.arrivals, [0, 3.57], rtol=0, atol=1e-9)
    assert workload.instance.prompt_tokens.tolist() == [1, 3]
    assert workload.name == "trace"
    assert of_trace(path, 0.5, kv_tokens=100).arrivals.tolist() == [0, 2]


def test_azure_and_mooncake(shared: Path) -> None:
    """The traces' own rates, which sub-second stamps keep."""
    azure = of_trace(shared / "traces" / "azure_2023_conversation.csv", kv_tokens=60_000)
    assert len(azure) == 19_366
    assert azure.arrivals[-1] == pytest.approx(3501.72194, abs=1e-5)
    mooncake = of_trace(shared / "traces" / "mooncake_conversation.jsonl", kv_tokens=10**6)
    assert len(mooncake) == 12_031


def test_reasoning() -> None:
    """The median and the longest answers as said."""
    outputs = reasoning(40_000, seed=2, kv_tokens=60_000).output_tokens
    assert np.median(outputs) == pytest.approx(700, rel=0.03)
    assert outputs.max() == 12_000
    assert (outputs == 12_000).mean() < 0.01


def test_saturated_rate() -> None:
    """Equal requests on seats for four: four in so many steps of a known time."""
    backlog = sortedf.Instance([10] * 400, [20] * 400, 10**6)
    engine = EngineSettings(num_gpu_blocks=10**4, max_num_seqs=4, async_scheduling=False)
    found = saturated_rate(backlog, engine, MODEL)
    contexts = sum(range(10, 29))
    cycle = 20 * MODEL.fixed + 40 * MODEL.prefill_token
    cycle += 4 * (19 * MODEL.decode_token + contexts * MODEL.context)
    assert found == pytest.approx(4 / cycle, rel=0.01)
    with pytest.raises(OptionError, match="too few"):
        saturated_rate(sortedf.Instance([1], [1], 10**6), engine, MODEL)
