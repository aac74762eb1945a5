"""Every registered solver on small backlogs: plans, values, bounds and proofs, held to the optimum.

A solver that is registered later is run by itself. The optimum is that of a brute force up to seven
requests, and beyond the one that `exact` proves, which CP-SAT proves too where said.
"""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from math import ceil
from typing import Any, NamedTuple

import pytest
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import Instance, OptionError, Result, Status, StopReason, solve
from sortedf.lp import lower_bound
from sortedf.model.result import BoundKind
from sortedf.solvers import SOLVERS, MaxIterations, Solver
from sortedf.solvers.solver import Planned

UNTIL_PROVED = 100_000


class Case(NamedTuple):
    """A backlog, and the tokens of a KV block."""

    instance: Instance
    block_size: int = 1


def requests(
    prompt: list[int], output: list[int], kv_tokens: int, release: list[int] | None = None
) -> Instance:
    return Instance(prompt, output, kv_tokens, release=release)


def drawn(seed: int, n: int, spare: int, last: int = 0, longest: int = 6) -> Instance:
    """Draw requests of up to five prompt tokens; the budget holds the largest and some spare."""
    draw = random.Random(seed)
    s = [draw.randint(1, 5) for _ in range(n)]
    o = [draw.randint(1, longest) for _ in range(n)]
    a = [draw.randint(0, last) for _ in range(n)]
    return Instance(s, o, max(x + y for x, y in zip(s, o, strict=True)) + spare, release=a)


SMALL = {
    "one token": Case(requests([1], [1], 2)),
    "one that fills the budget": Case(requests([5], [4], 9)),
    "one, released late": Case(requests([3], [2], 10**12, [10**6])),
    "one in blocks": Case(requests([5], [4], 17), 4),
    "equal, one at a time": Case(requests([2] * 5, [3] * 5, 5)),
    "equal, waits pay": Case(requests([1, 1, 1], [2, 2, 3], 9)),
    "equal, side by side": Case(requests([2] * 7, [3] * 7, 12)),
    "equal, ample": Case(requests([2] * 7, [3] * 7, 10**6)),
    "equal but for releases": Case(requests([1] * 6, [4] * 6, 11, [0, 0, 3, 3, 6, 6])),
    "largest budget": Case(requests([1, 2, 3], [4, 5, 6], 2**62 - 1)),
    "long one first": Case(requests([5, 1, 1, 1, 1], [1, 4, 4, 4, 4], 10)),
    "wide one in the way": Case(requests([9, 2, 2, 2, 2], [1, 2, 2, 2, 2], 11)),
    "idle until the next release": Case(requests([2, 3, 1], [2, 2, 4], 6, [0, 20, 21])),
    "short ones come later": Case(requests([2, 1, 1, 1], [6, 1, 1, 1], 9, [0, 1, 2, 3])),
    "seven, tight": Case(drawn(1, 7, 0)),
    "seven, tight, released": Case(drawn(2, 7, 0, last=8)),
    "seven": Case(drawn(3, 7, 6)),
    "seven, released": Case(drawn(4, 7, 7, last=9)),
    "six, roomy": Case(drawn(5, 6, 14, longest=5)),
    "five, long outputs": Case(drawn(6, 5, 8, longest=12)),
    "six in blocks of 2": Case(drawn(7, 6, 6), 2),
    "five in blocks of 5, released": Case(drawn(8, 5, 15, last=6), 5),
}

MIDDLE = {
    "synthetic, 8, CP-SAT proves 455": sortedf.generate("synthetic", 8, seed=0),
    "synthetic, 10": sortedf.generate("synthetic", 10, seed=1),
    "equal, 25": requests([3] * 25, [4] * 25, 21),
    "equal but for two, 16": requests([2] * 16, [3] * 14 + [8, 9], 18),
    "tight, 14": drawn(9, 14, 0),
    "ample, 25": drawn(10, 25, 1000, last=30),
    "released, 9": drawn(11, 9, 4, last=25),
    "wide budget, 8": requests([300] * 4 + [40] * 4, [5, 9, 7, 6, 2, 3, 4, 1], 640),
}


def planned_as(case: Case) -> Instance:
    """Make the backlog that is planned in its place: every sequence larger, whole blocks."""
    instance, B = case
    return Instance(
        instance.prompt_tokens + (B - 1),
        instance.output_tokens,
        instance.kv_tokens // B * B,
        release=instance.release,
    )


@cache
def optimum_of(name: str) -> int:
    """By brute force up to seven requests; beyond, what `exact` proves."""
    if name in SMALL:
        return least_latency(planned_as(SMALL[name]))
    result = solve(MIDDLE[name], solver="exact", stop=MaxIterations(UNTIL_PROVED))
    assert result.status is Status.OPTIMAL
    return result.total_latency


def run(solver: Solver, case: Case, **options: Any) -> Result:
    """Plan twice, and see that it is the same both times and a sound account."""
    instance, B = case
    one, two = (solve(instance, solver=solver.name, block_size=B, **options) for _ in range(2))
    accounts = [
        (r.schedule, r.status, r.stop_reason, r.lower_bound_exact, r.bound_kind, r.parameters)
        for r in (one, two)
    ]
    assert accounts[0] == accounts[1]
    check(one, case)
    return one


def check(result: Result, case: Case) -> None:
    """Verify the plan, and compare all that the result says with what can be counted."""
    planned = planned_as(case)
    s, o, a = (
        column.tolist()
        for column in (planned.prompt_tokens, planned.output_tokens, planned.release)
    )
    starts = result.schedule.starts.tolist()
    total = sum(p + y - x for p, y, x in zip(starts, o, a, strict=True))
    report = sortedf.verify.verify(s, o, a, planned.kv_tokens, starts, total_latency=total)
    assert report.ok
    assert result.verified
    assert (result.total_latency, result.makespan) == (total, report.makespan)
    bound = result.lower_bound_exact
    assert (bound is None) == (result.bound_kind is None)
    met = bound is not None and ceil(bound) == total
    assert (result.status is Status.OPTIMAL) == (met and result.bound_kind != "claimed")
    if result.stop_reason is StopReason.PROVED:
        assert result.status is Status.OPTIMAL


def hold(result: Result, optimum: int) -> None:
    """Bound <= optimum <= value; and what is called optimal is."""
    assert result.total_latency >= optimum
    if result.lower_bound is not None:
        assert result.lower_bound <= optimum
    if result.status is Status.OPTIMAL:
        assert result.total_latency == optimum


def ways(solver: Solver) -> list[dict[str, Any]]:
    """Options of the runs: anytime solvers by iterations, those that prove until they have."""
    if not solver.anytime:
        return [{}, {"lookahead": 3}] if "lookahead" in solver.options else [{}]
    found = [{"stop": MaxIterations(UNTIL_PROVED)}] if solver.exact else []
    found.append({"stop": MaxIterations(3)})
    # Without a default limit it ends by itself.
    return [{}, *found] if solver.limit_seconds is None else found


@pytest.mark.parametrize("name", [*SMALL, *MIDDLE])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_on_every_small_backlog(solver: str, name: str) -> None:
    """Verified plan, true objective, bound <= optimum <= value; exact solvers prove it."""
    entry = SOLVERS[solver]
    case = SMALL[name] if name in SMALL else Case(MIDDLE[name])
    if not entry.supports(planned_as(case)):
        with pytest.raises(OptionError, match=f"{solver} takes"):
            run(entry, case)
        return
    for options in ways(entry):
        result = run(entry, case, **options)
        hold(result, optimum_of(name))
        if entry.exact and options["stop"].limit == UNTIL_PROVED:
            assert result.status is Status.OPTIMAL


@pytest.mark.parametrize("name", [*SMALL, *MIDDLE])
def test_lower_bounds_on_every_small_backlog(name: str) -> None:
    """What the bounds say alone, after few steps of the ascent and after many."""
    instance = planned_as(SMALL[name]) if name in SMALL else MIDDLE[name]
    for iterations in (0, 200):
        assert lower_bound(instance, iterations=iterations).value <= optimum_of(name)


def test_the_collection_is_hard_enough() -> None:
    """In it are backlogs where only waits lead to the optimum, where orders differ, with proofs."""
    assert all(len(case.instance) <= 7 for case in SMALL.values())
    assert all(8 <= len(instance) <= 25 for instance in MIDDLE.values())
    orders = [name for name, solver in SOLVERS.items() if not solver.anytime]
    values = {
        name: {
            solve(case.instance, solver=solver, block_size=case.block_size).total_latency
            for solver in orders
        }
        for name, case in SMALL.items()
    }
    assert sum(len(found) > 1 for found in values.values()) >= 8
    assert sum(min(found) > optimum_of(name) for name, found in values.items()) >= 3
    assert optimum_of("synthetic, 8, CP-SAT proves 455") == 455


tiny = st.lists(
    st.tuples(st.integers(1, 6), st.integers(1, 5), st.sampled_from([0, 0, 0, 1, 7])),
    min_size=1,
    max_size=4,
)


@given(
    tiny,
    st.integers(0, 12),
    st.sampled_from([1, 1, 2, 5]),
    st.sampled_from(sorted(SOLVERS)),
    st.integers(1, 4),
    st.integers(0, 3),
)
@settings(max_examples=150)
def test_every_solver_on_any_tiny_backlog(
    rows: list[tuple[int, int, int]],
    spare: int,
    block_size: int,
    solver: str,
    lookahead: int,
    seed: int,
) -> None:
    """The same on whatever hypothesis comes up with: lengths, budget, releases, blocks, options."""
    entry = SOLVERS[solver]
    s, o, a = (list(column) for column in zip(*rows, strict=True))
    largest = max(x + block_size - 1 + y for x, y in zip(s, o, strict=True))
    blocks = -(-largest // block_size)
    case = Case(requests(s, o, blocks * block_size + spare, a), block_size)
    options: dict[str, Any] = {}
    if "lookahead" in entry.options:
        options["lookahead"] = lookahead
    if entry.anytime:
        options["stop"] = MaxIterations(2 if not entry.exact else UNTIL_PROVED)
    if not entry.deterministic:
        options["seed"] = seed
    hold(run(entry, case, **options), least_latency(planned_as(case)))


@pytest.mark.parametrize("beyond", [1, 2])
def test_a_wrong_bound_would_be_found(beyond: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound between optimum and value, or one that makes a bad plan optimal, does not pass."""
    case = SMALL["seven"]
    optimum = optimum_of("seven")
    orders = [name for name, solver in SOLVERS.items() if not solver.anytime]
    schedules = [solve(case.instance, solver=order).schedule for order in orders]
    bad = next(s for s in schedules if s.total_latency(case.instance) == optimum + 2)
    plan = Planned(bad, {}, bound=Fraction(optimum + beyond), bound_kind=BoundKind.CERTIFIED)
    monkeypatch.setitem(SOLVERS, "wrong", Solver("wrong", "", lambda instance, seed: plan))
    result = run(SOLVERS["wrong"], case)
    assert (result.status is Status.OPTIMAL) == (beyond == 2)
    with pytest.raises(AssertionError):
        hold(result, optimum)
