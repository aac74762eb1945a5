"""The kernels that select batches, against brute force, the plain program and naive twins."""

from __future__ import annotations

import os
import random
from fractions import Fraction
from itertools import combinations

import naive_batches as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.kernels.batch_fill import (
    compare_fractions,
    fill_batch,
    is_better,
    peak_tokens,
    take_cheapest,
)
from sortedf.kernels.batch_prices import choose_scale, raise_bounds, reduced_costs
from sortedf.kernels.batch_search import NOT_FOUND, TOO_MANY, search_size
from sortedf.kernels.batch_select import select_by_quantiles, select_by_swaps, select_exactly

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
WEIGHTS = np.array([1, 64, 512, 4096])

Case = tuple[list[int], list[int], int]


def draw_case(rng: random.Random, most: int) -> Case:
    """Lengths by output ascending, each fits alone; tight or ample, often with ties."""
    n = rng.randint(1, most)
    kv_tokens = rng.randint(2, rng.choice([30, 300]))
    longest, widest = rng.choice([3, 10, 300]), rng.choice([2, 8, 80])
    output = sorted(rng.randint(1, max(1, min(kv_tokens - 1, longest))) for _ in range(n))
    prompt = [rng.randint(1, min(kv_tokens - o, widest)) for o in output]
    return prompt, output, kv_tokens


def arrays(case: Case) -> tuple[np.ndarray, np.ndarray, int]:
    return np.array(case[0], np.int64), np.array(case[1], np.int64), case[2]


def exactly(case: Case) -> list[int]:
    s, o, kv_tokens = arrays(case)
    start = select_by_swaps(s, o, kv_tokens, 4, WEIGHTS)
    batch: list[int] = select_exactly(s, o, kv_tokens, start, 1 << 20).tolist()
    return batch


@given(
    st.integers(0, 2**62),
    st.integers(1, 2**62),
    st.integers(0, 2**62),
    st.integers(1, 2**62),
)
def test_fractions_are_compared_exactly(a: int, b: int, c: int, d: int) -> None:
    """The sign is that of exact fractions up to 2^62, where a product would overflow."""
    difference = Fraction(a, b) - Fraction(c, d)
    assert compare_fractions(a, b, c, d) == (difference > 0) - (difference < 0)
    assert compare_fractions(a, b, a, b) == 0


def test_better_is_less_f_then_more_requests() -> None:
    """Less F is better; of equal F the larger batch; no batch is worse than any."""
    assert is_better(8, 2, 9, 2)
    assert is_better(8, 4, 2, 2)
    assert not is_better(2, 2, 8, 4)
    assert not is_better(2, 2, 2, 2)
    assert is_better(10**9, 1, 0, 0)
    assert not is_better(0, 0, 0, 0)


@pytest.mark.skipif(not COMPILED, reason="thousands of searches take too long without the JIT")
def test_exact_batch_is_that_of_brute_force_on_thousands() -> None:
    """On 2,000 instances of up to 7 requests: feasible, of least F and then most requests."""
    rng = random.Random(1)
    for number in range(2000):
        case = draw_case(rng, 7)
        batch = exactly(case)
        assert naive.is_feasible(case[0], case[1], batch, case[2]), (number, case)
        assert naive.value(case[1], batch) == naive.best_by_force(*case), (number, case)


def test_exact_batch_is_that_of_the_plain_program() -> None:
    """On instances of up to 40 requests the batch has the F and size of the paper's program."""
    rng = random.Random(2)
    for number in range(1500 if COMPILED else 60):
        case = draw_case(rng, 40)
        batch = exactly(case)
        assert naive.is_feasible(case[0], case[1], batch, case[2]), (number, case)
        assert naive.value(case[1], batch) == naive.best_by_plain_program(*case), (number, case)


@pytest.mark.parametrize("seed", range(20))
def test_exact_batch_from_the_worst_start(seed: int) -> None:
    """From a single long request as start the search finds the same least F."""
    case = draw_case(random.Random(seed), 14)
    s, o, kv_tokens = arrays(case)
    batch = select_exactly(s, o, kv_tokens, np.array([len(o) - 1]), 1 << 20)
    assert naive.value(case[1], batch.tolist()) == naive.best_by_plain_program(*case)


def test_search_of_a_size_finds_the_least_sum_of_outputs() -> None:
    """For each size and any prices the search finds the least sum within the limit, or nothing."""
    rng = random.Random(3)
    for _ in range(200 if COMPILED else 30):
        case = draw_case(rng, 8)
        s, o, kv_tokens = arrays(case)
        n = len(o)
        first = np.concatenate(([True], o[1:] > o[:-1]))
        price = np.array([rng.choice([0, 0, 1, 3]) for _ in range(n)]) * first
        for count in range(1, n + 1):
            sums = [
                sum(case[1][i] for i in batch)
                for batch in combinations(range(n), count)
                if naive.is_feasible(case[0], case[1], batch, kv_tokens)
            ]
            for most in (int(o.sum()), min(sums, default=0), min(sums, default=0) - 1):
                found, batch, _ = search_size(s, o, kv_tokens, count, most, price, 2, 1 << 20)
                if sums and min(sums) <= most:
                    assert found == min(sums) == o[batch].sum()
                    assert len(batch) == count
                    assert naive.is_feasible(case[0], case[1], batch.tolist(), kv_tokens)
                else:
                    assert found == NOT_FOUND


def test_search_gives_up_for_memory_rather_than_answer() -> None:
    """With room for no taking at all a search that must branch says so."""
    s = np.array([5, 4, 3, 2, 1] * 8)
    o = np.arange(1, 41)
    nothing = np.zeros(40, np.int64)
    assert search_size(s, o, 60, 4, 60, nothing, 1, 0)[0] == TOO_MANY


def test_price_bounds_hold_for_every_batch() -> None:
    """Of any prices and after any ascent the bound of a size is at most each batch's outputs."""
    rng = random.Random(5)
    for _ in range(150 if COMPILED else 20):
        case = draw_case(rng, 8)
        s, o, kv_tokens = arrays(case)
        n = len(o)
        scale = choose_scale(int(o.sum()), n)
        price = np.zeros(n, np.int64)
        bounds = np.zeros(n + 1, np.int64)
        count = rng.randint(1, n)
        target = rng.randint(1, int(o.sum()))
        best = raise_bounds(s, o, kv_tokens, count, target, scale, 40, 5, price, bounds)
        cost = np.sort(reduced_costs(s, o, price, scale))
        assert best == cost[:count].sum() - kv_tokens * price.sum() == bounds[count]
        for size in range(1, n + 1):
            for batch in combinations(range(n), size):
                if naive.is_feasible(case[0], case[1], batch, kv_tokens):
                    assert bounds[size] <= scale * int(o[list(batch)].sum())


def test_price_bound_is_exact_in_ample_memory_and_refutes_too_large_sizes() -> None:
    """Without pressure the bound is the least outputs; for an infeasible size it passes any sum."""
    s = np.full(6, 10)
    o = np.arange(1, 7)
    for kv_tokens, count, expected in ((1000, 3, 6), (25, 2, 3)):
        price, bounds = np.zeros(6, np.int64), np.zeros(7, np.int64)
        scale = 1 << 20
        best = raise_bounds(s, o, kv_tokens, count, 21, scale, 500, 10, price, bounds)
        assert best == scale * expected
    best = raise_bounds(s, o, 25, 3, 21, scale, 500, 10, price, bounds)
    assert best > scale * 21


def test_fill_takes_what_the_naive_twin_takes() -> None:
    """The fill by lines and an envelope takes the requests that step-by-step checks take."""
    rng = random.Random(6)
    for number in range(3000 if COMPILED else 300):
        case = draw_case(rng, 14)
        s, o, kv_tokens = arrays(case)
        left = sorted(rng.sample(range(len(o)), rng.randint(1, len(o))))
        widest = max(rng.choice(case[0]), min(case[0][i] for i in left))
        batch = np.zeros(len(o), np.int64)
        count, total = fill_batch(s, o, np.array(left), widest, kv_tokens, batch)
        expected = naive.fill_batch(case[0], case[1], left, widest, kv_tokens)
        assert batch[:count].tolist() == expected, (number, case)
        assert total == sum(case[1][i] for i in expected)


def test_cheapest_requests_as_many_as_fit() -> None:
    """The batch of the cheapest is the best feasible beginning of the order by weighted length."""
    rng = random.Random(7)
    for _ in range(500 if COMPILED else 100):
        case = draw_case(rng, 12)
        s, o, kv_tokens = arrays(case)
        weight = rng.choice([1, 300, 4096])
        order = sorted(range(len(o)), key=lambda i: (case[1][i] * 4096 + case[0][i] * weight, i))
        beginnings = [
            order[:k]
            for k in range(1, len(o) + 1)
            if naive.is_feasible(case[0], case[1], order[:k], kv_tokens)
        ]
        best = min(beginnings, key=lambda batch: naive.value(case[1], batch))
        assert take_cheapest(s, o, weight, kv_tokens).tolist() == sorted(best)


def test_no_single_move_betters_a_batch_of_local_swaps() -> None:
    """The batch is feasible, and no exchange, insertion or removal has less F."""
    rng = random.Random(8)
    for number in range(400 if COMPILED else 40):
        case = draw_case(rng, 12)
        s, o, kv_tokens = arrays(case)
        batch = select_by_swaps(s, o, kv_tokens, 1, WEIGHTS[:1]).tolist()
        assert naive.is_feasible(case[0], case[1], batch, kv_tokens)
        assert len(set(batch)) == len(batch)
        for other in naive.neighbours(set(batch), len(o)):
            assert naive.value(case[1], sorted(other)) >= naive.value(
                case[1], batch
            ) or not naive.is_feasible(case[0], case[1], other, kv_tokens), (number, case)


def test_batch_by_quantiles_is_the_best_fill() -> None:
    """With the whole backlog as sample it is the best of the fills below each quantile."""
    rng = random.Random(9)
    for _ in range(400 if COMPILED else 40):
        case = draw_case(rng, 12)
        s, o, kv_tokens = arrays(case)
        n = len(o)
        quantiles = rng.randint(1, 5)
        fills = [
            naive.fill_batch(
                case[0],
                case[1],
                range(n),
                sorted(case[0])[-(-q * n // quantiles) - 1],
                kv_tokens,
            )
            for q in range(1, quantiles + 1)
        ]
        best = min(fills, key=lambda batch: naive.value(case[1], batch))
        batch = select_by_quantiles(s, o, np.arange(n), kv_tokens, n, quantiles)
        assert batch.tolist() == best


def test_batch_by_quantiles_takes_only_what_is_left() -> None:
    """Positions outside ``left`` are never taken, and a small sample still gives a batch."""
    rng = random.Random(10)
    for _ in range(300 if COMPILED else 40):
        case = draw_case(rng, 14)
        s, o, kv_tokens = arrays(case)
        left = np.array(sorted(rng.sample(range(len(o)), rng.randint(1, len(o)))))
        batch = select_by_quantiles(s, o, left, kv_tokens, 2, 3).tolist()
        assert batch
        assert set(batch) <= set(left.tolist())
        assert naive.is_feasible(case[0], case[1], batch, kv_tokens)


def test_peak_of_a_batch() -> None:
    """The peak over the outputs of a batch is the peak over all its steps."""
    rng = random.Random(11)
    for _ in range(300):
        case = draw_case(rng, 10)
        s, o, _ = arrays(case)
        inside = np.array([rng.random() < 0.6 for _ in o])
        peak = max(
            (
                sum(case[0][i] + t for i in np.flatnonzero(inside) if case[1][i] >= t)
                for t in range(1, int(o.max()) + 1)
            ),
            default=0,
        )
        assert peak_tokens(s, o, inside) == peak


def test_lengths_near_the_limits_do_not_overflow() -> None:
    """With 2^38 tokens a request and a budget of 2^40 the least F is still found."""
    s = np.array([2**38, 2**36, 1, 1])
    o = np.array([1, 2**20, 2**37, 2**38])
    start = select_by_swaps(s, o, 2**39, 4, WEIGHTS)
    batch = select_exactly(s, o, 2**39, start, 1 << 20).tolist()
    assert naive.value(o.tolist(), batch) == naive.best_by_plain_program(
        s.tolist(), o.tolist(), 2**39
    )
