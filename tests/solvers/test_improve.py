"""The improvement search: its beam, its annealing, and what it promises as a whole."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import Instance, Schedule, StopReason
from sortedf.kernels.beam_follow import losses
from sortedf.kernels.beam_nodes import Settings
from sortedf.lp.bounds import lower_bound
from sortedf.model.instance import IntArray
from sortedf.solvers import MaxIterations, Progress
from sortedf.solvers.improve.annealing import Annealer
from sortedf.solvers.improve.beams import Guide, Known, new_guide, random_settings
from sortedf.solvers.improve.search import BEAMS, improve
from sortedf.solvers.in_order import schedule_by, shortest_of_orders
from sortedf.verify import verify


def accepted(instance: Instance, schedule: Schedule) -> bool:
    """Whether the independent verifier finds nothing wrong with a schedule."""
    columns = instance.prompt_tokens, instance.output_tokens, instance.release
    s, o, a = (column.tolist() for column in columns)
    return verify(s, o, a, instance.kv_tokens, schedule.starts.tolist()).ok


requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 30), st.sampled_from([0, 0, 3, 20])),
    min_size=1,
    max_size=40,
)


@given(requests, st.integers(60, 200), st.sampled_from(["fcfs", "svf", "random"]))
@settings(max_examples=200)
def test_a_sequence_with_waits_reproduces_any_schedule(
    rows: list[tuple[int, int, int]], kv_tokens: int, order: str
) -> None:
    """A schedule with gaps and skipped requests is decoded from its sequence and waits exactly."""
    s, o, a = zip(*rows, strict=True)
    instance = Instance(s, o, kv_tokens, release=a)
    schedule = schedule_by(order, instance, lookahead=5)
    annealer = Annealer(instance, schedule, seed=0)
    assert annealer.best_total == schedule.total_latency(instance)
    assert annealer.schedule() == schedule


@given(requests, st.integers(60, 200), st.integers(0, 10**6), st.floats(0.01, 50.0))
@settings(max_examples=60)
def test_annealing_keeps_its_books(
    rows: list[tuple[int, int, int]], kv_tokens: int, seed: int, temperature: float
) -> None:
    """After thousands of moves the totals kept step by step are those of the full decoding."""
    s, o, a = zip(*rows, strict=True)
    instance = Instance(s, o, kv_tokens, release=a)
    first = schedule_by("fcfs", instance)
    annealer = Annealer(instance, first, seed)
    for _ in range(3):
        annealer.run(temperature, 4.0)
        [solution] = annealer.solutions
        assert annealer.now == [solution.start.sum()]
        starts = np.empty(len(instance), np.int64)
        starts[solution.sequence] = solution.start
        assert accepted(instance, Schedule(starts))
    best = annealer.schedule()
    assert best.total_latency(instance) == annealer.best_total <= first.total_latency(instance)
    assert accepted(instance, best)


def test_annealing_keeps_its_books_with_many_checkpoints() -> None:
    """The same on hundreds of requests, where decodings begin at checkpoints and end early."""
    instance = sortedf.generate("mix", 400, seed=5)
    annealer = Annealer(instance, schedule_by("size", instance), seed=3)
    for temperature in (200.0, 20.0, 2.0):
        for _ in range(5):
            annealer.run(temperature, 15.0)
            [solution] = annealer.solutions
            before = solution.start.copy()
            assert annealer._decode() == annealer.now
            np.testing.assert_array_equal(solution.start, before)
    assert annealer.schedule().total_latency(instance) == annealer.best_total


def test_a_beam_is_feasible_and_loses_what_its_schedule_loses() -> None:
    """Beams give verified schedules; following one from the start loses just TEL - bound."""
    instance = sortedf.generate("mix", 120, seed=2)
    _, simple = shortest_of_orders(instance)
    bound = lower_bound(instance, start=simple)
    assert bound.prices is not None
    guide = new_guide(instance, bound.prices, bound.value, simple)
    known = Known(simple, simple.total_latency(instance), guide.losses(simple))
    rng = np.random.Generator(np.random.PCG64(1))
    found = []
    for _ in range(12):
        schedule = guide.search(random_settings(rng, 120), known, 0, 1.0)
        if schedule is not None:
            assert accepted(instance, schedule)
            assert schedule.total_latency(instance) >= bound.value
            found.append(schedule.total_latency(instance))
    assert min(found) < simple.total_latency(instance)


def test_a_beam_goes_on_from_a_given_schedule() -> None:
    """Starts before the given step stay as they are; at the end nothing is left to search."""
    instance = sortedf.generate("summaries", 80, seed=4)
    _, simple = shortest_of_orders(instance)
    bound = lower_bound(instance, start=simple)
    assert bound.prices is not None
    guide = new_guide(instance, bound.prices, bound.value, simple)
    width = Settings(width=40, bucket=1, candidates=8, branches=4, waste=0.02)
    begin = int(np.median(simple.starts))
    known = Known(simple, 10**9, np.full(guide.horizon + 1, 1e9))
    schedule = guide.search(width, known, begin, 1.0)
    assert schedule is not None
    early = simple.starts < begin
    assert early.any()
    np.testing.assert_array_equal(schedule.starts[early], simple.starts[early])
    assert (schedule.starts[~early] >= begin).all()
    assert accepted(instance, schedule)


def test_losses_of_a_schedule_end_at_what_it_is_above_the_bound() -> None:
    """They never fall by more than what is overdue, and end at TEL - bound, at any stride."""
    instance = sortedf.generate("mix", 120, seed=9)
    _, simple = shortest_of_orders(instance)
    bound = lower_bound(instance, start=simple)
    assert bound.prices is not None
    guide = new_guide(instance, bound.prices, bound.value, simple)
    given = simple.starts[guide.order]
    last = simple.makespan(instance)
    above = simple.total_latency(instance) - float(bound.value)
    by_step = losses(guide.costs, instance.kv_tokens, guide.ahead, given, last, 1)
    assert by_step[last] == pytest.approx(above)
    for stride in (7, 100):
        coarse = losses(guide.costs, instance.kv_tokens, guide.ahead, given, last, stride)
        exact = [*range(0, last, stride), last]
        np.testing.assert_allclose(coarse[exact], by_step[exact])


def run(instance: Instance, seed: int, iterations: int, threads: int) -> sortedf.Result:
    return sortedf.solve(
        instance, solver="improve", seed=seed, stop=MaxIterations(iterations), threads=threads
    )


def test_same_seed_and_iterations_give_the_same_plan_on_one_or_two_threads() -> None:
    """The plan depends on seed and iteration limit alone."""
    instance = sortedf.generate("mix", 150, seed=1)
    first = run(instance, 7, 12, 1)
    for threads in (1, 2):
        assert run(instance, 7, 12, threads).schedule == first.schedule
    assert first.stop_reason is StopReason.ITERATION_LIMIT
    assert run(instance, 8, 12, 2).schedule != first.schedule


@pytest.mark.parametrize("kind", ["chat", "synthetic", "uniform", "heavy-tail"])
def test_never_worse_than_the_simple_orders_and_never_below_the_bound(kind: str) -> None:
    """On every kind of backlog the search keeps at least the best simple order."""
    instance = sortedf.generate(kind, 60, seed=3)
    result = run(instance, 0, 10, 2)
    _, simple = shortest_of_orders(instance)
    assert result.total_latency <= simple.total_latency(instance)
    assert result.lower_bound_exact is not None
    assert result.lower_bound_exact <= result.total_latency
    assert result.bound_kind == "certified"


def test_releases_are_honoured() -> None:
    """A backlog with releases is annealed from the best simple order."""
    mix = sortedf.generate("mix", 100, seed=6)
    instance = mix.replace(release=np.arange(100) * 7)
    result = run(instance, 0, 6, 2)
    assert (result.schedule.starts >= instance.release).all()


def test_interruption_keeps_the_best() -> None:
    """Ctrl-C ends the search with the best schedule so far."""
    instance = sortedf.generate("mix", 100, seed=1)
    seen: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    planned = improve(instance, 0, stop=MaxIterations(1000), report=interrupt)
    assert planned.stop_reason is StopReason.INTERRUPTED
    assert planned.schedule.total_latency(instance) == seen[-1].best
    assert [p.iterations for p in seen] == [0, 0, 1]
    assert [p.bound is None for p in seen] == [True, False, False]


class Ended(MaxIterations):
    """Stops as soon as it is asked while a beam runs."""

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        return StopReason.TIME_LIMIT


@pytest.mark.parametrize("how", ["limit", "interrupt"])
def test_beams_are_cancelled(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a limit nor Ctrl-C waits for a beam to end by itself."""
    ended = []

    def endless(
        guide: Guide, settings: Settings, known: Known, begin: int, margin: float, flag: IntArray
    ) -> None:
        for _ in range(1200):
            if flag[0]:
                ended.append(settings)
                return
            time.sleep(0.05)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Guide, "search", endless)
    if how == "interrupt":
        monkeypatch.setattr("sortedf.solvers.improve.search.wait", interrupted)
    instance = sortedf.generate("mix", 60, seed=1)
    stop = Ended(10) if how == "limit" else MaxIterations(10)
    planned = improve(instance, 0, stop=stop, report=lambda progress: None)
    expected = StopReason.TIME_LIMIT if how == "limit" else StopReason.INTERRUPTED
    assert planned.stop_reason is expected
    assert len(ended) == BEAMS


def test_a_cancelled_beam_finds_nothing() -> None:
    """The kernel itself looks at the flag."""
    instance = sortedf.generate("mix", 60, seed=2)
    _, simple = shortest_of_orders(instance)
    bound = lower_bound(instance, start=simple)
    assert bound.prices is not None
    guide = new_guide(instance, bound.prices, bound.value, simple)
    settings = random_settings(np.random.Generator(np.random.PCG64(1)), 60)
    flag = np.zeros(1, np.int64)
    known = Known(simple, 10**9, np.full(guide.horizon + 1, 1e9))
    assert guide.search(settings, known, 0, 1.0, flag) is not None
    flag[0] = 1
    assert guide.search(settings, known, 0, 1.0, flag) is None


class Clock(MaxIterations):
    """A clock that goes on by a hundredth of the limit whenever it is looked at."""

    looks = 0

    def share(self, iterations: int) -> float:
        Clock.looks += 1
        return min(1.0, Clock.looks / 100)


def test_prices_get_their_share_of_the_time_and_no_more() -> None:
    """Under a limit the ascent ends early, with a bound that is worse but true."""
    instance = sortedf.generate("mix", 60, seed=1)
    planned = improve(instance, 0, stop=Clock(4), report=lambda progress: None)
    assert planned.bound is not None
    assert planned.bound < lower_bound(instance).value
    assert planned.bound <= planned.schedule.total_latency(instance)


def test_long_horizons_need_no_tables_by_the_step() -> None:
    """Outputs of a billion tokens are annealed; no array is as long as the schedule."""
    o = [10**9 - k for k in range(20)]
    result = run(Instance(list(range(1, 21)), o, 2 * 10**9), 0, 3, 2)
    assert result.lower_bound is not None
    assert result.makespan > 10**9
