"""What a run is predicted to take, before it begins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf import __version__
from sortedf.engine.calibration import Calibration, read_calibration
from sortedf.engine.prediction import Prediction, details, figures_in_seconds
from sortedf.engine.replaying import Replayed
from sortedf.engine.settings import EngineSettings
from sortedf.errors import Fault, InputError
from sortedf.instances.json_values import BadLine, decode_object
from sortedf.instances.source import Source, open_source
from sortedf.kernels.replay_log import Log, new_log
from sortedf.kernels.step_terms import TERMS
from sortedf.runner.engines import Job
from sortedf.runner.replayed import LOGGED_TOKENS, replay_jobs

IntArray = npt.NDArray[np.int64]

PREDICTION = "prediction.json"
SCHEMA = "sortedf.prediction/1"

_PREFILL, _DECODE = 1, 2
"""Terms of a step: see :mod:`sortedf.kernels.step_terms`."""


def predict_jobs(
    jobs: Sequence[Job], step_times: Calibration, settings: EngineSettings
) -> Prediction:
    """Replay a started engine on jobs that are given in the order of the plan."""
    log = sum(job.output_tokens for job in jobs) <= LOGGED_TOKENS
    replayed = replay_jobs(jobs, settings, step_times.model, log=log)
    return Prediction(replayed=replayed, settings=settings, interval=step_times.interval)


def prediction_document(prediction: Prediction, jobs: Sequence[Job]) -> dict[str, Any]:
    """Give a prediction as plain data: figures, each request, each step."""
    prompts = np.array([len(job.prompt) for job in jobs], np.int64)
    outputs = np.array([job.output_tokens for job in jobs], np.int64)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "n": len(jobs),
        **figures_in_seconds(prediction.replayed),
        "recomputed_tokens": recomputed_in(prediction, prompts, outputs),
        **details(prediction, [job.name for job in jobs]),
    }


def recomputed_tokens(work: npt.NDArray[np.float64], prompts: IntArray, outputs: IntArray) -> int:
    """Count the tokens that were computed once more, after a preemption. Exact.

    A request computes its prompt and all of its output but the last token once, ``s + o - 1``. What
    the steps computed beyond the sum of these was computed again.

    Parameters
    ----------
    work
        Terms of all steps, shape (steps, TERMS).
    prompts, outputs
        Tokens of all requests that the steps are of, shape (n,).
    """
    return int(work[:, [_PREFILL, _DECODE]].sum()) - int((prompts + outputs - 1).sum())


def recomputed_in(prediction: Prediction, prompts: IntArray, outputs: IntArray) -> int | None:
    """Count the same in a prediction; ``None`` without a log, and where content is found again."""
    log = prediction.replayed.log
    if log is None or prediction.settings.enable_prefix_caching:
        return None
    return recomputed_tokens(log.work, prompts, outputs)


def read_prediction(folder: Path) -> dict[str, Any] | None:
    """Read what was predicted before the start of an attempt; ``None`` where nothing was.

    Raises
    ------
    InputError
        When it cannot be read.
    """
    path = folder / PREDICTION
    if not path.is_file():
        return None
    source = open_source(path)
    try:
        document = decode_object(source.data)
    except BadLine as error:
        raise InputError([Fault(source.name, None, str(error))]) from None
    if document.get("schema") != SCHEMA or "steptime" not in document:
        raise InputError([Fault(source.name, None, f"not a {SCHEMA} document of a run")])
    return document


def step_times_of(document: Mapping[str, Any], name: str) -> Calibration:
    """Give the step times that a prediction was made with; ``name`` is for messages."""
    return read_calibration(Source(name, json.dumps(document["steptime"]).encode()))


def prediction_of(
    document: Mapping[str, Any], ids: Sequence[str], settings: EngineSettings, interval: Any
) -> Prediction:
    """Give a prediction as it was made, of these requests; steps in seconds, without their work.

    Raises
    ------
    KeyError
        For a request of which nothing was predicted.
    """
    rows = {row["id"]: row for row in document["requests"]}
    first, last = (
        np.array([rows[name][key] for name in ids], np.float64)
        for key in ("first_token", "completion")
    )
    preemptions = np.array([rows[name]["preemptions"] for name in ids], np.int64)
    nothing, no_step = np.full(len(ids), np.nan), np.zeros(len(ids), np.int64)
    replayed = Replayed(
        arrivals=np.zeros(len(ids)),
        admitted=nothing,
        first_token=first,
        completion=last,
        admitted_step=no_step,
        first_step=no_step,
        completion_step=no_step,
        preemptions=preemptions,
        recomputed=no_step,
        steps=int(document["engine_steps"]),
        log=_log_of(document.get("series"), settings),
    )
    return Prediction(replayed=replayed, settings=settings, interval=interval)


def _log_of(series: Mapping[str, Any] | None, settings: EngineSettings) -> Log | None:
    """Give the state of the engine by the end of each step as a log that says nothing else."""
    if series is None:
        return None
    end, seconds, kv_use = (np.array(series[name]) for name in ("end", "seconds", "kv_use"))
    running, waiting = (np.array(series[name], np.int64) for name in ("running", "waiting"))
    log: Log = new_log(0, 0, 0)
    return log._replace(
        begin=end - seconds,
        end=end,
        work=np.full((len(end), TERMS), np.nan),
        running=running,
        waiting=waiting,
        used=np.rint(kv_use * settings.usable_blocks).astype(np.int64),
    )
