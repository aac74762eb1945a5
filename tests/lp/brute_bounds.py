"""Naive twins for the bounds: exact fractions, every start."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np

from sortedf import Instance
from sortedf.lp import Prices


def naive_bound(instance: Instance, prices: Prices) -> Fraction:
    """Price bound by its formula: each start, each step, in fractions."""
    by_step = {
        t: Fraction(numerator + slope * (t - first), prices.denominator)
        for first, last, numerator, slope in prices.pieces()
        for t in range(first, last + 1)
    }
    horizon = max(by_step, default=0)
    total = -instance.kv_tokens * sum(by_step.values(), Fraction(0))
    for _, s, o, a in instance:
        total += min(
            p - a + o + sum(by_step.get(p + k, Fraction(0)) * (s + k) for k in range(1, o + 1))
            for p in range(a, max(horizon, a) + 1)
        )
    return total


def random_instance(rng: random.Random, most: int, longest: int) -> Instance:
    """Draw a few small requests, often alike, sometimes released later."""
    n = rng.randint(1, most)
    output = [rng.randint(1, longest) for _ in range(n)]
    prompt = [rng.randint(1, rng.choice([2, 9])) for _ in range(n)]
    tightest = max(s + o for s, o in zip(prompt, output, strict=True))
    budget = tightest + rng.choice([0, 1, rng.randint(0, 20)])
    last = rng.choice([0, 0, 6])
    return Instance(prompt, output, budget, release=[rng.randint(0, last) for _ in range(n)])


def random_prices(rng: random.Random, horizon: int) -> Prices:
    """Draw pieces with gaps, free, flat, falling or rising, some prices absurdly high."""
    denominator = rng.choice([1, 3, 1000, 2**30, 2**50])
    pieces = []
    step = 0
    while step < horizon and rng.random() < 0.9:
        first = step + 1 + rng.choice([0, 0, 0, 1, 2])
        last = first + rng.choice([0, 1, rng.randint(0, 12)])
        high = rng.choice([0, denominator // 10, denominator // 2, 3 * denominator])
        begin, end = rng.randint(0, high), rng.randint(0, high)
        slope = 0 if rng.random() < 0.3 else (end - begin) // max(last - first, 1)
        if begin + slope * (last - first) < 0:
            slope = 0
        pieces.append((first, last, begin, slope))
        step = last
    table = np.array(pieces, np.int64).reshape(-1, 4)
    return Prices(*table.T, denominator=denominator)  # type: ignore[misc]
