"""What a run is predicted to take, before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sortedf import __version__
from sortedf.engine.calibration import Calibration
from sortedf.engine.prediction import Prediction, details, figures_in_seconds
from sortedf.engine.settings import EngineSettings
from sortedf.runner.engines import Job
from sortedf.runner.replayed import LOGGED_TOKENS, replay_jobs


def predict_jobs(
    jobs: Sequence[Job], step_times: Calibration, settings: EngineSettings
) -> Prediction:
    """Replay a started engine on jobs that are given in the order of the plan."""
    log = sum(job.output_tokens for job in jobs) <= LOGGED_TOKENS
    replayed = replay_jobs(jobs, settings, step_times.model, log=log)
    return Prediction(replayed=replayed, settings=settings, interval=step_times.interval)


def prediction_document(prediction: Prediction, jobs: Sequence[Job]) -> dict[str, Any]:
    """Give a prediction as plain data: figures, each request, each step."""
    return {
        "schema": "sortedf.prediction/1",
        "version": __version__,
        "n": len(jobs),
        **figures_in_seconds(prediction.replayed),
        **details(prediction, [job.name for job in jobs]),
    }
