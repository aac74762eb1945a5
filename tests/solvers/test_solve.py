"""The front function: what every solver returns, refuses and records."""

from __future__ import annotations

import csv
import random
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import (
    InfeasibleError,
    Instance,
    OptionError,
    Schedule,
    StopReason,
    VerificationError,
    solve,
)
from sortedf.lp import Bound, lower_bound, lower_bounds
from sortedf.model.result import BoundKind
from sortedf.solvers import MaxIterations, MaxSeconds, find_solvers, registry
from sortedf.solvers.in_order import schedule_paced
from sortedf.solvers.solver import Planned, Solver, compile_kernels
from sortedf.verify import verify

plan = partial(solve, bound=False)
SIMPLE = ("fcfs", "mcsf", "size", "svf", "svf-1bit", "longest")
TABLE = [
    ("mix8020-50-s0", 16492, (14070, 9310, 8923, 8699)),
    ("mix8020-200-s0", 16492, (161063, 62151, 45067, 42908)),
    ("mix8020-500-s0", 16492, (1023400, 312850, 233819, 198671)),
    ("mix8020-2000-s0", 16492, (22063520, 4973265, 3689936, 2836559)),
    ("mix8020-2000-s0", 100000, (2495088, 859103, 639453, 587390)),
]


@pytest.mark.parametrize(("name", "kv_tokens", "totals"), TABLE)
def test_totals_of_an_independent_implementation(
    shared: Path, name: str, kv_tokens: int, totals: tuple[int, ...]
) -> None:
    """Strict list scheduling reproduces the total latencies that another program found."""
    backlog = sortedf.read_backlog(shared / "instances" / f"{name}.csv", kv_tokens=kv_tokens)
    found = [plan(backlog, solver=s).total_latency for s in ("fcfs", "mcsf", "size", "svf")]
    assert tuple(found) == totals


def test_no_schedule_beats_a_known_lower_bound(shared: Path) -> None:
    """On the benchmark instances every solver stays at or above the proven lower bound."""
    with (shared / "instances" / "known.csv").open() as file:
        known = list(csv.DictReader(file))
    for row in known:
        path = shared / "instances" / f"{row['instance']}.csv"
        backlog = sortedf.read_backlog(path, kv_tokens=int(row["kv_tokens"]))
        for entry in find_solvers("fast"):
            if not entry.supports(backlog):
                continue
            assert plan(backlog, solver=entry.name).total_latency >= int(row["lower_bound"])


requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=12
)


@given(requests, st.integers(2, 16))
@settings(max_examples=200)
def test_plans_in_blocks_never_need_more_blocks(
    rows: list[tuple[int, int, int]], block_size: int
) -> None:
    """A plan for blocks, counted block by block at every step, stays within them."""
    s, o, a = (list(column) for column in zip(*rows, strict=True))
    starts = plan(Instance(s, o, 96, release=a), block_size=block_size).schedule.starts.tolist()
    for step in range(1, max(p + k for p, k in zip(starts, o, strict=True)) + 1):
        held = [s[i] + step - p for i, p in enumerate(starts) if p < step <= p + o[i]]
        assert sum(-(-tokens // block_size) for tokens in held) <= 96 // block_size


def test_auto_is_the_best_of_the_simple_orders() -> None:
    """On mixed lengths `auto` equals the best deterministic order, and names it."""
    backlog = sortedf.example()
    auto = plan(backlog)
    others = {e.name: plan(backlog, solver=e.name) for e in find_solvers("fast")}
    best = min((r.total_latency, name) for name, r in others.items() if name in SIMPLE)
    assert (auto.total_latency, auto.parameters["chosen"]) == best


@given(requests, st.integers(1, 16), st.floats(0.1, 2.0), st.integers(1, 4))
@settings(max_examples=100)
def test_paced_schedules_are_feasible_and_paced(
    rows: list[tuple[int, int, int]], spare: int, pace: float, lookahead: int
) -> None:
    """No request starts before its pace; without pace it is the schedule by volume."""
    s, o, a = (list(column) for column in zip(*rows, strict=True))
    backlog = Instance(s, o, 59 + spare, release=a)
    schedule = schedule_paced(backlog, pace, lookahead)
    assert verify(s, o, a, 59 + spare, schedule.starts.tolist()).ok
    before = 0
    for i in sorted(range(len(s)), key=lambda i: (int(backlog.volume[i]), i)):
        assert schedule.starts[i] >= int(pace * before / backlog.kv_tokens * (1 - 1e-12))
        before += int(backlog.volume[i])
    assert schedule_paced(backlog, 0.0) == solve(backlog, solver="svf").schedule


def test_auto_spreads_equal_outputs_over_time() -> None:
    """A batch with one output length for all takes a tenth less than by any order, and more."""
    rng = random.Random(0)
    backlog = Instance([rng.randint(20, 400) for _ in range(300)], [300] * 300, 16_492)
    auto = solve(backlog)
    orders = [solve(backlog, solver=name).total_latency for name in SIMPLE]
    assert auto.parameters["chosen"] == "svf-paced"
    assert auto.total_latency < 0.9 * min(orders)


def test_more_memory_than_all_requests_need_changes_nothing() -> None:
    """With ample memory, however large, everything starts at its release."""
    backlog = Instance([5, 6], [7, 8], 2**62 - 1, release=[0, 3])
    assert solve(backlog, solver="svf").schedule.starts.tolist() == [0, 3]


def test_oversized_requests_are_named() -> None:
    """A request over the budget is infeasible; all such requests are named with their tokens."""
    backlog = Instance([5, 9, 9], [5, 1, 2], 10, ids=["a", "b", "c"])
    with pytest.raises(InfeasibleError, match="request 'c' \\(index 2\\) needs 11") as caught:
        solve(backlog)
    assert caught.value.oversized == ((2, "c", 11),)
    with pytest.raises(InfeasibleError) as caught:
        solve(backlog, block_size=4)
    assert [i for i, _, _ in caught.value.oversized] == [0, 1, 2]
    assert caught.value.kv_tokens == 8


def test_unknown_names_and_options_are_refused() -> None:
    """A misspelt solver is answered with the nearest; options that it does not take are errors."""
    backlog = sortedf.example()
    with pytest.raises(OptionError, match="did you mean 'mcsf'"):
        solve(backlog, solver="mscf")
    with pytest.raises(OptionError, match="takes no option 'proxies'"):
        solve(backlog, solver="svf", proxies=(1, 1, 1))
    with pytest.raises(OptionError, match="lookahead is 0"):
        solve(backlog, solver="svf", lookahead=0)
    with pytest.raises(OptionError, match="seed is -1"):
        solve(backlog, seed=-1)
    with pytest.raises(OptionError, match="takes no seed"):
        solve(backlog, solver="svf", seed=3)
    wrong: list[dict[str, Any]] = [
        {"seed": 1.0},
        {"seed": True},
        {"block_size": "16"},
        {"solver": None},
        {"solver": "svf", "lookahead": True},
        {"solver": "svf", "lookahead": None},
        {"solver": "svf-1bit", "proxies": (1, 2)},
        {"solver": "svf-1bit", "proxies": "1,1,2"},
    ]
    for options in wrong:
        with pytest.raises(OptionError):
            solve(backlog, **options)
    with pytest.raises(OptionError, match="twice"):
        find_solvers("svf,fcfs, svf")


def test_options_are_used_and_recorded() -> None:
    """Proxies, lookahead and seed change the plan and stand in the result."""
    backlog = sortedf.example()
    plain = plan(backlog, solver="svf-1bit")
    given_proxies = plan(backlog, solver="svf-1bit", proxies=(30, 10, 300), lookahead=4)
    assert given_proxies.parameters == {"lookahead": 4, "proxies": [30, 10, 300]}
    assert given_proxies.schedule != plain.schedule
    assert (
        plan(backlog, solver="random", seed=1).schedule
        != plan(backlog, solver="random", seed=2).schedule
    )


def test_a_wrong_schedule_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a solver errs, the front function raises with the violations."""

    def broken(instance: Instance, seed: int) -> Planned:
        return Planned(Schedule(np.zeros(len(instance), np.int64)), {})

    monkeypatch.setitem(registry.SOLVERS, "broken", Solver("broken", "", broken))
    with pytest.raises(VerificationError, match="tokens at step"):
        solve(sortedf.example(), solver="broken")


def test_a_bound_above_the_value_never_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver whose bound contradicts its own schedule is at fault, and the fault is told."""

    def broken(instance: Instance, seed: int) -> Planned:
        schedule = Schedule(np.zeros(1, np.int64))
        return Planned(schedule, {}, bound=Fraction(7, 2), bound_kind=BoundKind.CERTIFIED)

    monkeypatch.setitem(registry.SOLVERS, "broken", Solver("broken", "", broken))
    with pytest.raises(VerificationError, match="bound 7/2 is above the total latency 3"):
        solve(Instance([1], [3], 9), solver="broken")


def test_an_interruption_of_the_warm_up_is_one_of_the_program() -> None:
    """Ctrl-C while kernels are compiled is not taken for the end of the search that compiles."""

    def plan(instance: Instance, seed: int, **_: Any) -> Planned:
        return Planned(Schedule(np.zeros(len(instance), np.int64)), {}, StopReason.INTERRUPTED)

    solver = Solver("slow", "", plan, anytime=True)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compile_kernels(solver)


def test_a_backlog_that_a_solver_does_not_support_is_refused() -> None:
    """Whatever the solver, the front function refuses, and names another one."""
    backlog = sortedf.generate("mix", 65, seed=0)
    with pytest.raises(OptionError, match=r"exact takes up to 64 requests.*use improve"):
        solve(backlog, solver="exact", stop=MaxIterations(3))
    late = Instance([1], [1], 2, release=[1 << 16])
    with pytest.raises(OptionError, match="65536 steps"):
        solve(late, solver="exact", stop=MaxIterations(3))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_senseless_limits_are_refused(seconds: float) -> None:
    """A limit is a time that passes, or a whole number of iterations."""
    with pytest.raises(OptionError, match="time limit"):
        MaxSeconds(seconds)
    for limit in (-1, 1.5, True):
        with pytest.raises(OptionError, match="iteration limit"):
            MaxIterations(limit)  # type: ignore[arg-type]


def test_result_is_plain_data() -> None:
    """The result's dictionary holds every key of the design, percentiles by nearest rank."""
    backlog = Instance([1, 1, 1, 1], [1, 2, 3, 100], 1000)
    row = plan(backlog, solver="svf").to_dict()
    assert row["p50_latency"] == 2
    assert row["p95_latency"] == row["p99_latency"] == row["makespan"] == 100
    assert row["total_latency"] == 106
    assert row["mean_latency"] == 26.5
    expected = """n kv_tokens solver total_latency mean_latency p50_latency p95_latency p99_latency
        makespan lower_bound lower_bound_exact bound_kind gap status stop_reason verified seconds
        seed version instance_sha256"""
    assert set(expected.split()) <= row.keys()
    assert (row["status"], row["lower_bound"], row["verified"]) == ("feasible", None, True)


def test_every_plan_comes_with_a_bound() -> None:
    """A solver that brings no bound gets the best closed form or prices, and a proof."""
    backlog = sortedf.generate("mix", 40, seed=7, kv_tokens=12_000)
    result = solve(backlog, solver="mcsf", block_size=16)
    padded = backlog.in_blocks(16)
    assert result.lower_bound_exact == lower_bound(padded).value > lower_bound(backlog).value
    assert result.bound_kind is BoundKind.CERTIFIED
    assert result.proof is not None
    assert result.proof.value == result.lower_bound_exact
    assert result.lower_bound is not None
    assert result.gap == result.total_latency / result.lower_bound - 1
    assert plan(backlog, solver="mcsf").lower_bound is None


def test_a_plan_at_its_bound_is_optimal() -> None:
    """A rule whose plan reaches the bound has found the optimum, and says so."""
    backlog = Instance([1, 1, 1, 1], [1, 2, 3, 100], 1000)
    row = solve(backlog, solver="svf").to_dict()
    assert (row["status"], row["lower_bound"], row["gap"]) == ("optimal", 106, 0.0)


def test_known_bounds_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that are handed over are used, the best one; a solver's own wins if it is better."""
    monkeypatch.setattr("sortedf.solvers.front.lower_bounds", None)
    backlog = sortedf.generate("synthetic", 6, seed=1)
    known = lower_bounds(backlog, iterations=3)
    result = solve(backlog, solver="svf", bound=known)
    assert result.lower_bound_exact == max(bound.value for bound in known)
    assert result.proof is known[-1]
    exact = solve(backlog, solver="exact", stop=MaxIterations(10_000), bound=known)
    assert exact.lower_bound_exact == exact.total_latency
    assert exact.bound_kind is BoundKind.EXHAUSTIVE
    best = [Bound(Fraction(exact.total_latency), "volume")]
    early = solve(backlog, solver="exact", stop=MaxIterations(1), bound=best)
    assert early.lower_bound_exact == exact.total_latency
    assert early.proof is None


def test_an_interrupted_bound_leaves_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the bound is looked for costs the bound, not the plan."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sortedf.solvers.front.lower_bounds", interrupt)
    result = solve(sortedf.example(), solver="svf")
    assert (result.stop_reason, result.lower_bound) == ("interrupted", None)


def test_a_limit_that_is_used_up_leaves_first_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that brings no bound gets one; after its limit the ascent only starts."""

    def search(instance: Instance, seed: int, **_: object) -> Planned:
        return Planned(schedule_paced(instance, 1.0), {}, StopReason.ITERATION_LIMIT)

    boundless = Solver("boundless", "brings no bound", search, anytime=True)
    monkeypatch.setitem(registry.SOLVERS, "boundless", boundless)
    backlog = sortedf.generate("mix", 65, seed=0, kv_tokens=16_492)
    result = solve(backlog, solver="boundless", stop=MaxIterations(0))
    quick = lower_bound(backlog, iterations=0).value
    assert result.lower_bound_exact is not None
    assert quick <= result.lower_bound_exact < lower_bound(backlog, iterations=300).value
