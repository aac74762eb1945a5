"""Predicted against realized for what `sortedf run` executed, attempt by attempt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.engine.calibration import Calibration
from sortedf.engine.prediction import Prediction
from sortedf.engine.training import Training
from sortedf.engine.validation import hold_against
from sortedf.runner.executed import Attempt
from sortedf.runner.predicted import prediction_of, recomputed_in, step_times_of
from sortedf.runner.replayed import LOGGED_TOKENS, replay_in_order

FloatArray = npt.NDArray[np.float64]

BEFORE = "prediction.json, made before the run"


class Foretold(NamedTuple):
    """A prediction of an attempt, by what step times, who made it and what that one had seen."""

    prediction: Prediction
    step_times: Calibration
    by: str
    training: Training | None
    recomputed_tokens: int | None


def foretold_before(attempt: Attempt) -> Foretold:
    """Take what was predicted before the run; the attempt must have that."""
    document = attempt.prediction
    assert document is not None
    step_times = step_times_of(document, str(attempt.path))
    instance, settings = attempt.run.instance, attempt.run.settings
    prediction = prediction_of(document, instance.ids, settings, step_times.interval)
    recomputed = document.get("recomputed_tokens")
    return Foretold(prediction, step_times, BEFORE, None, recomputed)


def foretold_after(
    attempt: Attempt, step_times: Calibration, by: str, training: Training | None
) -> Foretold:
    """Replay what was answered, with the outputs that were predicted of it."""
    prediction = _replayed(attempt, step_times, attempt.predicted_tokens)
    prompts = attempt.run.instance.prompt_tokens
    recomputed = recomputed_in(prediction, prompts, attempt.predicted_tokens)
    return Foretold(prediction, step_times, by, training, recomputed)


def validate_attempt(attempt: Attempt, foretold: Foretold) -> dict[str, Any]:
    """Hold a prediction against what happened.

    All times are seconds since the engine began with the first request.

    Returns
    -------
    document : dict
        That of :func:`sortedf.engine.validation.hold_against`, and ``attempt, handover,
        predicted_by, whole, jobs, refused, warm_up, seconds_to_hand_over, rank_correlation``
        (``spearman, kendall``, of the completion times), ``admission`` (``in_order,
        out_of_order``), ``work`` (``realized`` and ``predicted`` ``preemptions`` and
        ``recomputed_tokens``, ``None`` where that cannot be told), and ``lengths``, where outputs
        are not as predicted: what of the error they make.
    """
    run, prediction = attempt.run, foretold.prediction
    document = hold_against(
        run,
        prediction,
        foretold.step_times,
        foretold.training,
        predicted_tokens=attempt.predicted_tokens,
        shift=0.0,
    )
    return {
        **document,
        "attempt": attempt.name,
        "handover": attempt.handover,
        "predicted_by": foretold.by,
        "whole": attempt.whole,
        "jobs": attempt.jobs,
        "refused": attempt.refused,
        "warm_up": attempt.warm_up,
        "seconds_to_hand_over": attempt.seconds_to_hand_over,
        "rank_correlation": rank_correlation(run.last_token, prediction.replayed.completion),
        "admission": {
            "in_order": attempt.out_of_order == 0,
            "out_of_order": attempt.out_of_order,
        },
        "work": {
            "realized": {
                "preemptions": int(attempt.preempted.sum()),
                "recomputed_tokens": attempt.recomputed_tokens(),
            },
            "predicted": {
                "preemptions": int(prediction.replayed.preemptions.sum()),
                "recomputed_tokens": foretold.recomputed_tokens,
            },
        },
        "lengths": _lengths(attempt, foretold),
    }


def rank_correlation(one: FloatArray, other: FloatArray) -> dict[str, float | None]:
    """Spearman's rho and Kendall's tau-b of two series; ``None`` where one of them is constant."""
    from scipy import stats

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return {"spearman": None, "kendall": None}
    return {
        "spearman": float(stats.spearmanr(one, other).statistic),
        "kendall": float(stats.kendalltau(one, other).statistic),
    }


def _lengths(attempt: Attempt, foretold: Foretold) -> dict[str, Any] | None:
    """Say what of the error of the mean latency comes of outputs that were not as predicted.

    The rest is what is left when the same step times are told the real outputs.
    """
    real, predicted = attempt.run.instance.output_tokens, attempt.predicted_tokens
    if np.array_equal(real, predicted):
        return None
    told: dict[str, Any] = {
        "longer": int((real > predicted).sum()),
        "shorter": int((real < predicted).sum()),
        "predicted_tokens": int(predicted.sum()),
        "realized_tokens": int(real.sum()),
        "replayed": None,
    }
    if not attempt.whole or attempt.refused:
        return told  # what else was running is not known
    known = _replayed(attempt, foretold.step_times, real)
    realized = float(attempt.run.latency.mean())
    error = float(foretold.prediction.replayed.latency.mean()) / realized - 1
    rest = float(known.replayed.latency.mean()) / realized - 1
    prompts = attempt.run.instance.prompt_tokens
    told["replayed"] = {
        "mean_latency": float(known.replayed.latency.mean()),
        "preemptions": int(known.replayed.preemptions.sum()),
        "recomputed_tokens": recomputed_in(known, prompts, real),
        "error": error,
        "of_lengths": error - rest,
        "of_step_times": rest,
    }
    return told


def _replayed(
    attempt: Attempt, step_times: Calibration, outputs: npt.NDArray[np.int64]
) -> Prediction:
    """Replay an attempt with these outputs; the engine knows what was predicted."""
    instance, settings = attempt.run.instance, attempt.run.settings
    if settings.enable_prefix_caching:
        settings = replace(settings, shared_blocks=step_times.shared_blocks)
    replayed = replay_in_order(
        instance.prompt_tokens,
        outputs,
        attempt.predicted_tokens,
        instance.ids,
        settings,
        step_times.model,
        log=int(outputs.sum()) <= LOGGED_TOKENS,
    )
    return Prediction(replayed=replayed, settings=settings, interval=step_times.interval)
