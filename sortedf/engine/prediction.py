"""What the engine will do with a plan, in seconds, and how far off that may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.calibration import Calibration
from sortedf.engine.interval import ErrorInterval
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError
from sortedf.instances import Plan
from sortedf.model import Instance, Result

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
    settings
        The engine.
    interval
        The error interval that the calibration brought, if any.
    others
        Models that the calibration could not tell from the one that was replayed.
    replay
        What was replayed; needed where there are others.
    """

    replayed: Replayed
    settings: EngineSettings
    interval: ErrorInterval | None = None
    others: tuple[StepTimeModel, ...] = ()
    replay: Replay | None = None

    def bounds(self) -> dict[str, tuple[FloatArray, FloatArray]] | None:
        """Bounds on ``ttft`` and ``latency`` (seconds), shape (n,) each; ``None`` without any.

        One more replay for each of the other models.
        """
        if self.interval is None:
            return None
        replay = self.replay
        again = [] if replay is None else [replay.run(model) for model in self.others]
        return self.interval.bounds([self.replayed, *again])

    def series(self) -> StateSeries:
        """Give the engine's state over time.

        Raises
        ------
        OptionError
            When the replay has no log.
        """
        log = self.replayed.log
        if log is None:
            raise OptionError("the state over time is of a replay with a log")
        return StateSeries(
            end=log.end,
            seconds=log.end - log.begin,
            running=log.running,
            waiting=log.waiting,
            kv_use=log.used / self.settings.usable_blocks,
        )


def predict(
    plan: Result | Plan,
    step_times: Calibration | StepTimeModel,
    settings: EngineSettings | None = None,
    *,
    log: bool = False,
) -> Prediction:
    """Replay the engine on a plan, whose order (by start, then index) is all that it is given.

    The starts themselves are not kept: whatever fits earlier starts earlier.

    Parameters
    ----------
    plan
        The plan; one from a file is believed, see :func:`sortedf.solvers.check_plan`. Releases are
        taken as the seconds at which requests arrive.
    step_times
        How long steps take. A calibration brings its error interval; what all prompts share is the
        settings' business, a calibration's ``shared_blocks`` are of its own prompts.
    settings
        The engine; :func:`engine_of_plan` when left out. Under ``planned`` and ``priority`` the
        plan's order is handed over as priorities, under ``fcfs`` it decides between equal arrivals.
    log
        Whether to keep every step, for :meth:`Prediction.series`.

    Returns
    -------
    Prediction
        Times in seconds by position in the plan's instance. See
        :class:`sortedf.engine.Replay` for the errors.
    """
    calibration = (
        step_times if isinstance(step_times, Calibration) else Calibration(model=step_times)
    )
    instance, starts = _planned(plan)
    if settings is None:
        settings = engine_of_plan(plan)
    order = np.lexsort((np.arange(len(instance)), starts))
    if settings.policy == Policy.FCFS:
        prepared = Replay(instance, settings, arrivals=instance.release, order=order)
    else:
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        prepared = Replay(instance, settings, arrivals=instance.release, priorities=places)
    return Prediction(
        replayed=prepared.run(calibration.model, log=log),
        settings=settings,
        interval=calibration.interval,
        others=calibration.others,
        replay=prepared,
    )


def engine_of_plan(plan: Result | Plan, **settings: Any) -> EngineSettings:
    """Give the settings of an engine for a plan: its KV budget and block size, policy ``planned``.

    A plan on single tokens gets vLLM's blocks of 16. ``settings`` are others of
    :class:`EngineSettings`, or instead of these.
    """
    budget = plan.instance.kv_tokens if isinstance(plan, Result) else plan.kv_tokens
    return engine_of_budget(budget, plan.block_size, **settings)


def engine_of_budget(kv_tokens: int, plan_block: int, /, **settings: Any) -> EngineSettings:
    """Give the settings of an engine for a plan on this budget; see :func:`engine_of_plan`."""
    chosen: dict[str, Any] = {"policy": Policy.PLANNED} | settings
    if plan_block > 1:
        chosen.setdefault("block_size", plan_block)
    if "num_gpu_blocks" in chosen:
        return EngineSettings(**chosen)
    return EngineSettings.for_budget(kv_tokens, **chosen)


def summary(times: FloatArray) -> dict[str, float]:
    """Mean and percentiles by nearest rank (numpy's ``inverted_cdf``)."""
    points = np.percentile(times, PERCENTS, method="inverted_cdf").tolist()
    names = [f"p{percent}" for percent in PERCENTS]
    return {"mean": float(times.mean()), **dict(zip(names, points, strict=True))}


def figures_in_seconds(found: Replayed) -> dict[str, float | int]:
    """Give in seconds what :meth:`sortedf.Result.to_dict` says in steps, and the engine's steps."""
    measures = {"latency": found.latency, "ttft": found.ttft}
    return {
        "total_latency_seconds": float(found.latency.sum()),
        **{
            f"{figure}_{measure}_seconds": value
            for measure, times in measures.items()
            for figure, value in summary(times).items()
        },
        "makespan_seconds": found.makespan,
        "engine_steps": found.steps,
        "preemptions": int(found.preemptions.sum()),
    }


def details(prediction: Prediction, ids: Sequence[str]) -> dict[str, Any]:
    """Tell each request, by position in the instance, and each step where the replay has a log."""
    replayed = prediction.replayed
    columns = {
        "id": ids,
        "arrival": replayed.arrivals.tolist(),
        "first_token": replayed.first_token.tolist(),
        "completion": replayed.completion.tolist(),
        "preemptions": replayed.preemptions.tolist(),
    }
    bounds = prediction.bounds()
    if bounds is not None:
        for name, measure in (("first_token", "ttft"), ("completion", "latency")):
            low, high = (replayed.arrivals + bound for bound in bounds[measure])
            columns[f"{name}_interval"] = list(zip(low.tolist(), high.tolist(), strict=True))
    requests = [
        {"index": index, **dict(zip(columns, row, strict=True))}
        for index, row in enumerate(zip(*columns.values(), strict=True))
    ]
    if replayed.log is None:
        return {"requests": requests}
    series = prediction.series()
    names = ("end", "seconds", "running", "waiting", "kv_use")
    return {
        "requests": requests,
        "series": {name: getattr(series, name).tolist() for name in names},
    }


def _planned(plan: Result | Plan) -> tuple[Instance, IntArray]:
    """Instance and start of each of its requests."""
    if isinstance(plan, Result):
        return plan.instance, plan.schedule.starts
    instance = plan.instance()
    starts = np.zeros(len(instance), np.int64)
    starts[plan.positions()] = plan.starts
    return instance, starts
