"""Sorted-LP and LP-Swap: orders from the relaxation, and what they promise."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import Instance, OptionError, Status, StopReason, solve
from sortedf.lp import expected_starts, mean_busy_time_bound, price_bound, relax
from sortedf.lp.ascent import ascend, best_in_order
from sortedf.lp.expected_starts import averaged_starts
from sortedf.lp.fractional import FractionalStarts
from sortedf.solvers import MaxIterations, MaxSeconds, Progress
from sortedf.solvers.in_order import schedule_in_order, shortest_of_orders
from sortedf.solvers.sorted_lp import order_by_starts

requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 30), st.sampled_from([0, 0, 3, 20])),
    min_size=1,
    max_size=15,
)


def test_ranks_by_mean_and_by_alpha_points_of_a_solution() -> None:
    """Requests at 0 or 10, at 4, and at 4 with more volume: by mean 4, 4, 5; by 0.5 the first."""
    instance = Instance([5, 2, 2], [3, 9, 8], 99)
    starts = FractionalStarts(
        np.array([0, 0, 1, 2]), np.array([0, 10, 4, 4]), np.array([0.5, 0.5, 1.0, 1.0])
    )
    assert order_by_starts(instance, starts).tolist() == [2, 1, 0]
    assert order_by_starts(instance, starts, 0.5).tolist() == [0, 2, 1]
    assert order_by_starts(instance, starts, 0.6).tolist() == [2, 1, 0]


def test_long_requests_in_the_way_of_many_short_ones_go_last() -> None:
    """The relaxation sees what shortest output does not: the wide request would block ten."""
    backlog = Instance([90] + [7] * 10, [1] + [2] * 10, kv_tokens=95)
    result = solve(backlog, solver="sorted-lp")
    assert result.total_latency == 23 == solve(backlog, solver="exact-dp").total_latency
    assert (result.status, result.lower_bound) == (Status.OPTIMAL, 23)


@pytest.mark.parametrize("solver", ["sorted-lp", "lp-swap"])
def test_releases_far_apart(solver: str) -> None:
    """Nothing is laid out by step: a horizon of 10^12 steps takes no more memory than one of 10."""
    backlog = Instance([10] * 4, [5] * 4, kv_tokens=20, release=[0, 10**9, 10**12, 10**12])
    result = solve(backlog, solver=solver)
    assert (result.total_latency, result.lower_bound) == (25, 25)


@given(requests, st.integers(60, 120), st.sampled_from([None, 0.3, 1.0]))
@settings(max_examples=40)
def test_bounds_and_order_come_from_the_linear_program(
    rows: list[tuple[int, int, int]], kv_tokens: int, alpha: float | None
) -> None:
    """The bound is the program's value at least, no plan is below it, and options are recorded."""
    s, o, a = zip(*rows, strict=True)
    backlog = Instance(s, o, kv_tokens, release=a)
    result = solve(backlog, solver="sorted-lp", alpha=alpha, lookahead=2)
    assert result.parameters == {"lookahead": 2, "alpha": alpha}
    assert result.bound_kind == "certified"
    assert result.lower_bound_exact is not None
    horizon = best_in_order(backlog).makespan(backlog)
    value = relax(backlog, method="simplex", horizon=horizon).value
    assert float(result.lower_bound_exact) >= value * (1 - 1e-6)
    assert ceil(result.lower_bound_exact) <= result.total_latency
    _, simple = shortest_of_orders(backlog)
    assert ceil(result.lower_bound_exact) <= simple.total_latency(backlog)


@pytest.mark.parametrize("n", [60, 400])
def test_averages_of_the_ascent_stand_in_for_the_program(n: int) -> None:
    """Averaged starts are whole, lie near the program's, and nearly keep the budget."""
    backlog = sortedf.generate("mix", n, seed=3, kv_tokens=100_000 if n == 400 else 16_492)
    prices, bound = ascend(backlog)
    starts = averaged_starts(backlog, prices)
    assert np.bincount(starts.request, starts.share) == pytest.approx(np.ones(n))
    assert (starts.start >= 0).all()
    latency = float((starts.means() + backlog.output_tokens).sum())
    assert latency == pytest.approx(float(bound), rel=0.02)
    held = np.zeros(prices.horizon + int(backlog.output_tokens.max()) + 1)
    for i, p, share in zip(starts.request, starts.start, starts.share, strict=True):
        tokens = backlog.prompt_tokens[i] + np.arange(1, backlog.output_tokens[i] + 1)
        held[p + 1 : p + 1 + len(tokens)] += share * tokens
    priced = prices.per_step() > 0
    assert np.mean(held[1 : prices.horizon + 1][priced[1:]]) < 1.02 * backlog.kv_tokens
    if n == 400:  # where memory is ample the order is clearly better than by volume
        schedule = schedule_in_order(backlog, order_by_starts(backlog, starts))
        assert schedule.total_latency(backlog) < solve(backlog, solver="svf").total_latency


def test_large_backlogs_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the stated size no program is solved; the bound is that of prices or closed forms."""
    backlog = sortedf.generate("mix", 40, seed=5, kv_tokens=5_000)
    small, bound = expected_starts.expected_starts(backlog, best_in_order(backlog))
    monkeypatch.setattr(expected_starts, "LARGEST_PROGRAM", 10)
    monkeypatch.setattr(expected_starts, "relax_by_planes", None)
    large, averaged = expected_starts.expected_starts(backlog, best_in_order(backlog))
    assert averaged.prices is not None
    assert averaged.value == price_bound(backlog, averaged.prices)
    assert mean_busy_time_bound(backlog) < averaged.value <= bound.value
    assert len(large.share) != len(small.share)
    released = Instance([3] * 5, [1] * 5, 3 + 1, release=[0, 0, 50, 90, 90])
    _, weak = expected_starts.expected_starts(released, best_in_order(released))
    assert weak.value <= solve(released, solver="fcfs").total_latency


def test_lp_swap_reaches_an_order_that_no_exchange_improves() -> None:
    """It ends by itself, below Sorted-LP and all simple orders, at a local optimum."""
    backlog = sortedf.generate("mix", 60, seed=2, kv_tokens=16_492)
    sorted_lp = solve(backlog, solver="sorted-lp")
    reports: list[Progress] = []
    result = solve(backlog, solver="lp-swap", stop=MaxSeconds(600), report=reports.append)
    assert result.stop_reason is StopReason.FINISHED
    assert result.lower_bound == sorted_lp.lower_bound
    _, simple = shortest_of_orders(backlog)
    assert result.total_latency < min(sorted_lp.total_latency, simple.total_latency(backlog))
    again = solve(backlog, solver="lp-swap", stop=MaxIterations(10**9))
    assert again.schedule == result.schedule
    tries = again.parameters["iterations"]
    before = solve(backlog, solver="lp-swap", stop=MaxIterations(tries // 2))
    assert before.stop_reason is StopReason.ITERATION_LIMIT
    assert before.parameters["iterations"] == tries // 2
    assert result.total_latency <= before.total_latency <= sorted_lp.total_latency


def test_lp_swap_exchanges_as_far_as_ten_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the worst order of eleven alike but one, that one goes to the front in one exchange."""
    backlog = Instance([20] * 10 + [1], [40] * 10 + [1], 60)

    def worst(instance: Instance, starts: FractionalStarts, alpha: Any) -> Any:
        return np.arange(11)

    monkeypatch.setattr(sortedf.solvers.sorted_lp, "order_by_starts", worst)
    monkeypatch.setattr(
        sortedf.solvers.sorted_lp,
        "best_in_order",
        lambda instance: schedule_in_order(instance, np.arange(11)),
    )
    worst_total = schedule_in_order(backlog, np.arange(11)).total_latency(backlog)
    result = solve(backlog, solver="lp-swap", stop=MaxIterations(10**6))
    assert result.schedule.starts[10] == 0
    assert result.total_latency < worst_total


def test_lp_swap_stops_when_proved() -> None:
    """Where the bound meets a schedule nothing is exchanged."""
    backlog = Instance([4, 9, 1], [7, 2, 5], 1000)
    result = solve(backlog, solver="lp-swap")
    assert (result.status, result.stop_reason) == (Status.OPTIMAL, StopReason.PROVED)
    assert result.total_latency == 14


@pytest.mark.parametrize("when", ["relaxation", "exchanges"])
def test_lp_swap_interrupted_hands_back_its_best(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Ctrl-C ends it with a verified schedule, bounded if the relaxation was done."""
    backlog = sortedf.generate("mix", 30, seed=4, kv_tokens=16_492)
    solve(backlog, solver="lp-swap", stop=MaxIterations(1))

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    name = "expected_starts" if when == "relaxation" else "_exchange"
    monkeypatch.setattr(sortedf.solvers.sorted_lp, name, interrupted)
    result = solve(backlog, solver="lp-swap", stop=MaxIterations(1))
    assert result.stop_reason is StopReason.INTERRUPTED
    assert result.verified
    assert (result.lower_bound is None) == (when == "relaxation")


def test_lp_swap_leaves_time_for_exchanges() -> None:
    """Under a short limit the relaxation is cut off, and the result comes soon after."""
    backlog = sortedf.generate("mix", 300, seed=6, kv_tokens=16_492)
    solve(backlog, solver="lp-swap", stop=MaxIterations(1))
    result = solve(backlog, solver="lp-swap", stop=MaxSeconds(0.2))
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.lower_bound is not None
    assert result.lower_bound > 0.8 * result.total_latency


def test_alpha_out_of_range_is_refused() -> None:
    """Alpha is above 0 and at most 1, for both solvers."""
    backlog = Instance([1, 2], [2, 2], 5)
    for solver in ("sorted-lp", "lp-swap"):
        for alpha in (0, 2, -0.5, True, "0.5"):
            with pytest.raises(OptionError, match="alpha is"):
                solve(backlog, solver=solver, alpha=alpha)
