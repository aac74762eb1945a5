"""Mutation test: whatever small thing is changed in the verifier, some test case notices."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from mutants import endless_loops, load, mutants, survivors
from twin import inspect

from sortedf import verify

SOURCE = Path(verify.__file__).read_text(encoding="utf-8")
BIG = 2**62

EQUIVALENT: dict[str, str] = {}
"""Mutants that do the same as the original, ``change: why``; there are none."""


class Case(NamedTuple):
    """Arguments of ``verify`` and what it has to answer."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    answer: object


def by_twin(*arguments: Any, **options: Any) -> Case:
    """Case whose answer the naive twin gives."""
    facts, latency, makespan, peak = inspect(*arguments, **options)
    return Case(arguments, options, (facts, len(facts), not facts, latency, makespan, peak))


def by_hand(answer: object, *arguments: Any, **options: Any) -> Case:
    """Case whose answer is written here: messages, a count, or the type of an error."""
    return Case(arguments, options, answer)


def differs(module: ModuleType, case: Case) -> bool:
    """Whether a (mutated) verifier answers otherwise than it has to, or fails."""
    try:
        report = module.verify(*case.arguments, **case.options)
        facts = [(str(v.kind), *v[1:5]) for v in report.violations]
        match case.answer:
            case list():
                return bool([str(v) for v in report.violations] != case.answer)
            case int():
                return bool((len(facts), report.total) != (case.answer, len(case.arguments[0])))
            case tuple():
                totals = (report.total, report.ok)
                rest = (report.total_latency, report.makespan, report.peak)
                if max(report.peaks, default=0) != report.peak:
                    return True
                return (facts, *totals, *rest) != case.answer
            case _:
                return True
    except Exception as error:  # whatever a mutant fails with
        return type(error) is not case.answer


def fixed_cases() -> Iterable[Case]:
    """List the edges, one by one."""
    yield by_twin([2, 3], [3, 1], None, 9, [0, 1], total_latency=5)
    yield by_twin([2, 3], [3, 1], None, 8, [0, 1], total_latency=5)
    yield by_twin([2, 2, 2], [1, 2, 1], [1, 0, 2], 5, [2, 0, 1], requests=[2, 1, 0])
    yield by_twin([], [], [], 1, [])
    yield by_twin([1], [1], [0], 2, [0], total_latency=1)
    odd: tuple[object, ...] = (True, 1.0, "1", 0, 2, -1, BIG, BIG + 1, 10**5000, math.nan, [])
    for recorded in odd:
        yield by_twin([1], [1], [0], 2, [0], total_latency=recorded)
    for value in (0, -1, BIG - 1, BIG, BIG + 1, -BIG, 10**5000, True, 1.5, "1", None, math.inf):
        yield by_twin([1], [1], None, value, [0])
        yield by_twin([1, 1], [1, 1], None, 9, [0, 0], requests=[0, value])
        if value != BIG - 1:  # the twin would count to it
            yield by_twin([1, value], [1, 1], [0, 0], 9, [0, 0])
            yield by_twin([1, 1], [1, value], [0, 0], 9, [0, 0])
        yield by_twin([1, 1], [1, 1], [0, value], 9, [0, 0])
        yield by_twin([1, 1], [1, 1], [0, 0], 9, [0, value])
    for request in (-1, 0, 1, 2, 3):
        yield by_twin([1, 1], [2, 2], None, 4, [0, 5, 1], requests=[0, 1, request])
    yield by_twin([1, 1], [2, 2], None, 4, ["?", 5, 1], requests=[1, 1, 0])
    yield by_twin([1, 1], [2, 2], None, 4, [0])
    yield by_twin([1, 1], [2, 2], None, 4, [0, 0, 0])
    # One run over the budget across events, two with a fitting step between, one of one step.
    yield by_twin([3, 3, 3], [5, 5, 5], None, 7, [0, 1, 2], requests=[2, 0, 1])
    yield by_twin([1, 4, 4], [12, 2, 2], None, 8, [0, 2, 5])
    yield by_twin([1, 1], [3, 3], None, 7, [0, 0])
    # Far beyond counting: 2^40 output tokens, a start at the largest step there is.
    far = BIG - 1
    peak = 1 + 2**40
    yield by_hand(
        ([], 0, True, far + peak - 1, far + peak - 1, peak), [1], [2**40], None, peak, [far]
    )

    yield by_hand(ValueError, [1, 1], [1], None, 9, [0, 0])
    yield by_hand(ValueError, [1, 1], [1, 1], [0], 9, [0, 0])
    yield by_hand(ValueError, [1, 1], [1, 1], None, 9, [0, 0], ids=["a"])
    yield by_hand(ValueError, [1, 1], [1, 1], None, 9, [0, 0], requests=[0])

    for room in (-1, 0, 1, 2, 4):
        kept = max(room, 0)
        yield by_hand(kept, [1] * 5, [1] * 5, None, 9, [None] * 5, max_violations=room)
        yield by_hand(kept, [9] * 5, [1] * 5, None, 9, [0, 2, 4, 6, 8], max_violations=room)
    yield by_hand(100, [9] * 105, [1] * 105, None, 9, list(range(0, 210, 2)))

    yield by_hand(
        [
            "request 'a': prompt 0, output a NoneType, release 1.5; must be integers >= 1, 1, 0",
            "request 'b': its start is an integer of 66 bits, not an integer below 2^62",
            "entry 2: its request is '{}', not an integer below 2^62",
            "entry 3: its request is 5, but the 5 requests count from 0",
            "request 'c': placed again, at step -3",
            "request 'e': not placed",
            "request 'c': starts at step -3, before its release at step 0",
            "the KV budget is True; must be an integer >= 1",
            "recorded total latency 7, the schedule gives None",
        ],
        *([0, 1, 1, 1, 1], [None, 1, 1, 1, 1], [1.5, 0, 0, 0, 0], True),
        *([0, 2**65, 0, 0, 1, -3, 0],),
        requests=[0, 1, "{}", 5, 2, 2, 3],
        total_latency=7,
        ids=["a", "b", "c", "d", "e"],
    )
    yield by_hand(
        [
            "request 0, 1: 8 of 6 tokens at step 2; over up to step 3 (most 10)",
            "recorded total latency '" + "x" * 39 + ", the schedule gives 6",
        ],
        *([2, 2], [3, 3], None, 6, [0, 0]),
        total_latency="x" * 99,
    )
    yield by_hand(
        ["request 0, 1: 11 of 3 tokens at step 1; over up to step 3 (most 11)"],
        *([7, 2], [1, 3], None, 3, [0, 0]),
    )
    # Several workers: each has its own budget; one that is unknown holds nothing.
    for value in (0, 1, 2, 3, -1, BIG - 1, BIG, True, 1.0, None, "0"):
        yield by_twin([2, 3], [3, 1], None, [9, 3], [0, 1], workers=[0, value], total_latency=5)
        yield by_twin([0, 3], [3, 1], None, [9, 3], [0, 1], workers=[value, 1])
        yield by_twin([2, 3], [3, 1], None, [9, 3], [value, 1], workers=[1, 2])
        if value != BIG - 1:
            yield by_twin([2, 3], [3, 1], None, [9, value], [0, 1], workers=[1, 0])
    yield by_twin([1], [1], None, [], [0])
    yield by_twin([2], [2], None, [4, 4], [-9])
    yield by_twin([], [], None, [], [])
    yield by_twin([2, 2], [2, 2], None, [4, 4], [5, 0], workers=[0, 1])
    yield by_twin([2, 2], [2, 2], None, [4, 4], [-9, -9], workers=[0, 1])
    yield by_hand(ValueError, [1, 1], [1, 1], None, [9, 9], [0, 0], workers=[0])
    yield by_hand(
        [
            "request 1: its worker is 2, but the 2 count from 0",
            "the KV budget of worker 0 is 0; must be an integer >= 1",
            "request 0: 5 of 4 tokens of worker 1 at step 3; over up to step 3 (most 5)",
        ],
        *([2, 2], [3, 3], None, (0, 4), [0, 0]),
        workers=[1, 2],
    )
    for n, tail in ((10, ""), (11, " and 1 more"), (12, " and 2 more")):
        text = f"request 0, 1, 2, 3, 4, 5, 6, 7, 8, 9{tail}: {2 * n} of 9 tokens at step 1"
        yield by_hand(
            [f"{text}; over up to step 1 (most {2 * n})"], *([1] * n, [1] * n), None, 9, [0] * n
        )


def random_case(rng: random.Random) -> Case:
    """Small instance and a schedule for it, sound in most respects, that the twin judges."""
    n = rng.randrange(1, 6)
    s = [rng.randrange(1, 6) for _ in range(n)]
    o = [rng.randrange(1, 7) for _ in range(n)]
    a = None if rng.random() < 0.3 else [rng.randrange(4) for _ in range(n)]
    starts: list[Any] = [
        rng.randrange(9) + (a[i] if a and rng.random() < 0.9 else 0) for i in range(n)
    ]
    requests: list[Any] = rng.sample(range(n), n)
    for column, odd in ((starts, (-2, None, 4)), (requests, (-1, n, 0, "0"))):
        if rng.random() < 0.1:
            column[rng.randrange(n)] = rng.choice(odd)
    budgets: Any = rng.randrange(1, 24)
    options: dict[str, Any] = {"requests": requests}
    if rng.random() < 0.4:
        budgets = [rng.randrange(1, 24) for _ in range(rng.randrange(1, 4))]
        options["workers"] = [rng.randrange(len(budgets)) for _ in range(n)]
    arguments = (s, o, a, budgets, starts)
    latency = inspect(*arguments, **options)[1]
    recorded = rng.choice((None, latency, 40, True))
    return by_twin(*arguments, **options, total_latency=recorded)


@pytest.fixture(scope="module")
def battery() -> list[Case]:
    rng = random.Random(0)
    return [*fixed_cases(), *(random_case(rng) for _ in range(300))]


def test_battery_passes_on_the_original(battery: list[Case]) -> None:
    """The verifier itself answers every case as the twin or the hand does."""
    assert [case for case in battery if differs(verify, case)] == []


def test_no_mutant_can_run_forever() -> None:
    """Without ``while`` and recursion there is only iteration over finite input: no time limit."""
    assert endless_loops(SOURCE) == []


def test_every_mutant_dies(battery: list[Case]) -> None:
    """No change of one operator, constant, condition or statement passes the whole battery."""

    def dies(module: ModuleType) -> bool:
        return any(differs(module, case) for case in battery)

    assert not dies(load(compile(SOURCE, "verify.py", "exec")))
    found, number = survivors(SOURCE, dies, EQUIVALENT)
    assert found == []
    assert number > 250


def test_the_mutator_makes_each_kind_of_mutant() -> None:
    """On a small source the mutants are exactly those expected, each of the unchanged rest."""
    source = """
def f(x: int = 1):
    'text'
    if x < 2 and x:
        x += 3
    return min(not x, -x)
"""
    changes = [mutant.change for mutant in mutants(source)]
    assert changes == [
        "1  ->  2",
        "1  ->  0",
        "if x < 2 and x:  ->  if True:",
        "if x < 2 and x:  ->  if False:",
        "x < 2 and x  ->  x < 2 or x",
        "x < 2 and x  ->  x",
        "x < 2 and x  ->  x < 2",
        "x < 2  ->  x <= 2",
        "x < 2  ->  x > 2",
        "x < 2  ->  x >= 2",
        "x < 2  ->  x == 2",
        "x < 2  ->  x != 2",
        "2  ->  3",
        "2  ->  1",
        "x += 3  ->  x -= 3",
        "x += 3  ->  pass",
        "3  ->  4",
        "3  ->  2",
        "return min(not x, -x)  ->  return",
        "min(not x, -x)  ->  max(not x, -x)",
        "not x  ->  x",
        "-x  ->  x",
    ]
