"""A_min and A_max: the replay against a naive twin, a memory ledger, and list scheduling."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import InfeasibleError, Instance, OptionError
from sortedf.solvers.a_min import (
    RULES,
    BoundedPlan,
    Rule,
    intervals_around,
    length_classes,
    plan_with_bounds,
)
from sortedf.solvers.in_order import schedule_in_order
from sortedf.solvers.sorted_f import sorted_f_order, swap_batch

Bounded = tuple[Instance, list[int], list[int]]


def draw(rng: random.Random) -> Bounded:
    """Draw a tight little backlog, sometimes with releases, and bounds loose or close."""
    n = rng.randint(1, 14)
    kv_tokens = rng.randint(3, 60)
    output = [rng.randint(1, min(kv_tokens - 1, 25)) for _ in range(n)]
    prompt = [rng.randint(1, min(kv_tokens - o, rng.choice([2, 50]))) for o in output]
    release = [rng.choice([0, 0, rng.randint(0, 20)]) for _ in range(n)]
    lower = [rng.choice([1, o, rng.randint(1, o)]) for o in output]
    upper = [rng.choice([o, o + rng.randint(0, 9)]) for o in output]
    return Instance(prompt, output, kv_tokens, release=release), lower, upper


def naive_replay(
    instance: Instance, bound: list[int], rank: list[int] | None
) -> tuple[list[int], list[tuple[int, int, int]]]:
    """Step by step with lists and dictionaries, every future step looked at."""
    s, o, a = (
        x.tolist() for x in (instance.prompt_tokens, instance.output_tokens, instance.release)
    )
    current = list(bound)
    running: dict[int, int] = {}
    done: dict[int, int] = {}
    evicted = []
    step = 0
    while len(done) < len(o):
        for i, p in list(running.items()):
            if step - p == o[i]:
                done[i] = running.pop(i)

        def expected(i: int, now: int = step) -> int:
            return max(current[i], now - running[i] + 1)

        while sum(s[i] + step - p + 1 for i, p in running.items()) > instance.kv_tokens:
            i = min(running, key=lambda i: (expected(i), i))
            evicted.append((i, running[i], step))
            current[i] = max(current[i], step - running.pop(i))
        waiting = [i for i in range(len(o)) if i not in running and i not in done and a[i] <= step]
        for i in sorted(waiting, key=lambda i: ((rank or current)[i], i)):
            running[i] = step
            usage: Counter[int] = Counter()
            for j, p in running.items():
                for t in range(step + 1, p + expected(j) + 1):
                    usage[t] += s[j] + t - p
            if max(usage.values()) > instance.kv_tokens:
                del running[i]
                break
        step += 1
    return [done[i] for i in range(len(o))], evicted


def check_ledger(instance: Instance, plan: BoundedPlan) -> None:
    """Add up all runs, lost ones too, step by step: never over the budget, nothing runs twice."""
    usage: Counter[int] = Counter()
    busy: Counter[tuple[int, int]] = Counter()
    runs = [(i, int(p), int(instance.output_tokens[i])) for i, p in enumerate(plan.schedule.starts)]
    runs += [(i, p, e - p) for i, p, e in plan.evicted.tolist()]
    for i, p, length in runs:
        assert p >= instance.release[i]
        for k in range(1, length + 1):
            usage[p + k] += int(instance.prompt_tokens[i]) + k
            busy[i, p + k] += 1
    assert max(usage.values()) <= instance.kv_tokens
    assert set(busy.values()) == {1}
    assert plan.lost_tokens == sum(length for _, _, length in runs) - instance.output_tokens.sum()
    assert plan.lost_token_steps == sum(usage.values()) - instance.volume.sum()
    assert plan.evictions.tolist() == [
        sum(i == j for i, _, _ in plan.evicted.tolist()) for j in range(len(instance))
    ]


def test_replay_agrees_with_its_naive_twin_and_the_ledger() -> None:
    """On 150 backlogs and every rule: the twin's runs, and memory within the budget throughout."""
    rng = random.Random(1)
    evictions = 0
    for number in range(150):
        instance, lower, upper = draw(rng)
        for rule in RULES:
            plan = plan_with_bounds(instance, lower, upper, rule)
            rank = None
            bound = lower
            if rule == "sorted-f":
                order = sorted_f_order(instance.replace(output_tokens=lower), swap_batch)
                rank = np.argsort(order).tolist()
            if rule == "a-max":
                bound = np.minimum(upper, instance.kv_tokens - instance.prompt_tokens).tolist()
            starts, evicted = naive_replay(instance, bound, rank)
            assert plan.schedule.starts.tolist() == starts, (number, rule)
            assert [tuple(run) for run in plan.evicted.tolist()] == evicted
            check_ledger(instance, plan)
            evictions += len(evicted)
    assert evictions > 75


@given(st.randoms(use_true_random=False))
@settings(max_examples=100)
def test_exact_bounds_are_strict_list_scheduling(rng: random.Random) -> None:
    """With l = u = o nothing is lost, and the schedule is the kernel's by output or by Sorted-F."""
    instance, _, _ = draw(rng)
    o = instance.output_tokens
    by_output = np.argsort(o, kind="stable")
    for rule, order in (
        ("a-min", by_output),
        ("a-max", by_output),
        ("sorted-f", sorted_f_order(instance, swap_batch)),
    ):
        plan = plan_with_bounds(instance, o, o, rule)  # type: ignore[arg-type]
        assert plan.schedule == schedule_in_order(instance, order)
        assert plan.lost_tokens == plan.lost_token_steps == len(plan.evicted) == 0


@given(st.randoms(use_true_random=False), st.sampled_from(RULES))
@settings(max_examples=100)
def test_final_runs_pass_the_verifier(rng: random.Random, rule: Rule) -> None:
    """The runs that completed are a feasible schedule on their own; a-max never evicts."""
    instance, lower, upper = draw(rng)
    plan = plan_with_bounds(instance, lower, upper, rule)
    report = sortedf.verify.verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.kv_tokens,
        plan.schedule.starts.tolist(),
    )
    assert report.ok
    assert rule != "a-max" or not len(plan.evicted)


def test_the_least_bound_is_evicted_and_restarts() -> None:
    """By hand: M = 10, two requests of s = 1, o = 6 and bounds 1 and 2.

    Both start at 0 and hold 2 (1 + k) tokens: 10 at step 4, 12 would be at step 5. At 4 both are
    taken to need a fifth token, the first is evicted, and what it had is lost: 4 tokens, 2 + 3 + 4
    + 5 token-steps. Its bound is 4 now, and it starts again at once.
    """
    instance = Instance([1, 1], [6, 6], 10)
    plan = plan_with_bounds(instance, [1, 2], [6, 6])
    assert plan.evicted.tolist() == [[0, 0, 4]]
    assert plan.schedule.starts.tolist() == [4, 0]
    assert (plan.lost_tokens, plan.lost_token_steps) == (4, 14)


def test_bounds_for_experiments_hold() -> None:
    """Both ways to make bounds enclose the truth and leave room for the prompt."""
    rng = np.random.default_rng(5)
    instance = Instance(rng.integers(1, 50, 200), rng.integers(1, 900, 200), 950)
    for lower, upper in (
        *(intervals_around(instance, percent) for percent in (0, 20, 100)),
        *(length_classes(instance, base) for base in (2, 10)),
    ):
        assert (lower >= 1).all()
        assert (lower <= instance.output_tokens).all()
        assert (instance.output_tokens <= upper).all()
        assert (instance.prompt_tokens + upper <= 950).all()
    exact = intervals_around(instance, 0)
    assert (exact[0] == instance.output_tokens).all()
    assert (exact[1] == instance.output_tokens).all()
    assert length_classes(Instance([1] * 4, [1, 7, 8, 9], 99))[0].tolist() == [1, 4, 8, 8]


@pytest.mark.parametrize(
    ("lower", "upper", "fault"),
    [
        ([3, 1], [3, 3], "lower bound of request '0' is 3, its output 2"),
        ([1, 0], [3, 3], "lower bound of request '1' is 0"),
        ([1, 1], [3, 2], "upper bound of request '1' is 2, its output 3"),
        ([1], [3, 3], "lower must be 2 integers"),
        ([1, 1], [3.0, 3.0], "upper must be 2 integers"),
    ],
)
def test_wrong_bounds_are_named(lower: list[int], upper: list[float], fault: str) -> None:
    """Bounds that the truth breaks, or of a wrong shape or type, are refused with the request."""
    with pytest.raises(OptionError, match=fault):
        plan_with_bounds(Instance([1, 1], [2, 3], 9), lower, upper)


def test_unknown_rule_base_percent_and_oversized_request() -> None:
    """What is no rule, percentage, base, or does not fit is refused."""
    instance = Instance([1, 1], [2, 3], 9)
    with pytest.raises(OptionError, match="choose from a-min, sorted-f, a-max"):
        plan_with_bounds(instance, [1, 1], [3, 3], "b-min")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="percentage"):
        intervals_around(instance, 101)
    with pytest.raises(OptionError, match="base"):
        length_classes(instance, 1)
    with pytest.raises(InfeasibleError, match="'1'"):
        plan_with_bounds(Instance([1, 9], [1, 9], 17), [1, 1], [9, 9])
