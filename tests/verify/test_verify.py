"""The verifier on cases that can be checked by hand, and as a file of its own."""

from __future__ import annotations

import ast
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sortedf import verify as module
from sortedf.verify import Kind, Report, Violation, verify

SOURCE = Path(module.__file__)


def test_a_sound_schedule() -> None:
    """Two requests that just fit are accepted, with objective, makespan and peak computed by hand.

    s = 2, o = 3 from step 0 holds 3, 4, 5 at steps 1, 2, 3; s = 3, o = 1 from step 1 holds 4 at 2.
    """
    report = verify([2, 3], [3, 1], None, 8, [0, 1], total_latency=5)
    assert report.ok
    assert report == Report((), total=0, total_latency=5, makespan=3, peak=8, peaks=(8,))


def test_budget_exceeded() -> None:
    """One token less and the violation has the step, both requests, what is used and the budget."""
    report = verify([2, 3], [3, 1], None, 7, [0, 1], ids=["a", "b"])
    message = "request 'a', 'b': 8 of 7 tokens at step 2; over up to step 2 (most 8)"
    assert report.violations == (Violation(Kind.BUDGET_EXCEEDED, 2, (0, 1), 8, 7, message),)
    assert str(report.violations[0]) == message
    assert not report.ok
    assert report.total_latency == 5


def test_memory_is_free_at_the_completion_step() -> None:
    """A request that starts when another completes takes nothing at that step."""
    assert verify([5, 5], [4, 4], None, 9, [0, 4]).ok
    assert not verify([5, 5], [4, 4], None, 9, [0, 3]).ok


def test_first_step_over_between_two_events() -> None:
    """The first step over the budget is found where nothing starts or completes.

    s = 1, o = 10 twice from step 0: 2 + 2 t tokens at step t, over 9 from step 4 on.
    """
    (violation,) = verify([1, 1], [10, 10], None, 9, [0, 0]).violations
    assert violation[:5] == (Kind.BUDGET_EXCEEDED, 4, (0, 1), 10, 9)
    assert str(violation).endswith("over up to step 10 (most 22)")


def test_one_violation_for_each_unbroken_run() -> None:
    """A run goes on while other requests start and complete; a step within the budget ends it."""
    over = verify([9, 1, 1], [6, 1, 1], None, 9, [0, 1, 4]).violations
    assert [v[:5] for v in over] == [(Kind.BUDGET_EXCEEDED, 1, (0,), 10, 9)]
    apart = verify([9, 9], [1, 1], None, 9, [0, 2]).violations
    assert [v.step for v in apart] == [1, 3]
    adjacent = verify([9, 9], [1, 1], None, 9, [0, 1]).violations
    assert [(v.step, v.requests) for v in adjacent] == [(1, (0,))]


def test_oversized_request() -> None:
    """A request larger than the budget is a violation wherever it is placed."""
    (violation,) = verify([4], [4], None, 7, [100]).violations
    assert violation[:5] == (Kind.BUDGET_EXCEEDED, 104, (0,), 8, 7)


def test_start_before_release() -> None:
    """A start one step early is found, and the objective still counts from the release."""
    report = verify([1, 1], [2, 2], [3, 5], 9, [3, 4])
    assert [v[:5] for v in report.violations] == [(Kind.START_BEFORE_RELEASE, 4, (1,), 4, 5)]
    assert report.total_latency == 2 + 1


def test_negative_start() -> None:
    """Time begins at step 0, the release of a backlog."""
    (violation,) = verify([1], [2], None, 9, [-1]).violations
    assert violation[:5] == (Kind.START_BEFORE_RELEASE, -1, (0,), -1, 0)


def test_missing_repeated_and_unknown_requests() -> None:
    """A plan has to place exactly the requests of the instance, each once."""
    report = verify([1, 1, 1], [1, 1, 1], None, 9, [0, 4, 5, 6], requests=[2, 2, 3, -1])
    assert [v[:5] for v in report.violations] == [
        (Kind.REPEATED_REQUEST, 4, (2,), None, None),
        (Kind.UNKNOWN_REQUEST, None, (), 3, 3),
        (Kind.UNKNOWN_REQUEST, None, (), -1, 3),
        (Kind.MISSING_REQUEST, None, (0,), None, None),
        (Kind.MISSING_REQUEST, None, (1,), None, None),
    ]
    assert report.total_latency is None


def test_a_repeated_request_counts_each_time() -> None:
    """Both placements of a request hold memory, so the budget is tested with both."""
    over = verify([3], [1], None, 7, [0, 0], requests=[0, 0]).violations[1]
    assert over[:5] == (Kind.BUDGET_EXCEEDED, 1, (0, 0), 8, 7)


def test_plan_shorter_or_longer_than_the_instance() -> None:
    """Without request numbers the starts belong to the requests by position."""
    assert verify([1, 1], [1, 1], None, 9, [0]).violations[0].kind == Kind.MISSING_REQUEST
    assert verify([1], [1], None, 9, [0, 0]).violations[0].kind == Kind.UNKNOWN_REQUEST


ODD = [True, 0.0, "0", None, [], {}, math.nan, math.inf, 2**62, -(10**5000), object()]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_values_that_are_no_integers(value: object) -> None:
    """Any object as start, request, length, release, budget or objective is only a violation."""
    good: dict[str, Any] = {
        "prompt_tokens": [1, 1],
        "output_tokens": [1, 1],
        "release": [0, 0],
        "starts": [0, 0],
        "requests": [0, 1],
    }
    kinds = {
        "prompt_tokens": Kind.INVALID_REQUEST,
        "output_tokens": Kind.INVALID_REQUEST,
        "release": Kind.INVALID_REQUEST,
        "starts": Kind.NOT_AN_INTEGER,
        "requests": Kind.NOT_AN_INTEGER,
    }
    for name, kind in kinds.items():
        report = verify(kv_tokens=9, **good | {name: [1, value]})
        assert report.violations[0].kind == kind
        assert report.total_latency is None
    assert verify([1], [1], [0], value, [0]).violations[0].kind == Kind.INVALID_BUDGET
    if value is not None:
        (violation,) = verify([1], [1], [0], 9, [0], total_latency=value).violations
        assert (violation.kind, violation.limit) == (Kind.WRONG_OBJECTIVE, 1)


def test_wrong_objective() -> None:
    """The recorded objective is held against the recomputed one."""
    (violation,) = verify([1], [3], None, 9, [2], total_latency=6).violations
    assert violation[:5] == (Kind.WRONG_OBJECTIVE, None, (), 6, 5)
    assert str(violation) == "recorded total latency 6, the schedule gives 5"


def test_an_objective_that_cannot_be_recomputed_is_wrong() -> None:
    """A recorded objective of an incomplete plan is not believed."""
    kinds = [v.kind for v in verify([1], [3], None, 9, [], total_latency=3).violations]
    assert kinds == [Kind.MISSING_REQUEST, Kind.WRONG_OBJECTIVE]


def test_nothing_to_do() -> None:
    """The empty schedule of the empty instance is sound; its totals are 0."""
    assert verify([], [], [], 1, [], total_latency=0) == Report((), 0, 0, 0, 0, (0,))


def test_only_the_first_violations_in_full() -> None:
    """Beyond ``max_violations`` they are only counted."""
    report = verify([1] * 500, [1] * 500, None, 9, ["x"] * 500)
    assert len(report.violations) == 100
    assert report.total == 500
    assert verify([1], [1], None, 9, [], max_violations=0)[:2] == ((), 1)


def test_sequences_of_different_length() -> None:
    """Sequences that do not belong together are the caller's mistake."""
    with pytest.raises(ValueError, match="argument 2"):
        verify([1, 1], [1], None, 9, [0, 0])
    with pytest.raises(ValueError, match="argument 3"):
        verify([1, 1], [1, 1], [0], 9, [0, 0])
    with pytest.raises(ValueError, match="argument 4"):
        verify([1], [1], None, 9, [0], ids=["a", "b"])
    with pytest.raises(ValueError, match="argument 2"):
        verify([1], [1], None, 9, [0], requests=[])


def test_the_cost_does_not_depend_on_the_lengths() -> None:
    """Outputs of 2^40 tokens and starts near 2^62 are a few events like any other."""
    o = [2**40, 2**40]
    report = verify([1, 1], o, None, 2 * 2**40 + 2, [2**62 - 1, 2**62 - 1])
    assert report.ok
    assert report.peak == 2 * 2**40 + 2
    (violation,) = verify([1, 1], o, None, 2 * 2**40 + 1, [7, 7]).violations
    assert violation.step == 2**40 + 7


def test_many_requests() -> None:
    """A chain of 100,000 requests, each started as the one before completes, is one at a time."""
    n = 100_000
    report = verify([2] * n, [3] * n, None, 5, range(0, 3 * n, 3))
    assert report == Report((), 0, 3 * n * (n + 1) // 2, 3 * n, 5, (5,))


def test_standard_library_only() -> None:
    """The file imports modules of the standard library and nothing else, the package included."""
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert all(name.name.split(".")[0] in sys.stdlib_module_names for name in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names


def test_runs_alone(tmp_path: Path) -> None:
    """Copied elsewhere it works on a Python without site-packages, environment or package."""
    shutil.copy(SOURCE, tmp_path / "checker.py")
    script = (
        "import sys, json; sys.path.insert(0, sys.argv[1]); import checker\n"
        "report = checker.verify([2, 3], [3, 1], None, 7, [0, 1])\n"
        "print(json.dumps([str(v) for v in report.violations]))\n"
        "assert not {'numpy', 'sortedf'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert json.loads(done.stdout) == [
        "request 0, 1: 8 of 7 tokens at step 2; over up to step 2 (most 8)"
    ]
