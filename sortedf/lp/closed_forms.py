"""Lower bounds on the total latency by formula: exact rationals, O(n log n)."""

from __future__ import annotations

from fractions import Fraction

from sortedf.lp.fluid import mean_times, shortest_remaining, sum_of_fractions
from sortedf.model import Instance


def output_bound(instance: Instance) -> Fraction:
    """Sum of outputs: no request completes earlier than o steps after its release [2]."""
    return Fraction(int(instance.output_tokens.sum()))


def volume_bound(instance: Instance) -> Fraction:
    """Bound by volumes, (1/M) sum_j sum_{i<=j} v_(i), volumes ascending [2].

    When the j-th request completes, the volumes of j requests have been held, at most M a step;
    these are at least the j smallest. With releases: the completions of a machine of rate M that
    serves the least volume left first, less the releases (derived for this project).
    """
    release: list[int] = instance.release.tolist()
    M = instance.kv_tokens
    total = shortest_remaining([M * a for a in release], instance.volume.tolist())
    return Fraction(total, M) - sum(release)


def mean_busy_time_bound(instance: Instance) -> Fraction:
    """Bound by mean busy times: sum_j [(P_<j + v_j / 2) / M + d_j], volumes ascending.

    P_<j is the sum of the smaller volumes. A request that completes at c is held at c - d on
    average, d_i = (1/v_i) sum_{k=1..o} (s + k)(o - k + 1/2), each of its v token-steps taken at
    the middle of its step; and the sum of these means is least when M tokens are held at every
    step, one request after the other by volume. With releases the machine that does so turns to a
    smaller one that comes, and back (:mod:`sortedf.lp.fluid`); its mean times take the place of the
    first term, and the releases are deducted. Never above the price bound's best. Derived for this
    project. O(n log n).
    """
    volume = instance.volume
    tails: dict[int, int] = {}  # numerators of 2 d_j by their denominator v_j
    for s, o, v in zip(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        volume.tolist(),
        strict=True,
    ):
        # sum (s + k)(2 (o - k) + 1) = s o^2 + sum k (2 (o - k) + 1)
        twice = s * o * o + o * (o + 1) * (2 * o + 1) // 6
        tails[v] = tails.get(v, 0) + twice
    v, a = volume.astype(object), instance.release.astype(object)
    return (
        mean_times(a, v, v, instance.kv_tokens)
        + sum_of_fractions([(x, 2 * v) for v, x in tails.items()])
        - int(instance.release.sum())
    )
