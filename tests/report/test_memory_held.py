"""Memory over time by class: what is stacked sums up to what is held."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_report import Starts, held_by, plans

from sortedf import Instance
from sortedf.report.memory import bin_edges, memory_held, volume_quarters


@settings(max_examples=150)
@given(plans(releases=True), st.integers(1, 40))
def test_stack_is_what_is_held_step_by_step(plan: tuple[Instance, Starts], bins: int) -> None:
    """In every bin the classes have the mean, and all together the peak, of a count by steps."""
    instance, starts = plan
    last = max(p + int(o) for p, o in zip(starts, instance.output_tokens, strict=True))
    edges = bin_edges(last, bins)
    classes = volume_quarters(instance)
    held = memory_held(instance, np.array(starts), classes.of, edges)
    for b, (first, end) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        by_step = [held_by(instance, starts, step) for step in range(first + 1, end + 1)]
        assert held.peak[b] == max(sum(tokens.values()) for tokens in by_step)
        for k in range(len(classes.most)):
            total = sum(v for tokens in by_step for i, v in tokens.items() if classes.of[i] == k)
            assert held.mean[k, b] == pytest.approx(total / (end - first), rel=1e-12)


@settings(max_examples=100)
@given(plans())
def test_classes_are_cut_by_volume(plan: tuple[Instance, Starts]) -> None:
    """Classes rise in volume, none is empty, and only one request more would pass each quarter."""
    instance, _ = plan
    classes = volume_quarters(instance)
    assert classes.requests == [int((classes.of == k).sum()) for k in range(len(classes.most))]
    assert min(classes.requests) > 0
    volumes = instance.volume.tolist()
    for k, most in enumerate(classes.most):
        assert max(v for v, c in zip(volumes, classes.of, strict=True) if c == k) == most
        if k:
            assert (
                min(v for v, c in zip(volumes, classes.of, strict=True) if c == k)
                > (classes.most[k - 1])
            )
    for share in (0.25, 0.5, 0.75):
        edge = next(
            v for v in sorted(volumes) if sum(w for w in volumes if w <= v) >= share * sum(volumes)
        )
        assert edge in classes.most


def test_classes_by_hand() -> None:
    """Equal requests stay together; volumes 101, 102, 103, 104 reach the quarters at 2, 3 and 4."""
    assert volume_quarters(Instance([3] * 4, [2] * 4, 9)).requests == [4]
    # Quarters of 410: 102.5 is reached by the second (203), 205 by the third (306), 307.5 after.
    assert volume_quarters(Instance([100, 101, 102, 103], [1] * 4, 999)).requests == [2, 1, 1]


def test_edges_are_even_and_whole() -> None:
    """Bins cover all steps, differ by one step at most, and are never empty."""
    for last in (1, 2, 7, 360, 361, 10**12):
        edges = bin_edges(last, 360)
        widths = np.diff(edges)
        assert (edges[0], edges[-1], len(widths)) == (0, last, min(last, 360))
        assert widths.min() >= 1
        assert widths.max() - widths.min() <= 1


def test_a_horizon_of_years_is_no_matter() -> None:
    """Steps are never gone through one by one: 10^9 of them take no time."""
    instance = Instance([1, 1], [10**9, 10**9], 10**12)
    held = memory_held(instance, np.array([0, 0]), np.array([0, 0]), bin_edges(10**9, 4))
    assert held.peak.tolist() == [2 * (1 + k * 10**9 // 4) for k in (1, 2, 3, 4)]
