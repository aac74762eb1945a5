"""Prices over time, against a sum step by step."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_report import price_by_step

from sortedf.lp import Prices
from sortedf.report.memory import bin_edges
from sortedf.report.scarcity import price_bins, price_up_to, step_of_share


@st.composite
def prices(draw: st.DrawFn) -> Prices:
    """Draw pieces with gaps, rising and falling, over a denominator."""
    rows, end = [], 0
    for _ in range(draw(st.integers(0, 6))):
        first = end + draw(st.integers(1, 5))
        end = first + draw(st.integers(0, 9))
        one, other = draw(st.integers(0, 99)), draw(st.integers(0, 99))
        steps = max(1, end - first)
        rows.append((first, end, one, (other - one) // steps if other > one else -(one // steps)))
    begins, ends, numerators, slopes = np.array(rows, np.int64).reshape(-1, 4).T
    return Prices(begins, ends, numerators, slopes, draw(st.integers(1, 9)))


@settings(max_examples=200)
@given(prices(), st.integers(1, 70), st.integers(1, 20))
def test_bins_are_means_of_steps(found: Prices, last: int, bins: int) -> None:
    """Sums and means are those of a loop over steps in fractions."""
    by_step = price_by_step(found)
    edges = bin_edges(last, bins)
    mean = price_bins(found, edges)
    for b, (first, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        values = [by_step.get(step, Fraction(0)) for step in range(first + 1, end + 1)]
        assert mean[b] == pytest.approx(float(sum(values) / len(values)), rel=1e-9, abs=1e-9)
    steps = np.arange(1, last + 1)
    total = [float(sum(v for t, v in by_step.items() if t <= step)) for step in steps.tolist()]
    assert price_up_to(found, steps).tolist() == pytest.approx(total)


@settings(max_examples=100)
@given(prices(), st.sampled_from([0.5, 0.9]))
def test_step_by_which_a_share_has_fallen(found: Prices, share: float) -> None:
    """It is the first one with so much of the sum before or at it, 0 when there is none."""
    by_step = price_by_step(found)
    total = sum(by_step.values())
    step = step_of_share(found, share)
    if not total:
        assert step == 0
        return
    before = sum(v for t, v in by_step.items() if t < step)
    assert float(before / total) < share + 1e-9
    assert float((before + by_step[step]) / total) >= share - 1e-9
