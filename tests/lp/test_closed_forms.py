"""Closed-form bounds: exact, and never above the optimum."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from brute_bounds import random_instance
from brute_force import least_latency

from sortedf import Instance
from sortedf.lp import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.bounds import CLOSED_FORMS


def test_values_by_hand() -> None:
    """Requests (1, 2) and (2, 1), volumes 5 and 3, M = 4."""
    instance = Instance([1, 2], [2, 1], 4)
    assert output_bound(instance) == 3
    assert volume_bound(instance) == Fraction(3 + 8, 4)
    # d = (2 x 1.5 + 3 x 0.5) / 5 and 1/2; means (3/2) / 4 and (3 + 5/2) / 4.
    tails = Fraction(9, 10) + Fraction(1, 2)
    assert mean_busy_time_bound(instance) == Fraction(3, 8) + Fraction(11, 8) + tails


def test_mean_busy_time_bound_equals_its_formula() -> None:
    """On random instances, equal volumes included, the sum is that of the formula term by term."""
    rng = random.Random(21)
    for _ in range(200):
        instance = random_instance(rng, 9, 12)
        done = 0
        total = Fraction(-int(instance.release.sum()))
        for volume in sorted(instance.volume.tolist()):
            total += Fraction(2 * done + volume, 2 * instance.kv_tokens)
            done += volume
        for _, s, o, _ in instance:
            volume = s * o + o * (o + 1) // 2
            late = sum((s + k) * (2 * (o - k) + 1) for k in range(1, o + 1))
            total += Fraction(late, 2 * volume)
        assert mean_busy_time_bound(instance) == total


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_no_schedule_is_below(name: str) -> None:
    """On 400 tiny instances, with releases and without, the bound is at most the optimum."""
    rng = random.Random(22)
    for number in range(400):
        instance = random_instance(rng, 5, 3)
        assert CLOSED_FORMS[name](instance) <= least_latency(instance), number


def test_one_request_alone_is_bounded_exactly_by_its_output() -> None:
    """A single request completes after o steps; the volume forms stay below that."""
    instance = Instance([3], [4], 7)
    assert output_bound(instance) == 4
    assert volume_bound(instance) == Fraction(22, 7)
    assert mean_busy_time_bound(instance) < 4
