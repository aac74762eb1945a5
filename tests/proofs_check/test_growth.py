"""Growth: ratios of verified schedules, against targets and against derivations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortedf import Instance, OptionError, Schedule, VerificationError
from sortedf.proofs_check import growth
from sortedf.proofs_check.families import FAMILIES, Family
from sortedf.proofs_check.growth import (
    Growth,
    Point,
    best_found,
    check_families,
    check_growth,
    judge,
    measure,
)


@pytest.mark.parametrize(
    ("policy", "family", "targets", "beyond"),
    [
        ("mcsf", "large-first", {64: 2.78, 256: 5.56, 1024: 11.15}, [2048, 4096, 8192, 16384]),
        ("fcfs", "large-first", {64: 2.78, 256: 5.56, 1024: 11.15}, [2048, 4096, 8192, 16384]),
        ("size", "long-first", {256: 2.89, 1024: 3.89, 4096: 5.22}, [8192, 16384, 32768, 65536]),
    ],
)
def test_targets_are_reached(
    policy: str, family: str, targets: dict[int, float], beyond: list[int]
) -> None:
    """The ratios asked for, and above them all over four doublings beyond."""
    points = measure(policy, FAMILIES[family], [*targets, *beyond]).points
    for point in points:
        assert point.ratio >= targets.get(point.kv_tokens, 0)
    assert all(b.ratio > a.ratio for a, b in pairwise(points))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_what_is_derived_is_measured(family: Family) -> None:
    """No violation, and an exponent within 0.06 of the one derived, from 256 to 4096."""
    for policy in family.policies:
        measured = measure(policy, family, [256, 1024, 4096])
        assert judge(measured).holds
        assert measured.exponent == pytest.approx(family.exponent, abs=0.06)


def test_a_false_derivation_is_found() -> None:
    """A family that is said to be twice as bad, or to grow, is a violation with its instance."""
    tied = FAMILIES["large-first-tied"]
    proven = tied.proven
    assert proven is not None
    twice = replace(tied, proven=lambda kv_tokens: 2 * proven(kv_tokens))
    finding = check_growth("mcsf", twice, [64, 256])
    assert not finding.holds
    assert finding.violations == (tied(64), tied(256))
    flat = replace(FAMILIES["short-and-long"], backlog=lambda kv_tokens: tied(64), exponent=0.5)
    assert check_growth("mcsf", flat, [64, 256]).violations == (tied(64),)
    assert check_growth("mcsf", flat, [64, 255]).holds


@given(st.lists(st.integers(64, 3000), min_size=2, max_size=5))
@settings(max_examples=10)
def test_every_budget_is_as_derived(budgets: list[int]) -> None:
    """Not at powers of two alone."""
    for finding in check_families(budgets):
        assert finding.holds, finding


def test_a_power_is_fitted() -> None:
    """The exponent of exact powers, none for one point."""
    points = tuple(Point(4**k, 1, 2**k * 6, 2, "", None) for k in range(2, 6))
    assert Growth("mcsf", FAMILIES["large-first"], points).exponent == pytest.approx(0.5)
    assert Growth("mcsf", FAMILIES["large-first"], points[:1]).exponent is None


def test_nothing_unverified_is_divided_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """A good schedule that is none is refused, not measured."""

    def all_at_once(instance: Instance, lookahead: int = 1) -> tuple[str, Schedule]:
        return "all at once", Schedule(np.zeros(len(instance), np.int64))

    monkeypatch.setattr(growth, "shortest_of_orders", all_at_once)
    with pytest.raises(VerificationError):
        measure("mcsf", FAMILIES["large-first"], [64])


def test_improving_never_loses() -> None:
    """With a search the best is at most the best simple order."""
    instance = FAMILIES["long-first"](64)
    plain, improved = best_found(instance), best_found(instance, steps=4)
    assert improved.total_latency <= plain.total_latency
    assert improved.schedule.total_latency(instance) == improved.total_latency


def test_budgets_are_each_measured_once() -> None:
    """Sorted, without repeats; plain data has every point."""
    told: list[str] = []
    measured = measure("svf", FAMILIES["blocked-volumes"], [64, 16, 64], report=told.append)
    assert [point.kv_tokens for point in measured.points] == [16, 64]
    assert len(told) == 2
    row = measured.to_dict()
    assert [point["ratio"] for point in row["points"]] == [float(p.ratio) for p in measured.points]
    assert isinstance(measured.points[0].ratio, Fraction)
    with pytest.raises(OptionError, match="begins at"):
        measure("exact-dp", FAMILIES["short-and-long"], [8])
