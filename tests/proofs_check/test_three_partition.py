"""The 3-Partition problem, its reductions to backlogs, and the maps both ways."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from brute_force import least_latency
from hypothesis import given
from hypothesis import strategies as st
from naive_three_partition import has_partition, least_latency_by_cp_sat

from sortedf import Instance, Schedule
from sortedf.errors import InputError, InvalidRequestError, OptionError, VerificationError
from sortedf.proofs_check import three_partition_check as check
from sortedf.proofs_check.three_partition import Reduction, ThreePartition, reduce_three_partition
from sortedf.proofs_check.three_partition_deciders import by_clique
from sortedf.proofs_check.three_partition_draw import moved, planted
from sortedf.proofs_check.three_partition_long import reduce_to_long_outputs
from sortedf.verify import verify

TEN = ThreePartition([3, 3, 4, 4, 3, 3], 10)


def by_definition(numbers: list[int], target: int) -> bool:
    """Whether numbers are a 3-Partition problem, in fractions."""
    m = Fraction(len(numbers), 3)
    quarter, half = Fraction(target, 4), Fraction(target, 2)
    return (
        m >= 1
        and m.denominator == 1
        and sum(numbers) == m * target
        and all(quarter < a < half for a in numbers)
    )


@given(st.lists(st.integers(0, 9), max_size=7), st.integers(-1, 20))
def test_what_is_no_problem_is_refused(numbers: list[int], target: int) -> None:
    """A problem is taken just if it is one; what is refused comes with a line at least."""
    if by_definition(numbers, target):
        problem = ThreePartition(numbers, target)
        assert (problem.numbers, problem.m) == (tuple(numbers), len(numbers) // 3)
        return
    with pytest.raises(InputError, match="3-Partition problem: "):
        ThreePartition(numbers, target)


REFUSED: list[tuple[list[Any], Any, str]] = [
    ([], 10, "there are 0 numbers; there must be 3 for each triple"),
    ([3, 3, 4, 4], 10, "there are 4 numbers"),
    ([3, 3, 3], 10, "the numbers sum to 9; they must sum to 1 x 10 = 10"),
    ([25, 35, 40], 100, "number 1 is 25; it must be above a quarter and below half"),
    ([26, 24, 50], 100, "number 3 is 50; it must be above a quarter and below half"),
    ([3, 3.0, 4], 10, "number 2 is 3.0; it must be a whole number"),
    ([3, True, "4"], 10, "number 3 is '4'; it must be a whole number"),
    ([3, 3, 10**5000], 10, "number 3 is a number of 16610 bits"),
    ([3, 3, 4], 10.0, "the target is 10.0; it must be a whole number from 3"),
    ([3, 3, 4], 2, "the target is 2; it must be"),
    ([3, 3, 4], 2**40 + 1, "the target is 1099511627777; it must be"),
    ([2**38 + 2**36] * 6, 3 * (2**38 + 2**36), "a backlog has at most 2^40 tokens"),
]


@pytest.mark.parametrize(("numbers", "target", "message"), REFUSED)
def test_the_reason_is_told(numbers: list[Any], target: Any, message: str) -> None:
    """Each way to be wrong has its message."""
    with pytest.raises(InputError) as caught:
        ThreePartition(numbers, target)
    assert message in str(caught.value)


def test_all_faults_are_told_at_once() -> None:
    """One line for each number that is wrong."""
    with pytest.raises(InputError) as caught:
        ThreePartition([1, 30, 99, 30], 100)
    assert len(caught.value.faults) == 3


def test_the_reduction_by_hand() -> None:
    """Prompts one below the numbers, the budget B; 3 m (m + 1) / 2 is the target."""
    reduction = reduce_three_partition(TEN)
    assert reduction.instance == Instance([2, 2, 3, 3, 2, 2], [1] * 6, 10)
    assert (reduction.target_latency, reduction.factor) == (9, 1)
    assert reduction.schedule([(5, 2, 0), (1, 3, 4)]) == Schedule([0, 1, 0, 1, 1, 0])
    assert reduction.partition(Schedule([1, 0, 0, 1, 1, 0])) == ((1, 2, 5), (0, 3, 4))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_ones_are_doubled(m: int) -> None:
    """A prompt has a token at least: a problem of ones is doubled, its budget too."""
    problem = ThreePartition([1] * (3 * m), 3)
    reduction = reduce_three_partition(problem)
    assert reduction.instance == Instance([1] * (3 * m), [1] * (3 * m), 6)
    assert reduction.factor == 2
    verdict = check.decide(reduction, expected=True)
    assert (verdict.faults, verdict.optimum) == ((), 3 * m * (m + 1) // 2)


@given(st.integers(3, 300), st.data())
def test_ones_are_in_problems_of_target_three_alone(target: int, data: st.DataObject) -> None:
    """No other target takes a 1, so that no other problem is doubled."""
    numbers = data.draw(st.lists(st.integers(2, max(2, target // 2)), min_size=2, max_size=2))
    with (
        pytest.raises(InputError, match="number 1 is 1")
        if target > 3
        else pytest.raises(InputError)
    ):
        ThreePartition([1, *numbers], target)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([9, 13, 31, 100, 1001]))
def test_maps_round_trip(seed: int, m: int, target: int) -> None:
    """Partition, schedule, partition; and schedule, partition, schedule: both come back."""
    rng = random.Random(seed)
    triples = [planted(1, target, rng).numbers for _ in range(m)]
    problem = ThreePartition([a for triple in triples for a in triple], target)
    places = [(3 * k, 3 * k + 1, 3 * k + 2) for k in range(m)]
    rng.shuffle(places)
    for reduction in (reduce_three_partition(problem), reduce_to_long_outputs(problem)):
        schedule = reduction.schedule(places)
        instance = reduction.instance
        report = verify(
            instance.prompt_tokens.tolist(),
            instance.output_tokens.tolist(),
            None,
            instance.kv_tokens,
            schedule.starts.tolist(),
        )
        assert report.ok
        assert report.total_latency is not None
        assert report.total_latency <= reduction.target_latency
        partition = reduction.partition(schedule)
        assert partition == tuple(places)
        assert reduction.schedule(partition) == schedule
    assert reduce_three_partition(problem).target_latency == 3 * m * (m + 1) // 2


def test_missing_the_target_by_one_is_refused() -> None:
    """One request a step late: feasible, and no proof of anything."""
    reduction = reduce_three_partition(TEN)
    late = Schedule([0, 0, 0, 1, 1, 2])
    assert late.total_latency(reduction.instance) == 10
    with pytest.raises(VerificationError) as caught:
        reduction.partition(late)
    assert str(caught.value) == "the total latency 10 misses the target 9 by 1"
    # The 6 is in no triple of 13: without a partition, one off is the best there is.
    spoilt = reduce_three_partition(ThreePartition([4, 4, 4, 4, 4, 6], 13))
    verdict = check.decide(spoilt, expected=False)
    assert (verdict.faults, verdict.optimum, verdict.by_schedule) == ((), 10, False)
    with pytest.raises(VerificationError, match="misses the target 9 by 1"):
        spoilt.partition(verdict.result.schedule)


@pytest.mark.parametrize(
    ("starts", "message"),
    [
        ([0, 0, 0, 0, 1, 1], "14 of 10 tokens at step 1"),
        ([-1, 0, 0, 1, 1, 0], "before its release"),
        ([0, 0, 0, 1, 1], "5 starts for 6 requests"),
        ([0, 0, 1, 1, 1, 0], "11 of 10 tokens"),
    ],
)
def test_infeasible_schedules_are_refused(starts: list[int], message: str) -> None:
    """The verifier looks at a schedule before anything is read off it."""
    with pytest.raises(VerificationError) as caught:
        reduce_three_partition(TEN).partition(Schedule(starts))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ([(0, 1, 2), (3, 4, 6)], "no number at position 6"),
        ([(0, 1, 2), (3, 4, -1)], "no number at position -1"),
        ([(0, 1, 2), (3, 4, 4)], "position 4 is in 2 triples"),
        ([(0, 1, 2)], "position 3 is in 0 triples"),
        ([(0, 1, 2), (3, 4)], "the triple (3, 4) has 2 numbers"),
        ([(0, 1, 4), (2, 3, 5)], "the triple (0, 1, 4) sums to 9, not 10"),
    ],
)
def test_what_is_no_partition_is_refused(partition: list[tuple[int, ...]], message: str) -> None:
    """It goes to no schedule, with the reason."""
    with pytest.raises(VerificationError) as caught:
        reduce_three_partition(TEN).schedule(partition)
    assert message in str(caught.value)


@pytest.mark.parametrize("seed", range(12))
def test_the_claim_on_all_schedules(seed: int) -> None:
    """The least latency of all schedules, tried one by one, meets the target just if it should."""
    rng = random.Random(seed)
    problem = moved(2, rng.choice([13, 14, 16, 23, 40]), rng)
    reduction = reduce_three_partition(problem)
    least = least_latency(reduction.instance)
    assert least >= reduction.target_latency
    expected = has_partition(list(problem.numbers), problem.target)
    assert (least == reduction.target_latency) == expected


# What a wrong reduction would be; the check has to notice each.
def prompts_as_they_are(problem: ThreePartition) -> Reduction:
    """Leave out the token that is made: s = a."""
    n = len(problem.numbers)
    instance = Instance(list(problem.numbers), [1] * n, problem.target)
    return Reduction(problem, instance, reduce_three_partition(problem).target_latency)


def target_off_by(step: int, problem: ThreePartition) -> Reduction:
    """Ask for a target that is a bit off."""
    right = reduce_three_partition(problem)
    return Reduction(problem, right.instance, right.target_latency + step)


def budget_off_by(tokens: int, problem: ThreePartition) -> Reduction:
    """Give a budget that is a bit off."""
    right = reduce_three_partition(problem)
    instance = right.instance.replace(kv_tokens=problem.target + tokens)
    return Reduction(problem, instance, right.target_latency)


@pytest.mark.parametrize(
    "wrong",
    [
        prompts_as_they_are,
        lambda problem: target_off_by(1, problem),
        lambda problem: target_off_by(-1, problem),
        lambda problem: budget_off_by(1, problem),
        lambda problem: budget_off_by(-1, problem),
    ],
    ids=["prompts", "target+1", "target-1", "budget+1", "budget-1"],
)
def test_a_wrong_reduction_is_found(wrong: Any) -> None:
    """Some problem of a small battery tells each wrong reduction from the right one."""
    battery = [(kind, problem) for kind, problem in check.draw(30, 2, 3) if problem.target < 200]
    for kind, problem in battery:
        assert (
            check.decide(reduce_three_partition(problem), expected=check.KINDS[kind]).faults == ()
        )
    found = [
        check.decide(wrong(problem), expected=check.KINDS[kind]).faults for kind, problem in battery
    ]
    assert any(found)


def test_doubling_left_out_is_found() -> None:
    """Ones cannot be prompts of no tokens; and doubled, they need the doubled budget."""
    ones = ThreePartition([1] * 6, 3)
    with pytest.raises(InvalidRequestError):
        Instance([a - 1 for a in ones.numbers], [1] * 6, 3)
    halved = Reduction(ones, Instance([1] * 6, [1] * 6, 3), 9, 2)
    assert check.decide(halved, expected=True).faults


class TestLongOutputs:
    """Outputs of many tokens, all lengths different."""

    def test_general_position(self) -> None:
        """No two prompts or outputs are the same, also of equal numbers; none is one token."""
        instance = reduce_to_long_outputs(ThreePartition([5] * 15, 15)).instance
        assert len(set(instance.prompt_tokens.tolist())) == 15
        assert len(set(instance.output_tokens.tolist())) == 15
        assert instance.output_tokens.min() > 1

    @given(st.integers(0, 10**6), st.data())
    def test_memory_is_sums_of_numbers(self, seed: int, data: st.DataObject) -> None:
        """Whatever requests are active, and for how long, they fit just if their numbers do."""
        rng = random.Random(seed)
        problem = planted(rng.randint(1, 4), rng.choice([9, 13, 100]), rng)
        n = len(problem.numbers)
        beyond = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
        instance = reduce_to_long_outputs(problem, beyond).instance
        active = rng.sample(range(n), rng.randint(1, min(n, 5)))
        for elapsed in ("first", "last", "any"):
            held = 0
            for i in active:
                s, o = int(instance.prompt_tokens[i]), int(instance.output_tokens[i])
                held += s + {"first": 1, "last": o, "any": rng.randint(1, o)}[elapsed]
            fits = sum(problem.numbers[i] for i in active) <= problem.target
            assert (held <= instance.kv_tokens) == fits

    def test_memory_at_the_edges(self) -> None:
        """Three that sum to B fit with the largest lengths, at their last step; one more never."""
        numbers = [30, 33, 38, 26, 40, 33, 35, 31, 34]  # first three 101, last three 100
        problem = ThreePartition(numbers, 100)
        instance = reduce_to_long_outputs(problem, [0, 0, 0, 9, 9, 9, 9, 9, 9]).instance
        s, o = instance.prompt_tokens.tolist(), instance.output_tokens.tolist()
        assert sum(s[:3]) + 3 > instance.kv_tokens
        assert sum(s[6:]) + sum(o[6:]) <= instance.kv_tokens

    def test_any_schedule_that_meets_the_target_gives_a_partition(self) -> None:
        """Not only the tidy ones: starts are pulled about at random, and what meets it is read."""
        rng = random.Random(0)
        accepted = 0
        refusals = []
        for _ in range(20):
            problem = planted(rng.randint(2, 4), 20, rng)
            reduction = reduce_to_long_outputs(problem)
            tidy = by_clique(problem)
            assert tidy is not None
            starts = reduction.schedule(tidy).starts.copy()
            for _ in range(50):
                moved_starts = starts.copy()
                moved_starts[rng.randrange(len(starts))] += rng.choice([-3, -1, 1, 2, 5])
                try:
                    partition = reduction.partition(Schedule(moved_starts))
                except VerificationError as error:
                    refusals.append(str(error))
                else:
                    accepted += 1
                    starts = moved_starts
                    assert set(partition) == set(tidy)
        assert accepted > 200
        # Infeasible or too late; never that what was read off is no partition.
        assert all(
            " tokens at step" in text or "misses" in text or "before its" in text
            for text in refusals
        )

    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("beyond", [None, [0] * 6])
    def test_the_claim_by_cp_sat(self, seed: int, beyond: list[int] | None) -> None:
        """The least latency, with memory by the model, meets the target just if it should."""
        rng = random.Random(seed)
        problem = moved(2, rng.choice([13, 20, 60, 999]), rng)
        reduction = reduce_to_long_outputs(problem, beyond)
        least = least_latency_by_cp_sat(reduction.instance)
        expected = has_partition(list(problem.numbers), problem.target)
        assert (least <= reduction.target_latency) == expected
        if not expected:  # the gap of the proof
            k = int(reduction.instance.output_tokens.min())
            assert least >= 9 * k + k

    def test_options_are_checked(self) -> None:
        """As many x as numbers, whole, none below 0; and what gets too large is refused."""
        with pytest.raises(OptionError, match="5 values for 6 numbers"):
            reduce_to_long_outputs(TEN, [0] * 5)
        with pytest.raises(OptionError, match="beyond is -1"):
            reduce_to_long_outputs(TEN, [0, 0, 0, 0, 0, -1])
        with pytest.raises(OptionError, match="least is 0"):
            reduce_to_long_outputs(TEN, least=0)
        with pytest.raises(InvalidRequestError, match="2\\^40"):
            reduce_to_long_outputs(ThreePartition([2**38 // 3] * 3, 2**38 // 3 * 3))

    def test_target_off_is_found(self) -> None:
        """Without room above the target there would be problems that it tells wrongly."""
        spoilt = ThreePartition([4, 4, 4, 4, 4, 6], 13)
        right = reduce_to_long_outputs(spoilt, [0] * 6, least=2)
        assert check.decide(right, expected=False, optimum=False).faults == ()
        wrong = Reduction(spoilt, right.instance, right.target_latency + 2)
        assert check.decide(wrong, expected=False, optimum=False).faults
