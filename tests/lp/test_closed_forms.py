"""Closed-form bounds: exact, and never above the optimum."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
from brute_bounds import random_instance
from brute_force import least_latency
from scipy.optimize import linear_sum_assignment

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


def one_by_one(instance: Instance, by_what_is_left: bool) -> tuple[Fraction, int]:
    """Work off the volumes, M a step, one token-step after the other, the least request first.

    Returns the sum of the mean times (each token-step at its middle) in steps, and the sum of the
    times at which the volumes are done, times M.
    """
    volume = instance.volume.tolist()
    left = dict(enumerate(volume))
    now = total = 0
    means = Fraction(0)
    while left:
        there = [i for i in left if instance.release[i] * instance.kv_tokens <= now]
        if there:
            i = min(there, key=lambda i: (left[i] if by_what_is_left else volume[i], i))
            means += Fraction(2 * now + 1, 2 * volume[i])
            left[i] -= 1
            if not left[i]:
                del left[i]
                total += now + 1
        now += 1
    return means / instance.kv_tokens, total


def test_bounds_equal_their_formulas() -> None:
    """On random instances, equal volumes and releases included, term by term."""
    rng = random.Random(21)
    for _ in range(100):
        instance = random_instance(rng, 9, 6)
        released = int(instance.release.sum())
        _, total = one_by_one(instance, by_what_is_left=True)
        assert volume_bound(instance) == Fraction(total, instance.kv_tokens) - released
        means, _ = one_by_one(instance, by_what_is_left=False)
        for _, s, o, _ in instance:
            volume = s * o + o * (o + 1) // 2
            late = sum((s + k) * (2 * (o - k) + 1) for k in range(1, o + 1))
            means += Fraction(late, 2 * volume)
        assert mean_busy_time_bound(instance) == means - released


def test_no_other_way_to_share_the_machine_has_smaller_mean_times() -> None:
    """Against the assignment of token-steps to moments of least cost, each from its release on."""
    rng = random.Random(23)
    for _ in range(60):
        instance = random_instance(rng, 4, 4)
        M, volume = instance.kv_tokens, instance.volume.tolist()
        latest = int(instance.release.max()) * M + sum(volume)
        moments = np.arange(latest)
        rows = [
            np.where(moments >= a * M, (moments + 0.5) / v, 1e9)
            for v, a in zip(volume, instance.release.tolist(), strict=True)
            for _ in range(v)
        ]
        cost = np.array(rows)
        least = cost[linear_sum_assignment(cost)].sum() / M
        assert float(one_by_one(instance, by_what_is_left=False)[0]) == pytest.approx(least)


def test_late_releases_cost_nothing() -> None:
    """What comes long after all else is done adds what it adds alone: no shift of the others."""
    early = Instance([3, 2, 5], [4, 4, 2], 11)
    late = Instance([3, 2, 5, 6], [4, 4, 2, 1], 11, release=[0, 0, 0, 500])
    alone = Instance([6], [1], 11)
    for form in (output_bound, volume_bound, mean_busy_time_bound):
        assert form(late) == form(early) + form(alone)


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
