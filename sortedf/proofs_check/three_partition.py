"""Least total latency is NP-hard: 3-Partition as a backlog of one-token outputs, both ways.

3-Partition: given 3m whole numbers a_i with B/4 < a_i < B/2 and sum m B, can they be put into m
triples that sum to B each? It is NP-complete even if the numbers are written in unary (Garey and
Johnson 1979, problem SP15). [1] says that the planning problem is NP-hard by 3-Partition; its
own construction was not to be had, so the one here, and its proof, are derived for this project.

*Reduction.* A request for each number, o_i = 1, s_i = a_i - 1, M = B, all released at 0. Is there a
schedule of total latency 3 m (m + 1) / 2 at most? A prompt has a token at least, so a number 1 has
to be doubled first, with all others and B: a 1 is below B/2 and above B/4 for B = 3 alone, where
all numbers are 1. M must be the doubled B: with the old one, 3, no two requests of 2 tokens fit
into a step.

*Claim.* There is such a schedule just if there is a partition.

*Proof.* Request i, completing at step c, holds s_i + 1 = a_i tokens at step c and none at any
other. So a schedule puts each number into one step, and it is feasible just if every step's
numbers sum to B at most. Four numbers are more than B, so a step has three at most, and after step
t at least 3m - 3t requests are unfinished. The total latency is the sum of these over t = 0, 1,
...: a request that completes at c is unfinished after c steps, 0 to c - 1. Hence

    TEL >= 3m + (3m - 3) + ... + 3 = 3 m (m + 1) / 2,

and equality needs just 3m - 3t unfinished after each t up to m: three requests at each of the steps
1..m, none later. Their sums are at most B each and m B together, so each is B: a partition.
Conversely the triples of a partition, one a step, are feasible and reach the bound. Doubling
changes no comparison of sums with B. The numbers of the backlog are at most twice those of the
problem, so it is NP-hard in the strong sense, already with all outputs of one token.

As TEL is whole, a schedule that misses the target by one proves nothing; there is such a schedule
for many problems without a partition (two requests at step m, one at m + 1).

[1] LLM Serving Optimization with Variable Prefill and Decode Lengths, arXiv 2508.06133.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from sortedf.errors import Fault, InputError, VerificationError
from sortedf.model import Instance, Schedule
from sortedf.model.instance import MAX_TOKENS
from sortedf.solvers.front import verified_latency

Triple = tuple[int, int, int]
Partition = tuple[Triple, ...]
"""Triples of positions in the numbers, each ascending."""

NAME = "3-Partition problem"
"""What faults of a problem that is in no file are said to be in."""


@dataclass(frozen=True)
class ThreePartition:
    """A 3-Partition problem, valid: 3m numbers between B/4 and B/2, sum m B.

    Parameters
    ----------
    numbers
        The numbers a_i, whole, at least three.
    target
        What each triple is to sum to, B, whole.

    Raises
    ------
    InputError
        With all that is wrong with them.
    """

    numbers: tuple[int, ...]
    target: int

    def __init__(self, numbers: Iterable[int], target: int) -> None:
        object.__setattr__(self, "numbers", tuple(numbers))
        object.__setattr__(self, "target", target)
        if texts := _faults(self.numbers, target):
            raise InputError([Fault(NAME, None, text) for text in texts])

    @property
    def m(self) -> int:
        """Number of triples."""
        return len(self.numbers) // 3

    def check(self, partition: Iterable[Sequence[int]]) -> Partition:
        """Check a partition and give it with its triples ascending, in the order given. O(m).

        Raises
        ------
        VerificationError
            With what keeps it from being one.
        """
        triples = [tuple(sorted(triple)) for triple in partition]
        count = Counter(i for triple in triples for i in triple)
        everyone = range(len(self.numbers))
        wrong = [f"the triple {t} has {len(t)} numbers" for t in triples if len(t) != 3]
        wrong += [f"there is no number at position {i}" for i in count if i not in everyone]
        wrong += [
            f"the number at position {i} is in {count[i]} triples"
            for i in everyone
            if count[i] != 1
        ]
        if not wrong:
            sums = {t: sum(self.numbers[i] for i in t) for t in triples}
            wrong = [
                f"the triple {t} sums to {total}, not {self.target}"
                for t, total in sums.items()
                if total != self.target
            ]
        if wrong:
            raise VerificationError(wrong)
        return tuple((i, j, k) for i, j, k in triples)


@dataclass(frozen=True)
class Reduction:
    """A backlog with a schedule of ``target_latency`` at most just if there is a partition.

    Parameters
    ----------
    problem
        What was reduced.
    instance
        Request i stands for number i.
    target_latency
        Total latency (steps) that a schedule has to reach.
    factor
        What the numbers and B were multiplied by first.
    """

    problem: ThreePartition
    instance: Instance
    target_latency: int
    factor: int = 1

    def schedule(self, partition: Iterable[Sequence[int]]) -> Schedule:
        """Run the triples one after the other: a schedule that reaches the target, verified. O(m).

        Raises
        ------
        VerificationError
            If it is no partition.
        """
        triples = self.problem.check(partition)
        longest = int(self.instance.output_tokens.max())
        starts = np.empty(len(self.instance), np.int64)
        for place, triple in enumerate(triples):
            starts[list(triple)] = place * longest
        schedule = Schedule(starts)
        self._refuse_above_target(verified_latency(self.instance, schedule))
        return schedule

    def partition(self, schedule: Schedule) -> Partition:
        """Read the partition off a schedule that reaches the target, both verified. O(m log m).

        By completion (then position), three at a time: the proofs say that these sum to B.

        Raises
        ------
        VerificationError
            If the schedule is not feasible, or misses the target.
        """
        if len(schedule) != len(self.instance):
            text = f"the schedule has {len(schedule)} starts for {len(self.instance)} requests"
            raise VerificationError([text])
        self._refuse_above_target(verified_latency(self.instance, schedule))
        order = np.argsort(schedule.starts + self.instance.output_tokens, kind="stable").tolist()
        positions = iter(order)
        return self.problem.check(list(islice(positions, 3)) for _ in range(self.problem.m))

    def _refuse_above_target(self, latency: int) -> None:
        if latency > self.target_latency:
            text = f"the total latency {latency} misses the target {self.target_latency}"
            raise VerificationError([f"{text} by {latency - self.target_latency}"])


def reduce_three_partition(problem: ThreePartition) -> Reduction:
    """Give the backlog of one-token outputs, see the top of this file. O(m)."""
    factor = 2 if min(problem.numbers) == 1 else 1
    instance = Instance(
        prompt_tokens=[factor * a - 1 for a in problem.numbers],
        output_tokens=[1] * len(problem.numbers),
        kv_tokens=factor * problem.target,
    )
    return Reduction(problem, instance, 3 * problem.m * (problem.m + 1) // 2, factor)


def _faults(numbers: tuple[int, ...], target: int) -> list[str]:
    """Say what keeps these from being a 3-Partition problem, one line each."""
    if type(target) is not int or not 3 <= target <= MAX_TOKENS:
        return [f"the target is {_shown(target)}; it must be a whole number from 3 to 2^40"]
    faults = []
    for place, a in enumerate(numbers, 1):
        if type(a) is not int:
            faults.append(f"number {place} is {_shown(a)}; it must be a whole number")
        elif not target < 4 * a < 2 * target:
            faults.append(
                f"number {place} is {_shown(a)}; it must be above a quarter and below half of the "
                f"target {target}"
            )
    n = len(numbers)
    if n == 0 or n % 3:
        faults.append(f"there are {n} numbers; there must be 3 for each triple: 3, 6, 9, ...")
    if faults:
        return faults
    total, needed = sum(numbers), n // 3 * target
    if total != needed:
        return [f"the numbers sum to {total}; they must sum to {n // 3} x {target} = {needed}"]
    if needed > MAX_TOKENS:
        return [f"the numbers sum to {needed}; a backlog has at most 2^40 tokens"]
    return []


def _shown(value: object) -> str:
    """Spell any value in one short line."""
    if type(value) is int and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:40]
