"""What the engine will do with a backlog, in seconds, and how far off that may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.calibration import Calibration
from sortedf.engine.interval import ErrorInterval
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings
from sortedf.model import Instance

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True, kw_only=True)
class StateSeries:
    """State of the engine over time, arrays of shape (steps,), by the end of each step.

    Parameters
    ----------
    end
        Seconds.
    seconds
        Duration of the step.
    running, waiting
        Requests.
    kv_use
        Share of the KV cache held, in [0, 1].
    """

    end: FloatArray
    seconds: FloatArray
    running: IntArray
    waiting: IntArray
    kv_use: FloatArray

    def at(self, moments: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Give running, waiting and KV use at moments: of the last step that has ended, or 0."""
        place = np.searchsorted(self.end, moments, side="right")
        return tuple(  # type: ignore[return-value]
            np.concatenate([[0.0], values])[place]
            for values in (self.running, self.waiting, self.kv_use)
        )


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Predicted times of a backlog.

    Parameters
    ----------
    replayed
        Times of each request, by position in the instance.
    series
        The engine's state over time.
    interval
        The error interval that the calibration brought, if any.
    """

    replayed: Replayed
    series: StateSeries
    interval: ErrorInterval | None

    def bounds(self) -> dict[str, tuple[FloatArray, FloatArray]] | None:
        """Bounds on ``ttft`` and ``latency`` (seconds), shape (n,) each; ``None`` without any."""
        if self.interval is None:
            return None
        return {
            "ttft": self.interval.first_token_bounds(self.replayed.ttft),
            "latency": self.interval.completion_bounds(self.replayed.latency),
        }


def predict(
    instance: Instance,
    settings: EngineSettings,
    calibration: Calibration,
    *,
    arrivals: npt.ArrayLike | None = None,
    order: npt.ArrayLike | None = None,
) -> Prediction:
    """Replay a backlog under a calibrated step-time model.

    Parameters
    ----------
    settings
        The engine. What all prompts share is the settings' business: a calibration's
        ``shared_blocks`` are of its own prompts.
    arrivals, order
        As for :class:`sortedf.engine.replaying.Replay`.
    """
    replay = Replay(instance, settings, arrivals=arrivals, order=order)
    replayed = replay.run(calibration.model, log=True)
    log = replayed.log
    assert log is not None
    series = StateSeries(
        end=log.end,
        seconds=log.end - log.begin,
        running=log.running,
        waiting=log.waiting,
        kv_use=log.used / settings.usable_blocks,
    )
    return Prediction(replayed=replayed, series=series, interval=calibration.interval)


def summary(times: FloatArray) -> dict[str, float]:
    """Mean and percentiles by nearest rank."""
    points = np.percentile(times, PERCENTS, method="inverted_cdf").tolist()
    names = [f"p{percent}" for percent in PERCENTS]
    return {"mean": float(times.mean()), **dict(zip(names, points, strict=True))}


def describe(prediction: Prediction) -> dict[str, Any]:
    """Figures of a prediction as plain data; seconds."""
    replayed = prediction.replayed
    return {
        "ttft": summary(replayed.ttft),
        "latency": summary(replayed.latency),
        "makespan_seconds": replayed.makespan,
        "steps": replayed.steps,
        "preemptions": int(replayed.preemptions.sum()),
        "peak_kv_use": float(prediction.series.kv_use.max()),
        "peak_running": int(prediction.series.running.max()),
    }
