"""Naive twins of the price kernels: every step, every token, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence


def naive_prices(nodes: Sequence[int], value: Sequence[int], slope: Sequence[int]) -> list[int]:
    """Price numerator of every step up to the last node, by step; entry 0 is no step."""
    prices = [0]
    for j, first in enumerate(value):
        prices += [first + slope[j] * u for u in range(nodes[j + 1] - nodes[j])]
    return prices


def naive_costs(
    prices: Sequence[int], denominator: int, horizon: int, request: tuple[int, int, int]
) -> dict[int, int]:
    """Cost of every start from the release to the horizon, times the denominator."""
    s, o, a = request
    return {
        p: denominator * (p - a + o) + sum(prices[p + k] * (s + k) for k in range(1, o + 1))
        for p in range(a, max(horizon, a) + 1)
    }


def naive_loads(
    nodes: Sequence[int], requests: Sequence[tuple[int, int, int]], weight: Sequence[float]
) -> tuple[list[float], list[float]]:
    """Tokens held on each piece before the last, and the same weighed by the step in the piece.

    A request is (s, o, start).
    """
    load = [0.0] * (len(nodes) - 1)
    moment = [0.0] * (len(nodes) - 1)
    for j in range(len(nodes) - 2):
        for t in range(nodes[j] + 1, nodes[j + 1] + 1):
            for (s, o, p), w in zip(requests, weight, strict=True):
                if p < t <= p + o:
                    load[j] += w * (s + t - p)
                    moment[j] += w * (s + t - p) * (t - nodes[j] - 1)
    return load, moment
