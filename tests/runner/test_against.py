"""Orders held against each other, and what is told of an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_inputs import FakeEngine, plan_of

from sortedf.runner.against import PLAN, comparison
from sortedf.runner.engines import Job
from sortedf.runner.executed import Attempt, run_folder_of
from sortedf.runner.jobs import planned_prompt, random_outputs, work_of_plan
from sortedf.runner.run_validation import rank_correlation
from sortedf.runner.warm_up import OUTPUT_TOKENS, REQUESTS, ROUNDS, warm_up


def told(realized: float, predicted: float, *, lost: int | None = 3) -> dict[str, Any]:
    """Give what `comparison` reads of a validated attempt; latencies are the mean, more or less."""
    parts = {"latency": ("mean", "p50", "p95", "p99"), "ttft": ("mean",), "makespan": ("whole",)}
    figures = [
        {"measure": measure, "figure": figure, "realized": realized, "predicted": predicted}
        for measure, names in parts.items()
        for figure in names
    ]
    counts = {"preemptions": 2, "recomputed_tokens": lost}
    return {
        "n": 4,
        "handover": "order",
        "figures": figures,
        "admission": {"in_order": True},
        "work": {"realized": counts, "predicted": counts},
        "requests": {
            "latency": {
                "realized": [realized * k for k in (0.25, 0.75, 1, 2)],
                "predicted": [predicted] * 4,
            }
        },
    }


def test_medians_and_ratios() -> None:
    found = comparison(
        {
            PLAN: [told(9, 10), told(10, 10), told(50, 10)],
            "fcfs": [told(20, 19), told(22, 18), told(15, 19, lost=None)],
        }
    )
    plan, fcfs = found["rows"]
    assert plan["realized"]["mean_latency"] == 10
    assert plan["mean_latencies"] == [9, 10, 50]
    assert plan["error"] == pytest.approx(0.0)
    assert fcfs["ratio"] == {"realized": 2.0, "predicted": 1.9}
    assert plan["realized"]["recomputed_tokens"] == 3
    assert fcfs["realized"]["recomputed_tokens"] is None
    # The curve is that of the run of the middle mean, not of the first.
    assert found["curves"][PLAN]["realized"] == [2.5, 7.5, 10, 20]
    assert found["curves"]["fcfs"]["share"] == [0.25, 0.5, 0.75, 1.0]
    assert found["verdict"] == (
        "plan is best, fcfs 2.00 x its mean latency; the predicted ranking holds for the pair that "
        "differs by more than 5 %"
    )


@pytest.mark.parametrize(
    ("realized", "predicted", "agrees", "differs", "words"),
    [
        (11, 12, True, True, "holds for the pair"),
        (11, 9, False, True, "foretold wrongly: plan and svf"),
        (10.4, 9, False, False, "no two differ"),
        (9, 12, False, True, "svf is best, plan 1.11 x"),
        (10, 10, True, False, "no two differ"),
    ],
)
def test_ranking(
    realized: float, predicted: float, agrees: bool, differs: bool, words: str
) -> None:
    found = comparison({PLAN: [told(10, 10)], "svf": [told(realized, predicted)]})
    (pair,) = found["ranking"]
    assert (pair["agrees"], pair["differs"]) == (agrees, differs)
    assert words in found["verdict"]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_requests_out_of_order(admitted: list[int]) -> None:
    """Counted by hand: those behind which one of the plan's later ones was admitted before."""
    run = SimpleNamespace(admitted=np.array(admitted, float))
    expected = sum(any(b < a for b in admitted[k + 1 :]) for k, a in enumerate(admitted))
    found = Attempt.out_of_order.fget(cast(Attempt, SimpleNamespace(run=run)))  # type: ignore[attr-defined]
    assert found == expected


def test_rank_correlation_of_what_does_not_vary() -> None:
    rising = np.array([1.0, 2, 3])
    assert rank_correlation(rising, rising[::-1]) == {"spearman": -1.0, "kendall": -1.0}
    for one, other in ((rising, np.ones(3)), (np.ones(3), rising), (rising[:1], rising[:1])):
        assert rank_correlation(one, other) == {"spearman": None, "kendall": None}


def jobs_of(lengths: Sequence[tuple[int, int]], folder: Path, error: float = 0.0) -> list[Job]:
    rows = [(f"r{k}", prompt, output) for k, (prompt, output) in enumerate(lengths)]
    work = work_of_plan(plan_of(rows, folder), planned_prompt, random_outputs(1, error))
    return work.jobs({}, None)


def test_a_run_is_rehearsed_in_its_order(tmp_path: Path) -> None:
    jobs = jobs_of([(3 + k % 7, 1 + k) for k in range(2 * REQUESTS)], tmp_path)
    engine = FakeEngine(refuse=[f"warm-up {jobs[0].index}"])
    found = warm_up(engine, jobs)
    done = engine.executed
    assert 1 < found["rounds"] <= ROUNDS
    assert found["requests"] == 299
    assert len(done) == 299 * found["rounds"]
    rounds = [done[k : k + 299] for k in range(0, len(done), 299)]
    for one in rounds:
        assert [job.place for job in one] == list(range(299))
        assert found["prompt_tokens"] == sum(len(job.prompt) for job in one)
        assert [job.index for job in one] == [job.index for job in jobs[::2]][1:]
    by_index = {job.index: job for job in jobs}
    for job in done:
        real = by_index[job.index]
        assert list(job.prompt) == list(real.prompt)[::-1]
        assert job.output_tokens == min(real.output_tokens, OUTPUT_TOKENS)
        assert job.sampling["max_tokens"] == job.sampling["min_tokens"] == job.output_tokens


def test_outputs_that_err_are_predicted_all_the_same(tmp_path: Path) -> None:
    lengths = [(5, 40)] * 100
    jobs = jobs_of(lengths, tmp_path, error=0.25)
    assert {job.output_tokens for job in jobs} == {40}
    real = [job.sampling["max_tokens"] for job in jobs]
    assert set(real) == {30, 50}
    assert 25 < real.count(50) < 75
    assert [job.sampling["min_tokens"] for job in jobs] == real
    assert [job.sampling["max_tokens"] for job in jobs_of(lengths, tmp_path, error=0.25)] == real
    assert {job.sampling["max_tokens"] for job in jobs_of(lengths, tmp_path)} == {40}
    assert random_outputs(0, 0.9)(3, 1) in (1, 2)


def test_which_folder_is_meant(tmp_path: Path) -> None:
    attempt = tmp_path / "run" / "attempts" / "2"
    attempt.mkdir(parents=True)
    assert run_folder_of(attempt) is None
    (tmp_path / "run" / "manifest.json").write_text("{}")
    assert run_folder_of(tmp_path / "run") == (tmp_path / "run", None)
    found = run_folder_of(attempt)
    assert found is not None
    assert found[0].resolve() == (tmp_path / "run").resolve()
    assert found[1] == "2"
    assert run_folder_of(tmp_path) is None
