"""Calibration through the replay: what was put in is predicted, and nothing else is looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import TRUE, made_folder

from sortedf.engine.calibrate_run import calibrate_run, objective
from sortedf.engine.calibration import (
    Calibration,
    calibrate_from_run,
    read_calibration,
    write_calibration,
)
from sortedf.engine.fit import Fitted, apart, fit_form
from sortedf.engine.prediction import summary
from sortedf.engine.replaying import Replay
from sortedf.engine.run_folder import Run, read_run
from sortedf.engine.run_series import Series
from sortedf.engine.step_time import StepTimeModel, read_step_time
from sortedf.engine.training import training_part
from sortedf.engine.validation import predict_run, validate
from sortedf.errors import InputError, OptionError

TIGHT: dict[str, Any] = {"num_gpu_blocks": 600, "rate": 40.0}
"""Most requests wait for memory, ten are preempted."""


def figures(run: Run, fitted: Any) -> dict[str, float]:
    """Errors of means and percentiles, as shares."""
    replayed = Replay(run.instance, fitted.settings, arrivals=run.arrivals).run(fitted.model)
    errors = {}
    for name, real, guess in (
        ("ttft", run.ttft, replayed.ttft),
        ("latency", run.latency, replayed.latency),
    ):
        for figure, value in summary(real).items():
            errors[f"{name} {figure}"] = summary(guess)[figure] / value - 1
    return errors


@pytest.mark.parametrize("part", ["half", "0.4"])
def test_a_replayed_run_is_predicted(tmp_path: Path, part: str) -> None:
    """A run made by the replay, preemptions and all, is predicted to 0.5 % from a part of it."""
    run = read_run(made_folder(tmp_path / "run", 60, **TIGHT))
    fitted = calibrate_run(training_part(run, part), form="plain", shared_blocks=0)
    assert fitted.fitted.error < 0.002
    assert max(map(abs, figures(run, fitted).values())) < 0.005


def test_noise_is_borne(tmp_path: Path) -> None:
    """Steps that are 10 % longer or shorter at random leave the prediction within 2 %."""
    run = read_run(made_folder(tmp_path / "run", 60, noise=0.1, **TIGHT))
    fitted = calibrate_run(training_part(run, "half"), form="plain", shared_blocks=0)
    assert max(map(abs, figures(run, fitted).values())) < 0.02


def test_shared_blocks_are_found(tmp_path: Path) -> None:
    """A header of three blocks that all prompts share is found by the training error alone."""
    folder = made_folder(tmp_path / "run", 60, shared_blocks=3, num_gpu_blocks=400, seed=1)
    run = read_run(folder)
    assert run.settings.shared_blocks == 0
    fitted = calibrate_run(training_part(run, "all"), form="plain")
    assert fitted.settings.shared_blocks == 3
    assert [trial.shared_blocks for trial in fitted.trials] == [0, 1, 2, 3, 4]


def test_the_rest_of_the_run_is_not_looked_at(tmp_path: Path) -> None:
    """Other times after the training part, same fit, bit for bit."""
    run = read_run(made_folder(tmp_path / "run", 40))
    for part in ("half", "0.3"):
        training = training_part(run, part)
        hidden = {
            name: np.where(known, getattr(run, name), getattr(run, name) + 1000.0)
            for name, known in (
                ("admitted", training.admitted),
                ("first_token", training.first),
                ("last_token", training.last),
            )
        }
        other = replace(training, run=replace(run, **hidden))
        one, two = (fit_form("plain", objective(seen, run.settings)) for seen in (training, other))
        assert one == two


def test_what_is_late_counts(tmp_path: Path) -> None:
    """A request that was not done by the end is an error as far as the replay has it done."""
    run = read_run(made_folder(tmp_path / "run", 40))
    training = training_part(run, "0.3")
    late = training.late & ~training.last
    assert late.any()
    fast = StepTimeModel(fixed=1e-4)
    replayed = training.replay(run.settings).run(fast)
    errors = training.errors(replayed)
    assert errors[-late.sum() :] == pytest.approx(
        np.minimum(replayed.completion[late[: len(replayed.completion)]] - training.end, 0)
    )
    exact = training.errors(training.replay(run.settings).run(TRUE))
    assert np.abs(exact).max() < 1e-6


def test_a_replay_that_is_broken_off_is_late(tmp_path: Path) -> None:
    """Steps of ten seconds: nothing comes in time, and the error says so without a nan."""
    run = read_run(made_folder(tmp_path / "run", 40))
    training = training_part(run, "half")
    error = training.error(training.replay(run.settings).run(StepTimeModel(fixed=10.0)))
    assert np.isfinite(error)
    assert error > 0.2 * training.end


def test_too_little_data_is_said(tmp_path: Path) -> None:
    """Two requests are refused where they cannot do, and warned of where they hardly can."""
    run = read_run(made_folder(tmp_path / "run", 2))
    with pytest.raises(InputError, match="too few"):
        calibrate_run(training_part(run, "half"), form="six-term")
    fitted = calibrate_run(training_part(run, "all"), form="plain", shared_blocks=0)
    assert any("too little data" in line for line in fitted.warnings)
    calibration, _ = calibrate_from_run(training_part(run, "all"), form="plain", shared_blocks=0)
    assert calibration.interval is None
    assert any("no error interval" in line for line in calibration.warnings)


def test_a_context_that_hardly_changes_is_said(tmp_path: Path) -> None:
    """With a cache that is always full a fixed cost and one for context are the same."""
    run = read_run(made_folder(tmp_path / "run", 60, **TIGHT))
    fitted = calibrate_run(training_part(run, "half"), form="plain", shared_blocks=0)
    assert any("fixed and context cannot be told apart" in line for line in fitted.warnings)


def test_unknown_cache_that_was_full_is_said(tmp_path: Path) -> None:
    """A run whose requests waited with seats free, and whose cache was not recorded."""
    import json

    folder = made_folder(tmp_path / "run", 60, num_gpu_blocks=120, rate=1000.0)
    meta = json.loads((folder / "meta.json").read_text())
    del meta["kv_cache"]["num_gpu_blocks"]
    (folder / "meta.json").write_text(json.dumps(meta))
    run = read_run(folder)
    fitted = calibrate_run(training_part(run, "half"), form="plain", shared_blocks=0)
    assert any("give num_gpu_blocks" in line for line in fitted.warnings)


@pytest.mark.parametrize("part", ["none", "0", "1", "-0.5", "nan"])
def test_parts_that_are_none(tmp_path: Path, part: str) -> None:
    """Names of a training part that mean nothing."""
    run = read_run(made_folder(tmp_path / "run", 4))
    with pytest.raises(OptionError, match="training part"):
        training_part(run, part)


def test_the_interval_holds_what_it_says(tmp_path: Path) -> None:
    """Of noisy runs the 90 % interval, learned in the first half, holds most of the second."""
    shares = []
    for seed in range(4):
        run = read_run(made_folder(tmp_path / f"run{seed}", 60, noise=0.2, seed=seed, **TIGHT))
        training = training_part(run, "half")
        calibration, _ = calibrate_from_run(training, form="plain", shared_blocks=0)
        document = validate(run, calibration, training)
        shares += [document["coverage"]["ttft"], document["coverage"]["latency"]]
        assert calibration.interval is not None
        assert calibration.interval.completion < 0.1
    assert np.mean(shares) >= 0.9


def test_a_calibration_in_a_file(tmp_path: Path) -> None:
    """A calibration comes back from its file; the step times alone can be read from it too."""
    run = read_run(made_folder(tmp_path / "run", 40, noise=0.1))
    calibration, _ = calibrate_from_run(training_part(run, "all"), form="plain", shared_blocks=0)
    assert calibration.interval is not None
    path = tmp_path / "steptime.json"
    write_calibration(calibration, path)
    assert read_calibration(path) == calibration
    assert read_step_time(path) == calibration.model
    assert calibration.others
    assert all(other != calibration.model for other in calibration.others)
    plain = Calibration(model=TRUE)
    write_calibration(plain, path)
    assert read_calibration(path) == plain
    path.write_text(path.read_text().replace('"shared_blocks": 0', '"shared_blocks": -1'))
    with pytest.raises(InputError, match="shared_blocks"):
        read_calibration(path)


def test_prediction_is_the_replay(tmp_path: Path) -> None:
    """A prediction has the replay's times, bounds around them and the state at each step."""
    run = read_run(made_folder(tmp_path / "run", 40, noise=0.1))
    calibration, _ = calibrate_from_run(training_part(run, "all"), form="plain", shared_blocks=0)
    found = predict_run(run, calibration)
    direct = Replay(run.instance, run.settings, arrivals=run.arrivals).run(calibration.model)
    np.testing.assert_array_equal(found.replayed.completion, direct.completion)
    bounds = found.bounds()
    assert bounds is not None
    assert calibration.others
    for model in (calibration.model, *calibration.others):
        expected = Replay(run.instance, run.settings, arrivals=run.arrivals).run(model)
        for name, times in (("ttft", expected.ttft), ("latency", expected.latency)):
            low, high = bounds[name]
            assert (low <= times).all()
            assert (times <= high).all()
    alone = replace(found, others=()).bounds()
    assert alone is not None
    assert (alone["latency"][1] < bounds["latency"][1]).any()
    assert found.series().kv_use.max() <= 1
    running, waiting, kv_use = found.series().at(np.array([-1.0, 1e9]))
    assert running[0] == waiting[0] == kv_use[0] == 0
    assert len(found.series().end) == direct.steps


LIMITS = {
    ("RTX4090-llama-3.1-8b", "half"): (0.005, 0.01, 0.02),
    ("RTX4090-llama-3.1-8b", "0.3"): (0.01, 0.015, 0.02),
    ("RTXPRO6000-llama-3.1-8b", "half"): (0.007, 0.01, 0.01),
    ("RTXPRO6000-llama-3.1-8b", "0.3"): (0.025, 0.025, 0.025),
}
"""Of means, of high percentiles of the time to first token, and of P99 latency."""


@pytest.mark.parametrize(("name", "part"), LIMITS)
def test_public_runs(shared: Path, name: str, part: str) -> None:
    """Real GPU runs are predicted from a part of them."""
    run = read_run(shared / "traces" / "vllm_runs" / name)
    fitted = calibrate_run(training_part(run, part))
    found = figures(run, fitted)
    means, high, last = LIMITS[name, part]
    assert abs(found["ttft mean"]) <= means
    assert abs(found["latency mean"]) <= means
    assert abs(found["ttft p95"]) <= high
    assert abs(found["ttft p99"]) <= high
    assert abs(found["latency p99"]) <= last


def test_models_that_are_as_good_are_kept() -> None:
    """Where only the sum of two coefficients counts, the kept ones differ in these, not in it."""

    def error(model: StepTimeModel) -> float:
        return 0.01 + abs(model.fixed + 1e5 * model.context - 0.02)

    found = fit_form("plain", error)
    assert min(score for score, _ in found.near) == pytest.approx(found.score)
    assert max(score for score, _ in found.near) <= 1.05 * found.score
    kept = apart("plain", [found.model, *(model for _, model in found.near)], 5)
    assert kept[0] == found.model
    assert len(set(kept)) == 5
    for model in kept:
        assert error(model) <= 1.06 * found.error
    contexts = [model.context for model in kept]
    assert max(contexts) > 1.1 * min(contexts)
    assert apart("plain", [found.model] * 3, 5) == [found.model]


@pytest.mark.parametrize("ticks", [40, 20_000])
def test_the_clock_of_the_logger_is_found(tmp_path: Path, ticks: int) -> None:
    """However long it went on after the run, in seconds of work."""
    run = read_run(made_folder(tmp_path / "run", 40))
    t = np.arange(1.0, ticks + 1)
    began = 7.3
    present = np.array(
        [((run.arrivals <= x - began) & (x - began < run.last_token)).sum() for x in t], float
    )
    series = Series(t=t, running=present, waiting=np.zeros(len(t)), kv_use=None)
    document = validate(replace(run, series=series), Calibration(model=TRUE), None)
    assert document["series"]["recorded"]["shift"] == pytest.approx(began, abs=0.3)


def test_a_search_is_not_fooled_by_one_start() -> None:
    """An error with a wide trough far from the least one: the several starts find the latter."""

    def error(model: StepTimeModel) -> float:
        x = np.log([model.fixed / 0.02, model.token / 3e-4, model.context / 5e-8])
        y = np.log([model.fixed / 0.004, model.token / 2e-5, model.context / 1e-6])
        return float(min(1e-4 + np.abs(x).sum(), 2.0 + 0.1 * np.abs(y).sum()))

    found: Fitted = fit_form("plain", error)
    assert found.error < 0.01
    assert len(found.minima) == 5
    assert max(found.minima) > 1.0
