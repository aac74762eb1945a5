"""The 3-Partition reductions put to the test: every way to decide a problem, held together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sortedf.errors import VerificationError
from sortedf.model import Result, Schedule, Status
from sortedf.proofs_check.finding import Finding
from sortedf.proofs_check.three_partition import (
    Partition,
    Reduction,
    ThreePartition,
    reduce_three_partition,
)
from sortedf.proofs_check.three_partition_deciders import (
    answer_of,
    by_clique,
    by_exact_cover,
    by_schedule,
)
from sortedf.proofs_check.three_partition_draw import by_residues, moved, planted
from sortedf.proofs_check.three_partition_long import reduce_to_long_outputs

TARGETS = (20, 30, 60, 100, 250, 1000, 100_000)
"""A drawn problem has a target between half and all of one of these."""

KINDS = {"planted": True, "spoilt": None, "by residues": False}
"""How a problem is drawn, and the answer that this makes certain."""


@dataclass(frozen=True)
class Verdict:
    """What the ways to decide a problem said.

    Parameters
    ----------
    reduction
        The problem and its backlog.
    clique, cover
        The partition that each found, ``None`` for none.
    result
        The schedule of the exact solver, with its bound.
    by_schedule
        The answer read off it; ``None`` where it did not suffice.
    recovered
        The partition read off the schedule, ``None`` where it was refused.
    faults
        What does not go together, a line each: a finding.
    """

    reduction: Reduction
    clique: Partition | None
    cover: Partition | None
    result: Result
    by_schedule: bool | None
    recovered: Partition | None
    faults: tuple[str, ...] = ()

    @property
    def answer(self) -> bool:
        """Whether there is a partition; by the clique, should they not agree."""
        return self.clique is not None

    @property
    def optimum(self) -> int | None:
        """The least total latency (steps), if proved."""
        return self.result.total_latency if self.result.status is Status.OPTIMAL else None


def decide(reduction: Reduction, *, expected: bool | None = None, optimum: bool = True) -> Verdict:
    """Decide a problem in all ways and compare what they say.

    Every partition found is checked and taken through the backlog and back; the best schedule, made
    to miss the target by one, must be refused.

    Parameters
    ----------
    reduction
        The problem and its backlog.
    expected
        The answer, where the problem was drawn so that it is certain.
    optimum
        Whether the exact solver is to go on to the optimum when the answer is known.
    """
    problem = reduction.problem
    result = by_schedule(reduction, optimum=optimum)
    verdict = Verdict(
        reduction,
        by_clique(problem),
        by_exact_cover(problem),
        result,
        answer_of(reduction, result),
        _recover(reduction, result.schedule),
    )
    return replace(verdict, faults=tuple(_faults(verdict, expected)))


def draw(count: int, seed: int, most_m: int) -> Iterator[tuple[str, ThreePartition]]:
    """Draw problems of 1 to ``most_m`` triples, each with its kind, one of ``KINDS``."""
    rng = random.Random(f"reduction {seed}")
    names = list(KINDS)
    number = 0
    while number < count:
        kind = names[number % len(names)]
        m = rng.randint(1 if kind == "planted" else 2, max(2, most_m))
        most = rng.choice(TARGETS)
        target = rng.randint(max(9, most // 2), most)
        problem: ThreePartition | None
        if kind == "planted":
            problem = planted(min(m, most_m), target, rng)
        elif kind == "spoilt":
            problem = moved(m, target, rng)
        else:
            problem = by_residues(m, target, rng)
        if problem is not None:
            number += 1
            yield kind, problem


def check_reduction(count: int, seed: int, most_m: int = 5) -> Finding:
    """Check the reduction to one-token outputs on ``count`` drawn problems, m up to ``most_m``.

    A third has a partition by construction, a third has none by construction, and of the others,
    planted and then spoilt, nobody knows before. Takes some 20 ms each up to m = 5.
    """
    wrong = []
    for kind, problem in draw(count, seed, most_m):
        verdict = decide(reduce_three_partition(problem), expected=KINDS[kind])
        if verdict.faults:
            wrong.append(verdict.reduction.instance)
    return Finding(
        claim="target met just if there is a 3-partition",
        source="[1], NP-hard by 3-Partition; the reduction is derived for this project",
        checked=count,
        largest=None,
        violations=tuple(wrong),
    )


def check_long_outputs(count: int, seed: int, most_m: int = 2) -> Finding:
    """Check the reduction to longer outputs likewise; every other time of two lengths.

    The exact solver stops where the answer is known, within half a second at m = 2. At m = 3, or
    with outputs all different, it rarely gets there; what it cannot decide counts as a violation.
    """
    wrong = []
    rng = random.Random(f"long outputs {seed}")
    for number, (kind, problem) in enumerate(draw(count, seed, most_m)):
        beyond = [rng.randint(0, number % 2) for _ in problem.numbers]
        reduction = reduce_to_long_outputs(problem, beyond, least=rng.randint(2, 9))
        verdict = decide(reduction, expected=KINDS[kind], optimum=False)
        if verdict.faults:
            wrong.append(reduction.instance)
    return Finding(
        claim="target met just if there is a 3-partition, outputs of many tokens",
        source="derived for this project",
        checked=count,
        largest=None,
        violations=tuple(wrong),
    )


def say(answer: bool | None) -> str:
    """Spell an answer."""
    return "undecided" if answer is None else "yes" if answer else "no"


def _recover(reduction: Reduction, schedule: Schedule) -> Partition | None:
    try:
        return reduction.partition(schedule)
    except VerificationError:
        return None


def _faults(verdict: Verdict, expected: bool | None) -> Iterator[str]:
    """Say what does not go together."""
    reduction, result = verdict.reduction, verdict.result
    answers = {
        "clique": verdict.clique is not None,
        "exact cover": verdict.cover is not None,
        "schedule": verdict.by_schedule,
        "partition recovered": verdict.recovered is not None,
    }
    if expected is not None:
        answers["construction"] = expected
    if len(set(answers.values())) > 1:
        yield ", ".join(f"{way}: {say(answer)}" for way, answer in answers.items())
    m = reduction.problem.m
    least = 3 * int(reduction.instance.output_tokens.min()) * m * (m + 1) // 2
    if result.total_latency < least:
        yield f"a schedule of total latency {result.total_latency}, below {least}"
    for partition in (verdict.clique, verdict.cover, verdict.recovered):
        if partition is None:
            continue
        try:
            if reduction.partition(reduction.schedule(partition)) != partition:
                yield f"the partition {partition} does not come back from its schedule"
        except VerificationError as error:
            yield f"the partition {partition} is refused: {error}"
    if _recover(reduction, _miss(reduction, result.schedule)) is not None:
        yield "a schedule that misses the target is not refused"


def _miss(reduction: Reduction, schedule: Schedule) -> Schedule:
    """Let the last request wait until the target is missed by one; as it is, if it is missed.

    Feasible: whatever is active at its later steps was active at its first, together with it.
    """
    starts = schedule.starts.copy()
    spare = reduction.target_latency - schedule.total_latency(reduction.instance)
    starts[starts.argmax()] += max(0, spare + 1)
    return Schedule(starts)
