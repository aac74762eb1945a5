"""Predicted against realized, request by request and second by second."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.calibration import Calibration
from sortedf.engine.prediction import Prediction, summary
from sortedf.engine.replaying import Replay
from sortedf.engine.run_folder import Run
from sortedf.engine.run_series import Series
from sortedf.engine.training import Training

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

SCHEMA = "sortedf.validation/1"

MEASURES = {
    "ttft": "time to first token",
    "latency": "latency",
    "tpot": "time per further token",
}

SHIFT_GRAIN, MOST_SHIFTS = 0.1, 5000
"""Seconds between clocks that are tried in the end, and how many shifts are tried first."""

POINTS = 300
"""Moments at which the state of the engine is compared."""


def predict_run(run: Run, calibration: Calibration) -> Prediction:
    """Replay a run, of which arrivals, lengths and the engine's settings are known; with a log."""
    settings = run.settings
    if settings.enable_prefix_caching:
        settings = settings.replace(shared_blocks=calibration.shared_blocks)
    prepared = Replay(run.instance, settings, arrivals=run.arrivals)
    return Prediction(
        replayed=prepared.run(calibration.model, log=True),
        settings=settings,
        interval=calibration.interval,
        others=calibration.others,
        replay=prepared,
    )


def validate(run: Run, calibration: Calibration, training: Training | None) -> dict[str, Any]:
    """Predict a run, all of it, and hold the prediction against what happened.

    Parameters
    ----------
    run
        The run. Of it the prediction knows arrivals, lengths and the engine's settings.
    calibration
        Step times. What the prompts share is taken from it if it was calibrated on this run.
    training
        The part of this run that the calibration has seen; ``None`` for none.

    Returns
    -------
    document : dict
        See :func:`hold_against`.
    """
    return hold_against(run, predict_run(run, calibration), calibration, training)


def hold_against(
    run: Run,
    prediction: Prediction,
    calibration: Calibration,
    training: Training | None,
    *,
    predicted_tokens: IntArray | None = None,
    shift: float | None = None,
) -> dict[str, Any]:
    """Hold a prediction against what happened.

    Parameters
    ----------
    prediction
        Of the requests of the run, in their order.
    calibration
        The step times of the prediction.
    training
        The part of this run that the calibration has seen; ``None`` for none.
    predicted_tokens
        Outputs that were predicted with, shape (n,), tokens; the real ones when left out.
    shift
        Seconds by which the clock of the run's series began before the first arrival; found out
        when left out.

    Returns
    -------
    document : dict
        Plain data: ``figures`` (realized, predicted and error of means and percentiles, seconds),
        ``errors``, ``coverage`` of the error interval on what was not trained on, per-request times
        and ``series`` of running, waiting and KV use.
    """
    replayed = prediction.replayed
    outputs = run.instance.output_tokens
    foreseen = outputs if predicted_tokens is None else predicted_tokens
    real = _measured(run.first_token, run.last_token, run.arrivals, outputs)
    guess = _measured(replayed.first_token, replayed.completion, run.arrivals, foreseen)
    figures = [
        {
            "measure": measure,
            "figure": figure,
            "realized": value,
            "predicted": summary(guess[measure])[figure],
            "error": summary(guess[measure])[figure] / value - 1,
        }
        for measure in MEASURES
        if len(real[measure]) and len(guess[measure])
        for figure, value in summary(real[measure]).items()
    ]
    figures.append(
        {
            "measure": "makespan",
            "figure": "whole",
            "realized": run.makespan,
            "predicted": replayed.makespan,
            "error": replayed.makespan / run.makespan - 1,
        }
    )
    unseen_first = np.ones(len(run.instance), bool) if training is None else ~training.first
    unseen_last = np.ones(len(run.instance), bool) if training is None else ~training.last
    return {
        "schema": SCHEMA,
        "folder": run.folder,
        "model": run.model,
        "hardware": run.hardware,
        "engine": run.settings.version.name,
        "n": len(run.instance),
        "notes": list(run.notes),
        "steptime": calibration.to_dict(),
        "trained_on": None if training is None else training.name,
        "training_times": 0 if training is None else training.times,
        "steps": replayed.steps,
        "preemptions": int(replayed.preemptions.sum()),
        "figures": figures,
        "errors": {
            "ttft": _errors(replayed.first_token - run.first_token, run.ttft),
            "latency": _errors(replayed.completion - run.last_token, run.latency),
        },
        "coverage": _coverage(run, prediction, unseen_first, unseen_last),
        "requests": {
            "id": list(run.instance.ids),
            "arrival": run.arrivals.tolist(),
            "trained": (~unseen_last).tolist(),
            "ttft": {"realized": run.ttft.tolist(), "predicted": replayed.ttft.tolist()},
            "latency": {"realized": run.latency.tolist(), "predicted": replayed.latency.tolist()},
        },
        "series": _series(run, prediction, shift),
    }


def _measured(
    first: FloatArray, last: FloatArray, arrivals: FloatArray, outputs: IntArray
) -> dict[str, FloatArray]:
    further = outputs - 1
    several = further > 0
    return {
        "ttft": first - arrivals,
        "latency": last - arrivals,
        "tpot": (last - first)[several] / further[several],
    }


def _errors(seconds: FloatArray, times: FloatArray) -> dict[str, float]:
    """Describe errors of single requests: in seconds, and as shares of the real time."""
    shares = np.abs(seconds) / times
    return {
        "mean_absolute": float(np.abs(seconds).mean()),
        "median_share": float(np.median(shares)),
        "p90_share": float(np.percentile(shares, 90, method="inverted_cdf")),
        "p95_share": float(np.percentile(shares, 95, method="inverted_cdf")),
        "worst": float(np.abs(seconds).max()),
    }


def _coverage(
    run: Run, prediction: Prediction, first: BoolArray, last: BoolArray
) -> dict[str, Any] | None:
    """Share of the times that were not trained on that lie in their interval."""
    bounds = prediction.bounds()
    if bounds is None or prediction.interval is None:
        return None
    shares = {}
    for name, real, unseen in (("ttft", run.ttft, first), ("latency", run.latency, last)):
        low, high = bounds[name]
        inside = (low <= real) & (real <= high)
        shares[name] = float(inside[unseen].mean()) if unseen.any() else None
    return {"asked": prediction.interval.coverage, **shares}


def _series(run: Run, prediction: Prediction, shift: float | None) -> dict[str, Any]:
    """Compare the state of the engine at even moments.

    Requests in the system follow from the stamps exactly; running and KV use are shown where they
    were recorded.
    """
    last = max(run.makespan, prediction.replayed.makespan)
    moments = np.linspace(0.0, last, POINTS)
    predicted = None
    if prediction.replayed.log is not None:
        names = ("running", "waiting", "kv_use")
        states = prediction.series().at(moments)
        predicted = {name: state.tolist() for name, state in zip(names, states, strict=True)}
    recorded = None
    if run.series is not None:
        if shift is None:
            shift = _clock_shift(run, run.series)
        t = run.series.t - shift
        recorded = {
            "shift": shift,
            "t": t.tolist(),
            "running": run.series.running.tolist(),
            "waiting": run.series.waiting.tolist(),
            "kv_use": None if run.series.kv_use is None else run.series.kv_use.tolist(),
        }
    return {
        "t": moments.tolist(),
        "present": _present(run.arrivals, run.last_token, moments).tolist(),
        "predicted": predicted,
        "recorded": recorded,
    }


def _present(arrivals: FloatArray, last: FloatArray, moments: FloatArray) -> FloatArray:
    """Count the requests that have arrived and are not done at each moment."""
    came = np.searchsorted(np.sort(arrivals), moments, side="right")
    left = np.searchsorted(np.sort(last), moments, side="right")
    return (came - left).astype(np.float64)


def _clock_shift(run: Run, series: Series) -> float:
    """Seconds by which the logger's clock began before the first arrival.

    It is not recorded; it is where the requests that the series counts are nearest to those that
    the stamps say were there.
    """
    counted = series.running + series.waiting

    def missed(shift: float) -> float:
        there = _present(run.arrivals, run.last_token, series.t - shift)
        return float(np.abs(there - counted).sum())

    begin, end = float(series.t[0]) - run.makespan, float(series.t[-1])
    grain = max(SHIFT_GRAIN, (end - begin) / MOST_SHIFTS)
    best = min(np.arange(begin, end, grain).tolist(), key=missed, default=0.0)
    while grain > SHIFT_GRAIN:
        around = np.linspace(best - grain, best + grain, 21)
        best, grain = min(around.tolist(), key=missed), grain / 10
    return round(best, 6)
