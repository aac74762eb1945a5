"""Lower bounds on the total latency by formula: exact rationals, O(n log n)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sortedf.model import Instance


def output_bound(instance: Instance) -> Fraction:
    """Sum of outputs: no request completes earlier than o steps after its release [2]."""
    return Fraction(int(instance.output_tokens.sum()))


def volume_bound(instance: Instance) -> Fraction:
    """Bound by volumes, (1/M) sum_j sum_{i<=j} v_(i), volumes ascending [2].

    When the j-th request completes, the volumes of j requests have been held, at most M a step;
    these are at least the j smallest. With releases the completions are bounded so, and the sum of
    the releases is deducted (derived for this project): still valid, weaker.
    """
    done = 0
    total = 0
    for volume in np.sort(instance.volume).tolist():
        done += volume
        total += done
    return Fraction(total, instance.kv_tokens) - int(instance.release.sum())


def mean_busy_time_bound(instance: Instance) -> Fraction:
    """Bound by mean busy times: sum_j [(P_<j + v_j / 2) / M + d_j], volumes ascending.

    P_<j is the sum of the smaller volumes. A request that completes at c is held at c - d on
    average, d_i = (1/v_i) sum_{k=1..o} (s + k)(o - k + 1/2), each of its v token-steps taken at
    the middle of its step; and the sum of v_i times this mean, over any set of requests, is least
    when M tokens are held at every step, one request after the other. By the order of volumes the
    sum of the means is least as well. Never above the price bound's best. With releases the sum of
    the releases is deducted: valid, weaker. Derived for this project.
    """
    half = 0  # 2 sum (P_<j + v_j / 2)
    done = 0
    for volume in np.sort(instance.volume).tolist():
        half += 2 * done + volume
        done += volume
    tails: dict[int, int] = {}  # numerators of 2 d_j by their denominator v_j
    for s, o, v in zip(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.volume.tolist(),
        strict=True,
    ):
        # sum (s + k)(2 (o - k) + 1) = s o^2 + sum k (2 (o - k) + 1)
        twice = s * o * o + o * (o + 1) * (2 * o + 1) // 6
        tails[v] = tails.get(v, 0) + twice
    return (
        Fraction(half, 2 * instance.kv_tokens)
        + sum_of_fractions([(x, 2 * v) for v, x in tails.items()])
        - int(instance.release.sum())
    )


def sum_of_fractions(terms: list[tuple[int, int]]) -> Fraction:
    """Sum up numerator / denominator by halves, so that few additions are on long numbers."""
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        rest = terms[-1:] if len(terms) % 2 else []
        terms = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs] + rest
    return Fraction(*terms[0])
