"""The error interval of a calibration from request times: fit on less, look at the rest."""

from __future__ import annotations

import numpy as np

from sortedf.engine.calibrate_run import objective
from sortedf.engine.fit import fit_form
from sortedf.engine.interval import COVERAGE, ErrorInterval, busy_seconds, conformal_quantile
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings
from sortedf.engine.training import BoolArray, FloatArray, Training, parts

FEWEST = 5
"""Held-out times of a kind below which no interval is given."""


def held_out_interval(
    training: Training, settings: EngineSettings, form: str
) -> ErrorInterval | None:
    """Fit the form anew on halves of the training part, and predict the other halves.

    Nothing but the training part is looked at. The larger one of the two shares is taken: errors of
    one half move together, so that each is little more than one observation. ``None`` where too few
    times are left over.
    """
    run = training.run
    whole = Replay(run.instance, settings, arrivals=run.arrivals)
    replayed: list[tuple[Training, Replayed]] = []
    for part in parts(training):
        left = min((training.first & ~part.first).sum(), (training.last & ~part.last).sum())
        if left >= FEWEST:
            fitted = fit_form(form, objective(part, settings))
            replayed.append((part, whole.run(fitted.model, log=True)))
    if not replayed:
        return None
    step = max(_longest_step(found) for _, found in replayed)
    first_token, completion, held_out = [], [], 0
    for part, found in replayed:
        first, last = training.first & ~part.first, training.last & ~part.last
        first_token.append(_share(run.first_token, found, found.first_token, first, step))
        completion.append(_share(run.last_token, found, found.completion, last, step))
        held_out += int(first.sum() + last.sum())
    return ErrorInterval(
        coverage=COVERAGE,
        first_token=max(first_token),
        completion=max(completion),
        step_seconds=step,
        held_out=held_out,
    )


def _longest_step(found: Replayed) -> float:
    assert found.log is not None
    return float((found.log.end - found.log.begin).max())


def _share(
    real: FloatArray, found: Replayed, moments: FloatArray, held_out: BoolArray, step: float
) -> float:
    errors = np.abs(real - moments) / busy_seconds(found, moments, step)
    return conformal_quantile(errors[held_out])
