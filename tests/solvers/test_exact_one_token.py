"""The exact solver on backlogs of one-token outputs: steps as sets."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import product

import pytest
from brute_force import least_latency

from sortedf import Instance
from sortedf.model import StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers import MaxIterations, exact
from sortedf.solvers.exact import one_token
from sortedf.solvers.exact.work import Stopped, Work
from sortedf.solvers.in_order import shortest_of_orders


def draw(seed: int, n: int, most: int, kv_tokens: int) -> Instance:
    """Draw a backlog of one-token outputs."""
    rng = random.Random(seed)
    return Instance([rng.randint(1, most) for _ in range(n)], [1] * n, kv_tokens)


def search(instance: Instance, limit: int = 10**6) -> tuple[Work, StopReason | None]:
    """Run the search alone, from a simple schedule."""
    work = Work(
        instance, shortest_of_orders(instance)[1], MaxIterations(limit), lambda progress: None
    )
    try:
        one_token.by_sets(work)
    except Stopped as stopped:
        return work, stopped.reason
    return work, None


@pytest.mark.parametrize("seed", range(60))
def test_the_optimum_of_all_schedules(seed: int) -> None:
    """What is proved is the best of all schedules; without closed forms, by this search alone."""
    rng = random.Random(seed)
    M = rng.randint(4, 20)
    instance = draw(seed, rng.randint(1, 7), min(M - 1, rng.choice([3, 8, 19])), M)
    work, reason = search(instance)
    assert reason is StopReason.PROVED
    assert work.kind is BoundKind.EXHAUSTIVE
    assert work.best == work.bound == least_latency(instance)
    assert work.schedule.total_latency(instance) == work.best


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_is_below_every_optimum(seed: int) -> None:
    """The bound of a node, of the whole backlog here, is never above the best schedule."""
    rng = random.Random(seed)
    M = rng.randint(4, 30)
    instance = draw(seed, rng.randint(1, 7), M - 1, M)
    work = Work(instance, shortest_of_orders(instance)[1], MaxIterations(1), lambda progress: None)
    search_of = one_token._Search(work)
    assert search_of.least(search_of.counts) <= least_latency(instance)


def test_the_bound_by_hand() -> None:
    """Five requests of 16 tokens in all, M = 7: three steps at least, three requests in one.

    1 + 2 + 3 for one in each step, the other two in the first: 8. The steps that there are could
    be filled up to three, so more requests would go to step 2, then 3, then to new steps.
    """
    instance = Instance([1, 1, 2, 3, 4], [1] * 5, 7)
    work = Work(instance, shortest_of_orders(instance)[1], MaxIterations(1), lambda progress: None)
    assert one_token._Search(work).least((1, 1, 1, 2)) == 8
    equal = Instance([1] * 7, [1] * 7, 6)
    work = Work(equal, shortest_of_orders(equal)[1], MaxIterations(1), lambda progress: None)
    assert one_token._Search(work).least((7,)) == 3 * 1 + 3 * 2 + 1 * 3


@pytest.mark.parametrize("seed", range(30))
def test_sets_are_those_that_take_in_no_more(seed: int) -> None:
    """Each set once: what fits, and beside which none of the rest fits."""
    rng = random.Random(seed)
    M = rng.randint(4, 20)
    instance = draw(seed, rng.randint(1, 8), min(M - 1, rng.choice([2, 5, 19])), M)
    work = Work(instance, shortest_of_orders(instance)[1], MaxIterations(1), lambda progress: None)
    search_of = one_token._Search(work)
    tokens, left = search_of.tokens, search_of.counts
    expected = []
    for taken in product(*(range(count + 1) for count in left)):
        room = M - sum(w * count for w, count in zip(tokens, taken, strict=True))
        rest = [w for w, a, b in zip(tokens, left, taken, strict=True) if a > b]
        if 0 <= room < min(rest, default=M + 1):
            expected.append(taken)
    assert sorted(search_of._sets(left, M)) == sorted(expected)


def test_only_what_it_is_for() -> None:
    """Longer outputs and releases go the other ways."""
    assert one_token.has_one_token_outputs(Instance([1, 2], [1, 1], 5))
    assert not one_token.has_one_token_outputs(Instance([1, 2], [1, 2], 5))
    assert not one_token.has_one_token_outputs(Instance([1, 2], [1, 1], 5, release=[0, 1]))


@pytest.mark.parametrize("kv_tokens", [200, 4000])
def test_fifteen_requests_are_proved(kv_tokens: int) -> None:
    """Small budget or large: both took the other ways longer than their limits."""
    instance = draw(3, 15, kv_tokens // 2, kv_tokens)
    found = exact.plan(instance, 0, stop=MaxIterations(500), report=lambda progress: None)
    assert found.stop_reason is StopReason.PROVED
    assert found.bound_kind is BoundKind.EXHAUSTIVE


def test_limits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops in time with a bound that holds; out of looks it leaves the rest to the others."""
    instance = draw(1, 40, 9, 30)
    work, reason = search(instance, limit=5)
    assert reason is StopReason.ITERATION_LIMIT
    assert work.iterations == 5
    assert work.bound is not None
    assert Fraction(40) < work.bound < work.best
    monkeypatch.setattr(one_token, "MOST_LOOKS", 100)
    work, reason = search(instance)
    assert reason is None
    found = exact.plan(instance, 0, stop=MaxIterations(60), report=lambda progress: None)
    assert found.stop_reason is StopReason.ITERATION_LIMIT
    assert found.parameters["iterations"] == 60
