"""Annealing of small backlogs: its decoder against a naive one, and its books."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sortedf.kernels.exact_anneal import anneal, decode
from sortedf.verify import verify

Lengths = tuple[list[int], list[int], list[int], int]


def draw(seed: int) -> Lengths:
    """Draw lengths, releases and a budget that a few requests fill."""
    rng = random.Random(seed)
    n = rng.randint(1, 12)
    s = [rng.randint(1, rng.choice([3, 40])) for _ in range(n)]
    o = [rng.randint(1, rng.choice([3, 60])) for _ in range(n)]
    a = [rng.choice([0, rng.randint(0, 50)]) for _ in range(n)]
    return s, o, a, max(x + y for x, y in zip(s, o, strict=True)) + rng.randint(0, 60)


def naive_starts(lengths: Lengths, sequence: list[int]) -> list[int]:
    """Try one step after the other for each request of the sequence."""
    s, o, a, M = lengths
    starts = [0] * len(s)
    usage: dict[int, int] = {}
    step = 0
    for i in sequence:
        step = max(step, a[i])
        while any(usage.get(step + k, 0) + s[i] + k > M for k in range(1, o[i] + 1)):
            step += 1
        for k in range(1, o[i] + 1):
            usage[step + k] = usage.get(step + k, 0) + s[i] + k
        starts[i] = step
    return starts


@pytest.mark.parametrize("seed", range(60))
def test_decoding_is_the_naive_one(seed: int) -> None:
    """Each request starts at the first step at which it fits; memory is booked step by step."""
    lengths = draw(seed)
    s, o, a, M = lengths
    n = len(s)
    sequence = random.Random(seed).sample(range(n), n)
    usage = np.zeros(max(a) + sum(o) + max(a) + 2, np.int64)
    starts = np.zeros(n, np.int64)
    prompt, output, release = np.array(s), np.array(o), np.array(a)
    total = decode(prompt, output, release, M, np.array(sequence), 0, starts, usage)
    assert starts.tolist() == naive_starts(lengths, sequence)
    assert total == starts.sum()
    assert usage.sum() == sum(x * y + y * (y + 1) // 2 for x, y in zip(s, o, strict=True))
    again = starts.copy()
    half = n // 2
    for i in sequence[half:]:
        usage[again[i] + 1 : again[i] + o[i] + 1] -= s[i] + np.arange(1, o[i] + 1)
    assert decode(prompt, output, release, M, np.array(sequence), half, again, usage) == total


@pytest.mark.filterwarnings("ignore:overflow encountered")  # of the random words, not compiled
@pytest.mark.parametrize("seed", range(20))
def test_annealing_leaves_no_memory_booked(seed: int) -> None:
    """Afterwards nothing is held, and the best is a feasible schedule of the sum returned."""
    s, o, a, M = draw(seed)
    n = len(s)
    usage = np.zeros(2 * max(a) + sum(o) + 2, np.int64)
    best = np.zeros(n, np.int64)
    state = np.array([seed + 1], np.uint64)
    prompt, output, release = np.array(s), np.array(o), np.array(a)
    sequence = np.arange(n)
    first = decode(prompt, output, release, M, sequence, 0, best, usage)
    usage[:] = 0
    least = anneal(prompt, output, release, M, sequence, usage, 200, 20.0, 0.1, state, best, first)
    assert not usage.any()
    assert sorted(sequence.tolist()) == list(range(n))
    assert best.sum() == least <= first
    assert verify(s, o, a, M, best.tolist()).ok
