"""Mutation test: whatever small thing is changed in the checker, some test case notices."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from certificate_cases import (
    Case,
    Cheapest,
    Cubic,
    cheapest_starts,
    cubics,
    long_cells,
    random_case,
)
from mutants import endless_loops, load, survivors
from odd_certificates import fixed_cases

from sortedf import certificate

SOURCE = Path(certificate.__file__).read_text(encoding="utf-8")
_ROWS = (
    "self.rows: list[Sums] = [(0, 0, 0, 0)]  # value and slope of a piece, and the sums before it"
)
_EARLY = "if D * (p + o) >= best:"
_LONG = "if q - p > 1:"
_SIGN = "if d + u * e + u * (u - 1) // 2 * g < 0:"
_FIRST = "low = min(max(-(e // g), 0), width)"
_TIME = "it only takes longer"
_END = "then it is least at an end, and any answer will do"
EQUIVALENT = {
    "self.ends: list[int] = [0]  :  0  ->  -1": "no request starts before step 0",
    f"{_ROWS}  :  0  ->  1": "of the last sum only differences count",
    f"{_ROWS}  :  0  ->  -1": "of the last sum only differences count",
    "if window not in self.known:  :  if window not in self.known:  ->  if True:": _TIME,
    f"{_EARLY}  :  {_EARLY}  ->  if False:": _TIME,
    f"{_EARLY}  :  D * (p + o) >= best  ->  D * (p + o) > best": _TIME,
    f"{_EARLY}  :  D * (p + o) >= best  ->  D * (p + o) == best": _TIME,
    f"{_EARLY}  :  D * (p + o)  ->  D // (p + o)": _TIME,
    f"{_EARLY}  :  p + o  ->  p - o": _TIME,
    "break  # latency alone is too much, here and later": _TIME,
    f"{_LONG}  :  {_LONG}  ->  if True:": _TIME,
    f"{_LONG}  :  q - p > 1  ->  q - p >= 1": _TIME,
    f"{_LONG}  :  q - p > 1  ->  q - p != 1": _TIME,
    f"{_LONG}  :  q - p  ->  q + p": _TIME,
    f"{_LONG}  :  1  ->  0": _TIME,
    "low, high = 0, width  :  0  ->  1": _END,
    # Of a first difference that is never negative up to the middle m and convex, the sum up to any
    # step before 2 m + 2 is not negative either (pairs about m), so that halving loses nothing.
    "if g > 0:": _END,
    _FIRST: _END,
    "if g < 0:  :  0  ->  -1": "with g = -1 no hump is so narrow that halving jumps over it",
    "high = min(max(e // -g + 1, 0), width)  :  1  ->  2": _END,
    "high = min(max(e // -g + 1, 0), width)  :  0  ->  1": _END,
    f"{_SIGN}  :  {_SIGN[3:-1]}  ->  {_SIGN[3:-5]} <= 0": "as good, where it is 0",
    f"{_SIGN}  :  0  ->  1": "as good, where it is 0",
    "low = u + 1  :  1  ->  0": _TIME,
    "return 1  :  1  ->  2": "nobody looks at it: the form is wrong",
    "return Fraction()": "nobody looks at it: the form is wrong",
}
"""Mutants that do the same as the original, ``line : change``, or all of a line, and why."""


def differs(module: ModuleType, case: Case | Cubic | Cheapest) -> bool:
    """Whether a (mutated) checker answers otherwise than it has to, or fails."""
    try:
        if isinstance(case, Cubic):
            u = module._turn(*case.arguments)
            value = min(case.values[u], case.values[0], case.values[-1])
            return bool(u < 0 or value != min(case.values))
        if isinstance(case, Cheapest):
            pieces = [module.Piece(*piece) for piece in case.pieces]
            found: int = module._Prices(pieces, case.denominator).least(*case.window)
            return found != case.cost * case.denominator
        return answer(module, case) != (case.bound, case.sizes, case.messages, case.total)
    except Exception:  # whatever a mutant fails with
        return True


def answer(module: ModuleType, case: Case) -> tuple[Any, ...]:
    """Give what a case holds, by a checker."""
    try:
        report = module.check(*case.arguments, **case.options)
    except ValueError as error:
        return None, None, [("error", str(error)[:5])], 1
    messages = [(str(violation.kind), str(violation)) for violation in report.violations]
    assert report.ok == (not report.total)
    return report.bound, case.sizes and tuple(report[3:]), messages, report.total


def make_battery() -> list[Case | Cubic | Cheapest]:
    rng = random.Random(0)
    return [
        *(random_case(rng) for _ in range(40)),
        *cubics(rng),
        *fixed_cases(),
        *(cheapest_starts(rng) for _ in range(600)),
        *(long_cells(rng) for _ in range(300)),
        *(random_case(rng) for _ in range(200)),
    ]


@pytest.fixture(scope="module")
def battery() -> list[Case | Cubic | Cheapest]:
    return make_battery()


def test_battery_passes_on_the_original(battery: list[Case | Cubic | Cheapest]) -> None:
    """The checker itself answers every case as the twin or the hand does."""
    assert [case for case in battery if differs(certificate, case)] == []


def test_no_mutant_can_run_forever() -> None:
    """Without ``while`` and recursion there is only iteration over finite input: no time limit."""
    assert endless_loops(SOURCE) == []


def test_every_mutant_dies(battery: list[Case | Cubic | Cheapest]) -> None:
    """No change of one operator, constant, condition or statement passes the whole battery."""

    def dies(module: ModuleType) -> bool:
        return any(differs(module, case) for case in battery)

    assert not dies(load(compile(SOURCE, "certificate.py", "exec")))
    found, number = survivors(SOURCE, dies, EQUIVALENT)
    assert found == []
    assert number > 250
