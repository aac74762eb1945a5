"""Sorted-F: phase 1 with each selector, phase 2, and the three solvers of the registry."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import InfeasibleError, Instance, OptionError
from sortedf.model.instance import IntArray
from sortedf.solvers import sorted_f
from sortedf.solvers.in_order import schedule_in_order
from sortedf.solvers.sorted_f import (
    SOLVERS,
    exact_batch,
    quantile_batch,
    sorted_f_order,
    swap_batch,
)

PLANS = {solver.name: solver for solver in SOLVERS}
SELECTORS: tuple[sorted_f.Selector, ...] = (exact_batch, swap_batch, quantile_batch)

backlogs = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(0, 9)), min_size=1, max_size=10
).map(
    lambda rows: Instance(
        [s for s, _, _ in rows],
        [o for _, o, _ in rows],
        60 + len(rows) % 3 * 25,
        release=[a for _, _, a in rows],
    )
)


def is_feasible(instance: Instance, batch: tuple[int, ...]) -> bool:
    s, o = instance.prompt_tokens, instance.output_tokens
    return all(
        sum(int(s[i]) + t for i in batch if o[i] >= t) <= instance.kv_tokens
        for t in range(1, int(o.max()) + 1)
    )


def naive_order_values(instance: Instance) -> list[Fraction]:
    """Least F of each batch of phase 1 as the exact order leaves them, by trying every subset."""
    order = sorted_f_order(instance, exact_batch).tolist()
    values = []
    while order:
        best, size = min(
            (Fraction(sum(int(instance.output_tokens[i]) for i in batch), k * k), -k)
            for k in range(1, len(order) + 1)
            for batch in combinations(order, k)
            if is_feasible(instance, batch)
        )
        head = tuple(order[:-size])
        assert is_feasible(instance, head)
        assert Fraction(sum(int(instance.output_tokens[i]) for i in head), size * size) == best
        assert [int(instance.output_tokens[i]) for i in head] == sorted(
            int(instance.output_tokens[i]) for i in head
        )
        values.append(best)
        order = order[-size:]
    return values


@given(backlogs)
@settings(max_examples=60)
def test_exact_order_is_batches_of_least_f_in_a_row(instance: Instance) -> None:
    """Each batch is one of least F (most requests) of what remains, sorted by output."""
    values = naive_order_values(instance)
    # What remains only shrinks, so that the least F never falls.
    assert values == sorted(values)


@given(backlogs, st.sampled_from(sorted(PLANS)), st.integers(1, 3))
@settings(max_examples=150)
def test_every_solver_plans_every_request_once(
    instance: Instance, name: str, lookahead: int
) -> None:
    """With releases and lookahead the schedule is feasible, complete, and the same twice."""
    planned = PLANS[name].plan(instance, 0, lookahead=lookahead)
    report = sortedf.verify.verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.kv_tokens,
        planned.schedule.starts.tolist(),
    )
    assert report.ok
    assert planned == PLANS[name].plan(instance, 1, lookahead=lookahead)


@pytest.mark.parametrize("select", SELECTORS)
def test_phase_two_is_list_scheduling_of_phase_one(select: sorted_f.Selector) -> None:
    """The order is a permutation, and the solver's schedule is list scheduling by it."""
    rng = random.Random(3)
    instance = Instance(
        [rng.randint(1, 40) for _ in range(60)], [rng.randint(1, 40) for _ in range(60)], 200
    )
    order = sorted_f_order(instance, select)
    assert sorted(order.tolist()) == list(range(60))
    name = list(PLANS)[SELECTORS.index(select)]
    assert PLANS[name].plan(instance, 0).schedule == schedule_in_order(instance, order)


def test_any_selector_can_be_plugged_in() -> None:
    """A selector that takes one request at a time, the last left, gives the order it says."""

    def last(prompt: IntArray, output: IntArray, left: IntArray, kv_tokens: int) -> IntArray:
        return left[-1:]

    instance = Instance([1, 1, 1], [5, 9, 7], 20)
    assert sorted_f_order(instance, last).tolist() == [1, 2, 0]


@pytest.mark.parametrize("select", SELECTORS)
def test_equal_requests_stay_in_input_order(select: sorted_f.Selector) -> None:
    """Equal requests are batched by input order: ties are broken by position, everywhere."""
    instance = Instance([7] * 20, [5] * 20, 50)
    assert sorted_f_order(instance, select).tolist() == list(range(20))


def test_example_of_the_paper_kind() -> None:
    """A long prompt of short output does not go first: F prefers the many small requests.

    Output order (MC-SF) starts the request of 90 prompt tokens and blocks the ten others; by F the
    batch of ten is better: 20 / 10^2 against 1 / 1^2.
    """
    instance = Instance([90, *[7] * 10], [1, *[2] * 10], 95)
    order = sorted_f_order(instance, exact_batch).tolist()
    assert order == [*range(1, 11), 0]
    assert sortedf.solve(instance, solver="mcsf", bound=False).schedule.starts[0] == 0


@pytest.mark.parametrize("select", SELECTORS)
def test_oversized_requests_are_named(select: sorted_f.Selector) -> None:
    """A request larger than the budget is an error that names it, whichever selector."""
    with pytest.raises(InfeasibleError, match="'1'"):
        sorted_f_order(Instance([1, 9], [1, 9], 17), select)


def test_sizes_beyond_a_solver_are_refused_not_replaced() -> None:
    """Beyond its size a solver says that it does not support the instance, and refuses to plan."""
    for name, most in (("exact-dp", 2_000), ("local-swap", 20_000)):
        fits, too_many = (Instance(np.ones(n, int), np.ones(n, int), 2) for n in (most, most + 1))
        assert PLANS[name].supports(fits)
        assert not PLANS[name].supports(too_many)
        with pytest.raises(OptionError, match=f"{name} takes up to {most}"):
            sortedf.solve(too_many, solver=name)
    assert PLANS["quantile-greedy"].supports(too_many)


def test_running_out_of_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a search is given up for memory, exact-dp says so and names the way out."""
    monkeypatch.setattr(sorted_f, "select_exactly", lambda *_: np.empty(0, np.int64))
    with pytest.raises(OptionError, match="local-swap"):
        PLANS["exact-dp"].plan(Instance([1], [1], 2), 0)


def test_exact_batches_of_real_lengths(shared: Path) -> None:
    """First batches on the workloads: (size, sum of outputs) that the plain program found too."""
    for name, kv_tokens, expected in (
        ("mix8020-2000-s0", 16492, (636, 11733)),
        ("azure-1000-s0", 100000, (273, 22046)),
    ):
        backlog = sortedf.read_backlog(shared / "instances" / f"{name}.csv", kv_tokens=kv_tokens)
        by_output = np.argsort(backlog.output_tokens, kind="stable")
        s, o = backlog.prompt_tokens[by_output], backlog.output_tokens[by_output]
        batch = exact_batch(s, o, np.arange(len(o)), kv_tokens)
        assert (len(batch), int(o[batch].sum())) == expected
