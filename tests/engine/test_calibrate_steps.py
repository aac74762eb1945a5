"""Calibration from steps: known coefficients, outliers, what cannot be told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from run_folders import TRUE, replayed_run
from scipy.optimize import lsq_linear

from sortedf.engine.calibrate_steps import calibrate_steps, fit_robustly
from sortedf.engine.calibration import calibrate_from_steps
from sortedf.engine.identify import condition_number, unidentified
from sortedf.engine.interval import ErrorInterval, busy_seconds, conformal_quantile
from sortedf.engine.replaying import Replayed
from sortedf.engine.step_log import StepLog, read_step_log, write_step_log
from sortedf.engine.step_time import FORMS, StepTimeModel
from sortedf.errors import InputError


def work(n: int = 60, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Give what the steps of a replayed run were made of."""
    log = replayed_run(n, seed=seed)[2].log
    assert log is not None
    return log.work


@pytest.mark.parametrize("form", FORMS)
def test_known_coefficients_are_found(form: str) -> None:
    """Without noise each form gives back the coefficients that made the steps."""
    values = {
        "fixed": 0.01,
        "token": 4e-5,
        "prefill_token": 4e-5,
        "decode_token": 2e-5,
        "context": 9e-8,
        "prefill_work": 2e-9,
        "chunk_squared": 3e-9,
        "context_squared": 1e-11,
    }
    true = StepTimeModel.of_form(form, [values[name] for name in FORMS[form]])
    terms = work()
    found = calibrate_steps(terms, true.duration(terms), form=form)
    for name in FORMS[form]:
        assert getattr(found.model, name) == pytest.approx(values[name], rel=1e-6)
    assert found.held_out[form].error < 1e-9
    assert len(found.outliers) == 0


def test_noise_and_outliers() -> None:
    """With 5 % noise and thirty steps ten times too long the prediction is within 1 %."""
    terms = work()
    generator = np.random.default_rng(1)
    clean = TRUE.duration(terms)
    seconds = clean * generator.normal(1.0, 0.05, len(clean))
    odd = generator.choice(len(clean), 30, replace=False)
    seconds[odd] *= 10
    found = calibrate_steps(terms, seconds, form="plain")
    assert set(odd) <= set(found.outliers.tolist())
    assert len(found.outliers) < 30 + 0.02 * len(clean)
    assert found.model.duration(terms).sum() == pytest.approx(clean.sum(), rel=0.01)
    held_out = found.held_out["plain"]
    assert held_out.low < held_out.error < held_out.high


def test_auto_takes_the_simplest_form_that_does() -> None:
    """Steps that a form of three coefficients made are given one of three, not six."""
    terms = work()
    seconds = TRUE.duration(terms) * np.random.default_rng(2).normal(1, 0.05, len(terms))
    found = calibrate_steps(terms, seconds)
    assert found.form == "plain"
    assert set(found.held_out) == set(FORMS)


def replayed(arrivals: list[float], first: list[float], last: list[float]) -> Replayed:
    """Give times of requests, nothing else."""
    nothing = np.zeros(len(arrivals), np.int64)
    return Replayed(
        arrivals=np.array(arrivals),
        admitted=np.array(arrivals),
        first_token=np.array(first),
        completion=np.array(last),
        admitted_step=nothing,
        first_step=nothing,
        completion_step=nothing,
        preemptions=nothing,
        recomputed=nothing,
        steps=0,
    )


def bounds(interval: ErrorInterval, seconds: float) -> tuple[float, float]:
    """Bounds on a request that is there from the beginning and done after so many seconds."""
    low, high = interval.bounds([replayed([0.0], [seconds], [seconds])])["latency"]
    return float(low[0]), float(high[0])


def test_the_interval_holds_another_run() -> None:
    """The share learned from stretches of one run holds the makespan of another."""
    terms, other = work(), work(seed=9)
    generator = np.random.default_rng(3)
    seconds = TRUE.duration(terms) * generator.normal(1, 0.1, len(terms))
    found = calibrate_steps(terms, seconds, form="plain")
    assert found.interval is not None
    low, high = bounds(found.interval, found.model.duration(other).sum())
    real = (TRUE.duration(other) * generator.normal(1, 0.1, len(other))).sum()
    assert low <= real <= high


def test_drift_from_run_to_run_is_learned_from_several() -> None:
    """Runs that are some 10 % faster or slower: the interval of one misses, that of four holds."""
    generator = np.random.default_rng(5)
    speeds = [0.9, 1.1, 0.95, 1.05, 1.08]
    logs = []
    for number, speed in enumerate(speeds):
        terms = work(seed=number)
        noise = generator.normal(1, 0.02, len(terms))
        logs.append(StepLog(work=terms, seconds=TRUE.duration(terms) * speed * noise, source="x"))
    *known, new = logs
    for log in known:
        alone, fit = calibrate_from_steps(log, form="plain")
        assert alone.interval is not None
        low, high = bounds(alone.interval, fit.model.duration(new.work).sum())
        assert not low <= new.seconds.sum() <= high
    together, fit = calibrate_from_steps(*known, form="plain")
    assert together.interval is not None
    assert 0.05 < together.interval.completion < 0.3
    low, high = bounds(together.interval, fit.model.duration(new.work).sum())
    assert low <= new.seconds.sum() <= high


def test_what_cannot_be_told_is_said() -> None:
    """Steps that are all alike, too few of them, and a term that never occurs."""
    terms = work()
    alike = np.repeat(terms[:1], 100, axis=0)
    found = calibrate_steps(alike, np.full(100, 0.01), form="plain")
    assert any("cannot be told apart" in line for line in found.warnings)
    decodes = terms[terms[:, 1] == 0]
    found = calibrate_steps(decodes, TRUE.duration(decodes), form="small")
    assert any(line.startswith("prefill_token cannot be told") for line in found.warnings)
    found = calibrate_steps(terms[:12], TRUE.duration(terms[:12]), form="plain")
    assert any("too little data: 12 observations" in line for line in found.warnings)
    assert calibrate_steps(terms, TRUE.duration(terms), form="plain").warnings == ()
    with pytest.raises(InputError, match="too few"):
        calibrate_steps(terms[:2], [0.1, 0.1])


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 4))
@example(seed=19, columns=2)
def test_the_regression_is_least_squares_where_nothing_stands_out(seed: int, columns: int) -> None:
    """With errors that are all of one size Huber's rule is least squares: another solver agrees."""
    generator = np.random.default_rng(seed)
    design = generator.uniform(0, 1, (40, columns))
    truth = generator.uniform(-0.5, 2, columns)
    times = design @ truth + np.where(np.arange(40) % 2, 0.01, -0.01)
    found, _ = fit_robustly(design, times)
    assert (found >= 0).all()
    if (truth > 0.1).all():
        other = lsq_linear(design, times, bounds=(0, np.inf), tol=1e-12).x
        off = np.abs(times - design @ other)
        # Some designs turn a few of the residuals into ones that do stand out.
        assume(off.max() <= 1.345 * 1.4826 * np.median(off))
        np.testing.assert_allclose(found, other, rtol=1e-3, atol=1e-3)


def test_condition_numbers() -> None:
    """Orthogonal columns have 1 whatever their size; a repeated column has none that is finite."""
    design = np.array([[1.0, 0.0], [0.0, 1e6]])
    assert condition_number(design) == pytest.approx(1)
    same = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    assert condition_number(same) > 1e12
    assert condition_number(np.zeros((3, 2))) == np.inf
    (few, apart) = unidentified(same, ["a", "b"])
    assert "too little" in few
    assert apart.startswith("a and b cannot be told apart")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_conformal_quantile(errors: list[float]) -> None:
    """At least 90 % of the errors and one more lie below it, or it is the largest."""
    found = conformal_quantile(np.array(errors))
    below = sum(error <= found for error in errors)
    assert below >= min(len(errors), 0.9 * (len(errors) + 1))


def test_interval_bounds() -> None:
    """Bounds grow with the time and never go below 0."""
    interval = ErrorInterval(
        coverage=0.9, first_token=0.5, completion=2.0, step_seconds=1.0, held_out=9
    )
    found = replayed([0.0, 0.0, 20.0], [0.0, 9.0, 21.0], [2.0, 11.0, 24.0])
    low, high = interval.bounds([found])["ttft"]
    assert low.tolist() == [0.0, 4.0, 0.0]  # the engine was idle before the third one came
    assert high.tolist() == [0.5, 14.0, 2.0]
    assert interval.bounds([found])["latency"][1].tolist() == [8.0, 35.0, 14.0]
    later = replayed([0.0, 0.0, 20.0], [1.0, 9.0, 21.0], [2.0, 12.0, 24.0])
    low, high = interval.bounds([found, later])["latency"]
    assert high.tolist() == [8.0, 38.0, 14.0]
    busy = replayed([0.0, 0.0, 10.0], [1.0, 9.0, 21.0], [2.0, 11.0, 24.0])
    assert busy_seconds(busy, busy.completion, 0.5).tolist() == [2.5, 11.5, 24.5]


def test_a_step_log_in_a_file(tmp_path: Path) -> None:
    """A log comes back from its file to the last digit."""
    terms = work(8)
    log = StepLog(work=terms, seconds=TRUE.duration(terms), source="here")
    write_step_log(log, tmp_path / "steps.csv")
    read = read_step_log(tmp_path / "steps.csv")
    np.testing.assert_array_equal(read.work, log.work)
    np.testing.assert_array_equal(read.seconds, log.seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no column seconds"),
        ("seconds\n1\n", "steps.csv:1: no column prefill_tokens"),
        ("{head}\n", "holds no step"),
        ("{head}\n0,1,0,0,1,1,0\n", "steps.csv:2: seconds is 0"),
        ("{head}\n1,0,0,0,1,1,0\n", "steps.csv:2: no prefill and no decode"),
        ("{head}\n1,1,0,0,1,1,0\n1,1,x,0,1,1,0\n", "steps.csv:3"),
        ("{head}\n1,1,0,-1,1,1,0\n", "steps.csv:2: context: a number from 0"),
        ("{head}\n1,inf,0,0,1,1,0\n", "steps.csv:2: prefill_tokens: a number"),
        ("{head}\n1e300,1,0,0,1,1,0\n", "steps.csv:2: seconds: a number"),
        ("{head}\n1e20,1,0,0,1,1,0\n", "steps.csv:2: seconds is 1e+20"),
        ("{head}\n1,1,0,0,1,1\n", "steps.csv:2: too few cells"),
        ('{head}\n"1,1,0,0,1,1,0\n', "steps.csv:2: not CSV"),
    ],
)
def test_a_faulty_step_log_is_named(tmp_path: Path, text: str, says: str) -> None:
    """Faults of a step log stand with their lines."""
    from sortedf.engine.step_log import COLUMNS

    path = tmp_path / "steps.csv"
    path.write_text(text.format(head=",".join(("seconds", *COLUMNS))))
    with pytest.raises(InputError) as caught:
        read_step_log(path)
    assert says in str(caught.value)
