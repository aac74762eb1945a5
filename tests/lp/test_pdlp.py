"""PDLP: what it has half way is valid, and more of it is better."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sortedf
from sortedf import Instance
from sortedf.errors import InfeasibleError, OptionError
from sortedf.lp import ascend, price_bound
from sortedf.lp.ascent import best_in_order
from sortedf.lp.highs import LpStatus
from sortedf.lp.pdlp import relax_by_pdlp
from sortedf.lp.time_indexed import relax


@pytest.fixture(scope="module")
def instance() -> Instance:
    """Twelve requests of the family of [3]: about 2,000 variables."""
    return sortedf.generate("synthetic", 12, seed=0, kv_tokens=40)


def test_reaches_the_value_in_slices(instance: Instance) -> None:
    """Within its tolerance it has the value of the simplex method, and its prices prove it."""
    value = relax(instance, method="simplex").value
    found = relax_by_pdlp(instance, tolerance=1e-5)
    assert found.status == LpStatus.OPTIMAL
    assert found.value == pytest.approx(value, rel=1e-3)
    assert float(found.bound) == pytest.approx(value, rel=1e-3)
    assert found.bound <= value * (1 + 1e-9)


def test_stopped_half_way_has_a_valid_bound(instance: Instance) -> None:
    """The bound of few iterations is proved by its prices, and that of more is no lower."""
    value = relax(instance, method="simplex").value
    bounds = []
    for iterations in (1, 64, 2000):
        found = relax_by_pdlp(instance, iterations=iterations)
        assert found.status == LpStatus.STOPPED
        assert found.value == np.inf
        assert found.starts is None
        assert found.bound == price_bound(instance, found.prices) <= value * (1 + 1e-9)
        bounds.append(found.bound)
    assert int(instance.output_tokens.sum()) <= bounds[0] <= bounds[1] <= bounds[2]
    assert bounds[2] > 0.95 * value


def test_starts_from_prices(instance: Instance) -> None:
    """It is never below the prices that it starts from, of whatever horizon."""
    for horizon in (30, 60, 10_000):
        prices, bound = ascend(instance, iterations=200, horizon=horizon)
        found = relax_by_pdlp(instance, iterations=64, prices=prices)
        assert found.bound >= bound
    good, bound = ascend(instance)
    assert relax_by_pdlp(instance, iterations=64, prices=good).bound > 0.99 * float(bound)


def test_stop_is_asked_between_slices(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop sees iterations, a latency and the best bound so far, and ends it."""
    monkeypatch.setattr(sortedf.lp.pdlp, "SLICE", (50, 50))
    latency = best_in_order(instance).total_latency(instance)
    asked: list[tuple[int, Fraction | None]] = []

    def stop(iterations: int, best: int, bound: Fraction | None) -> bool:
        assert best == latency
        asked.append((iterations, bound))
        return iterations >= 150

    found = relax_by_pdlp(instance, stop=stop)
    assert found.status == LpStatus.STOPPED
    assert [iterations for iterations, _ in asked] == [0, 50, 100, 150]
    bounds = [bound for _, bound in asked if bound is not None]
    assert bounds == sorted(bounds)
    assert bounds[-1] == found.bound


def test_options_out_of_range_are_refused(instance: Instance) -> None:
    """Iterations, tolerance and horizon have least values; requests over the budget are named."""
    with pytest.raises(OptionError, match="iterations is 0"):
        relax_by_pdlp(instance, iterations=0)
    with pytest.raises(OptionError, match="tolerance is 0"):
        relax_by_pdlp(instance, tolerance=0.0)
    with pytest.raises(OptionError, match="horizon is step 0"):
        relax_by_pdlp(instance, horizon=0)
    with pytest.raises(InfeasibleError, match="'0'"):
        relax_by_pdlp(Instance([9], [9], 10))
