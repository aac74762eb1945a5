"""The brute force itself, against every vector of starts."""

from __future__ import annotations

import random
from itertools import product

import pytest
from brute_force import least_latency

from sortedf import Instance


@pytest.mark.parametrize("seed", range(60))
def test_the_least_of_all_vectors_of_starts(seed: int) -> None:
    """Up to three requests, equal ones and releases too: the least feasible vector of starts."""
    draw = random.Random(seed)
    n = draw.randint(1, 3)
    s = [draw.randint(1, 4) for _ in range(n)]
    o = [draw.choice([2, draw.randint(1, 5)]) for _ in range(n)]
    a = [draw.choice([0, draw.randint(0, 6)]) for _ in range(n)]
    M = max(x + y for x, y in zip(s, o, strict=True)) + draw.randint(0, 6)
    horizon = max(a) + sum(o)

    def fits(starts: tuple[int, ...]) -> bool:
        return all(
            sum(s[i] + t - p for i, p in enumerate(starts) if p < t <= p + o[i]) <= M
            for t in range(1, horizon + 1)
        )

    windows = [range(a[i], horizon - o[i] + 1) for i in range(n)]
    best = min(sum(starts) for starts in product(*windows) if fits(starts))
    instance = Instance(s, o, M, release=a)
    assert least_latency(instance) == best + sum(o) - sum(a)
