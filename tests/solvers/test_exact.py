"""The exact solver: its proofs against all schedules of tiny backlogs, its anytime contract."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from brute_force import least_latency

import sortedf
from sortedf import Instance
from sortedf.kernels.exact_states import combine, count_states, one_class
from sortedf.lp.branching import Branching
from sortedf.model import Status, StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers import MaxIterations, exact
from sortedf.solvers.exact.holdings import finer_floors
from sortedf.solvers.exact.work import Work
from sortedf.solvers.in_order import shortest_of_orders
from sortedf.solvers.solver import Planned, Progress


def tiny(seed: int, most: int = 5) -> Instance:
    """Draw a backlog of at most ``most`` requests, every other one with releases."""
    draw = random.Random(seed)
    M = draw.randint(4, 14)
    n = draw.randint(1, most)
    s = [draw.randint(1, min(5, M - 1)) for _ in range(n)]
    o = [draw.randint(1, min(6, M - x)) for x in s]
    a = [draw.randint(0, 5) if seed % 2 else 0 for _ in s]
    return Instance(s, o, M, release=a)


def run(instance: Instance, limit: int, seed: int = 0) -> Planned:
    """Plan with an iteration limit and nobody listening."""
    return exact.plan(instance, seed, stop=MaxIterations(limit), report=lambda progress: None)


@pytest.mark.parametrize("seed", range(40))
def test_proofs_are_of_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search proves optimal is the best of all schedules, with and without releases."""
    monkeypatch.setattr(exact, "CLOSED_FORMS", {})
    instance = tiny(seed)
    found = run(instance, 100_000)
    assert found.stop_reason is StopReason.PROVED
    assert found.bound_kind is BoundKind.EXHAUSTIVE
    assert found.schedule.total_latency(instance) == least_latency(instance)


@pytest.mark.parametrize("seed", range(10))
def test_proofs_by_branching_are_of_the_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With price bounds alone, bounds are sound at every limit and proofs are of the optimum."""
    monkeypatch.setattr(exact, "has_few_states", lambda instance: False)
    monkeypatch.setattr(exact, "CLOSED_FORMS", {})
    instance = tiny(seed, most=4)
    best = least_latency(instance)
    for limit in (75, 100, 300):
        found = run(instance, limit)
        assert found.bound is None or found.bound <= best
        if found.stop_reason is StopReason.PROVED:
            assert found.bound_kind is BoundKind.CERTIFIED
            assert found.schedule.total_latency(instance) == best


def test_the_first_bound_is_by_closed_forms() -> None:
    """With memory for all at once it proves at once; it never says less than the outputs' sum."""
    ample = Instance([1, 2, 3], [4, 5, 6], 1000)
    found = run(ample, 100_000)
    assert (found.stop_reason, found.bound_kind) == (StopReason.PROVED, BoundKind.CERTIFIED)
    assert found.parameters["iterations"] == 1
    assert found.bound == 15
    draw = random.Random(0)
    prompt = [draw.randint(60, 90) for _ in range(64)]
    tight = Instance(prompt, [draw.randint(1, 100) for _ in range(64)], 255)
    late = run(tight, 60)
    assert late.bound is not None
    assert late.bound > int(tight.output_tokens.sum())


@pytest.mark.parametrize("seed", range(100, 106))
def test_bounds_are_sound_whenever_it_stops(seed: int) -> None:
    """At every iteration limit the bound is at most the optimum and the value at least that."""
    instance = tiny(seed)
    best = least_latency(instance)
    for limit in range(0, 160, 16):
        found = run(instance, limit)
        assert found.schedule.total_latency(instance) >= best
        assert found.bound is None or found.bound <= best


@pytest.mark.parametrize(("seed", "optimum"), [(0, 455), (1, 261), (2, 370), (7, 424)])
def test_optima_that_another_solver_proves(seed: int, optimum: int) -> None:
    """Backlogs of the synthetic family whose optimum CP-SAT proves too (bench/peers_exact.py)."""
    instance = sortedf.generate("synthetic", 8, seed=seed)
    result = sortedf.solve(instance, solver="exact", stop=MaxIterations(100_000))
    assert (result.total_latency, result.status) == (optimum, Status.OPTIMAL)


@pytest.mark.parametrize("limit", [1, 50, 150, 300])
def test_same_arguments_same_plan(limit: int) -> None:
    """The same seed and iteration limit give the same schedule and bound, byte for byte."""
    instance = sortedf.generate("synthetic", 20, seed=3)
    one, two = run(instance, limit, seed=5), run(instance, limit, seed=5)
    assert one.schedule == two.schedule
    assert (one.bound, one.stop_reason) == (two.bound, two.stop_reason)
    assert one.stop_reason is StopReason.ITERATION_LIMIT


def test_equal_requests_finish_together() -> None:
    """Requests that are equal may complete at one step: their order excludes no schedule."""
    instance = Instance([1, 1, 1], [2, 2, 3], 9)
    found = run(instance, 100_000)
    assert found.stop_reason is StopReason.PROVED
    assert found.schedule.total_latency(instance) == least_latency(instance) == 7


def test_interrupted_keeps_the_best() -> None:
    """Ctrl-C ends the search, not the program: the best so far comes back, with its bound."""

    class Interrupt(MaxIterations):
        def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
            if bound is not None:
                raise KeyboardInterrupt
            return None

    instance = sortedf.generate("synthetic", 20, seed=3)
    found = exact.plan(instance, 0, stop=Interrupt(1), report=lambda progress: None)
    assert found.stop_reason is StopReason.INTERRUPTED
    assert found.bound is not None
    assert found.bound <= found.schedule.total_latency(instance)


def test_progress_is_reported_and_bounds_rise() -> None:
    """Reports carry ever more iterations, ever better values and ever higher bounds."""
    seen: list[Progress] = []
    instance = sortedf.generate("synthetic", 9, seed=2)
    found = exact.plan(instance, 0, stop=MaxIterations(100_000), report=seen.append)
    assert seen[-1].bound == found.bound
    for before, after in pairwise(seen):
        assert after.iterations >= before.iterations
        assert after.best <= before.best
        assert (before.bound or 0) <= (after.bound or 0)


@pytest.mark.parametrize("floors", [[2], [1, 3], [1, 2, 4]])
def test_states_are_all_multisets(floors: list[int]) -> None:
    """Classes combined have as many states as counted, melting and growing as their parts do."""
    M = 11
    states = one_class(M, floors[0], M)
    for floor in floors[1:]:
        states = combine(M, states, one_class(M, floor, M))
    assert len(states.held) == count_states(M, floors)
    assert (np.diff(states.held) >= 0).all()
    for x, k in zip(*np.nonzero(states.grown >= 0), strict=True):
        assert states.held[states.grown[x, k]] == states.held[x] + k % (M + 1)
    assert (states.held[states.earlier] <= states.held).all()


def test_floors_are_refined_until_exact() -> None:
    """Floors are added one by one, the most helpful first, until each request has its own."""
    instance = Instance([1, 2, 2, 5], [3, 3, 3, 3], 9)
    floors = [5]
    assert (floors := finer_floors(instance, floors, 20)) == [2, 5]
    assert (floors := finer_floors(instance, floors, 20)) == [1, 2, 5]
    assert finer_floors(instance, floors, 20) == floors


def test_branching_ends_with_the_value() -> None:
    """Left to the end, the bound of the tree is the value that cannot be beaten."""
    instance = Instance([1, 1, 2], [2, 3, 2], 6)
    best = least_latency(instance)
    _, schedule = shortest_of_orders(instance)
    bounds = [step.bound for step in Branching(instance, schedule.starts, best).steps()]
    assert bounds[-1] == best
    assert max(bounds) <= best


def test_the_one_schedule_that_the_root_leaves_is_handed_over() -> None:
    """Where the first cuts leave a single schedule, better than any known, it is not lost."""
    instance = Instance([1], [1], 2)
    steps = list(Branching(instance, np.array([1]), 2).steps())
    assert steps[-1].only is not None
    assert steps[-1].only.tolist() == [0]


def test_a_better_schedule_must_be_better() -> None:
    """The account takes only improvements, and never a bound above its value."""
    instance = Instance([1, 1], [2, 3], 4)
    _, schedule = shortest_of_orders(instance)
    work = Work(instance, schedule, MaxIterations(10), lambda progress: None)
    assert not work.found(schedule)
    work.proved(Fraction(3))
    work.proved(Fraction(2))
    assert work.bound == 3
    assert work.gap > 0
