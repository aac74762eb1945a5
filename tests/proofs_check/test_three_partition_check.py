"""Deciders, drawn problems, and the check that holds them together."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_three_partition import has_partition

from sortedf.errors import OptionError
from sortedf.proofs_check import three_partition_check as check
from sortedf.proofs_check.three_partition import ThreePartition, reduce_three_partition
from sortedf.proofs_check.three_partition_deciders import (
    answer_of,
    by_clique,
    by_exact_cover,
    by_schedule,
)
from sortedf.proofs_check.three_partition_draw import by_residues, draw_no, draw_yes, moved
from sortedf.proofs_check.three_partition_long import reduce_to_long_outputs


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(9, 60))
def test_deciders_against_trying_everything(seed: int, m: int, target: int) -> None:
    """Each decider says what trying all ways says, and its partition is one."""
    problem = moved(m, target, random.Random(seed))
    expected = has_partition(list(problem.numbers), target)
    for decider in (by_clique, by_exact_cover):
        partition = decider(problem)
        assert (partition is not None) == expected
        if partition is not None:
            assert problem.check(partition) == partition
    reduction = reduce_three_partition(problem)
    assert answer_of(reduction, by_schedule(reduction)) is expected


def test_all_ways_agree_on_drawn_problems() -> None:
    """Clique, exact cover, least latency and the partition read off it: 150 problems, no fault."""
    answers = []
    for kind, problem in check.draw(150, 0, 5):
        verdict = check.decide(reduce_three_partition(problem), expected=check.KINDS[kind])
        assert verdict.faults == ()
        assert verdict.optimum is not None
        assert verdict.answer == (verdict.optimum == verdict.reduction.target_latency)
        assert verdict.answer == (verdict.recovered is not None)
        answers.append(verdict.answer)
    assert 50 < sum(answers) < 120


def test_the_largest_that_are_decided() -> None:
    """21 numbers of a few values, where cliques abound, with and without a partition."""
    for seed, target in ((0, 60), (1, 27), (2, 200)):
        for draw, expected in ((draw_yes, True), (draw_no, False)):
            verdict = check.decide(reduce_three_partition(draw(7, target, seed)), expected=expected)
            assert verdict.faults == ()
            assert verdict.optimum is not None


def test_findings_of_the_quick_form() -> None:
    """Both reductions hold; the number checked is the number asked for."""
    finding = check.check_reduction(30, seed=5, most_m=4)
    assert (finding.holds, finding.checked, finding.largest) == (True, 30, None)
    finding = check.check_long_outputs(9, seed=5)
    assert (finding.holds, finding.checked) == (True, 9)


@pytest.mark.parametrize("name", ["by_clique", "by_exact_cover", "answer_of"])
def test_a_decider_that_errs_is_a_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If one of them always says no, the problems with a partition are violations."""
    monkeypatch.setattr(check, name, lambda *arguments: False if name == "answer_of" else None)
    finding = check.check_reduction(9, seed=0, most_m=3)
    assert not finding.holds
    assert 3 <= len(finding.violations) < 9


def test_a_partition_that_is_none_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a decider returns is checked."""
    problem = ThreePartition([3, 3, 4, 4, 3, 3], 10)
    monkeypatch.setattr(check, "by_clique", lambda problem: ((0, 1, 4), (2, 3, 5)))
    (fault,) = check.decide(reduce_three_partition(problem)).faults
    assert "the triple (0, 1, 4) sums to 9, not 10" in fault


def test_not_decided_is_said() -> None:
    """Stopped at once, the exact solver leaves the answer open, and that is told."""
    problem = draw_no(5, 200, 1)
    reduction = reduce_three_partition(problem)
    result = by_schedule(reduction, iterations=1)
    assert answer_of(reduction, result) is None
    for beyond, answer in ((0, None), (Fraction(-1, 2), None), (Fraction(1, 3), False), (1, False)):
        bound = Fraction(reduction.target_latency + beyond)
        one_off = replace(by_schedule(reduction), lower_bound_exact=bound)
        assert one_off.total_latency == reduction.target_latency + 1
        assert answer_of(reduction, one_off) is answer
    assert (check.say(None), check.say(True), check.say(False)) == ("undecided", "yes", "no")


def test_stop_where_the_answer_is_known() -> None:
    """Without the optimum the search ends at a bound above the target, or a schedule at it."""
    no = reduce_to_long_outputs(draw_no(2, 500, 0), [0] * 6, least=9)
    result = by_schedule(no, optimum=False)
    assert answer_of(no, result) is False
    assert result.lower_bound is not None
    assert result.lower_bound < result.total_latency
    yes = reduce_to_long_outputs(draw_yes(2, 500, 0))
    assert answer_of(yes, by_schedule(yes, optimum=False)) is True


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(9, 2000))
def test_drawn_yes_has_a_partition(seed: int, m: int, target: int) -> None:
    """By trying everything; the same seed draws the same."""
    problem = draw_yes(m, target, seed)
    assert (problem.m, problem.target) == (m, target)
    assert has_partition(list(problem.numbers), target)
    assert draw_yes(m, target, seed) == problem


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(30, 2000))
def test_drawn_no_has_none(seed: int, m: int, target: int) -> None:
    """By trying everything; the same seed draws the same."""
    problem = draw_no(m, target, seed)
    assert (problem.m, problem.target) == (m, target)
    assert not has_partition(list(problem.numbers), target)
    assert draw_no(m, target, seed) == problem


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(9, 500))
def test_residues_leave_four_numbers_in_no_triple(seed: int, m: int, target: int) -> None:
    """The construction: four numbers of another residue, none of them in a triple of B."""
    problem = by_residues(m, target, random.Random(seed))
    if problem is None:
        assert target < 100
        return
    odd = {i for i, a in enumerate(problem.numbers) if (3 * a - target) % 4}
    assert len(odd) == 4
    for triple in combinations(range(3 * m), 3):
        if sum(problem.numbers[i] for i in triple) == target:
            assert not odd & set(triple)


def test_what_cannot_be_drawn_is_refused() -> None:
    """No triple sums to 8; every problem of target 10 has a partition; so has every one triple."""
    with pytest.raises(OptionError, match="no triple sums to 8"):
        draw_yes(2, 8, 0)
    with pytest.raises(OptionError, match="m = 2, B = 10; raise B"):
        draw_no(2, 10, 0)
    with pytest.raises(OptionError, match="m is 1"):
        draw_no(1, 100, 0)
    assert by_residues(1, 100, random.Random(0)) is None


def test_small_targets_are_drawn() -> None:
    """Every target from 9 on, and 3, 6 and 7, has problems."""
    for target in (3, 6, 7, *range(9, 60)):
        for seed in range(5):
            assert draw_yes(3, target, seed).target == target
