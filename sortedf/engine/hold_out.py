"""The error interval of a calibration from request times: fit on less, look at the rest."""

from __future__ import annotations

from sortedf.engine.calibrate_run import objective
from sortedf.engine.fit import fit_form
from sortedf.engine.interval import COVERAGE, ErrorInterval, conformal_quantile, relative_errors
from sortedf.engine.replaying import Replay
from sortedf.engine.settings import EngineSettings
from sortedf.engine.training import FloatArray, Training, parts

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
    first_token, completion, steps = [], [], []
    held_out = 0
    for part in parts(training):
        first, last = training.first & ~part.first, training.last & ~part.last
        if min(first.sum(), last.sum()) < FEWEST:
            continue
        fitted = fit_form(form, objective(part, settings))
        replayed = whole.run(fitted.model, log=True)
        log = replayed.log
        assert log is not None
        step = float((log.end - log.begin).mean())
        steps.append(step)
        first_token.append(_share(run.ttft[first], replayed.ttft[first], step))
        completion.append(_share(run.latency[last], replayed.latency[last], step))
        held_out += int(first.sum() + last.sum())
    if not steps:
        return None
    return ErrorInterval(
        coverage=COVERAGE,
        first_token=max(first_token),
        completion=max(completion),
        step_seconds=max(steps),
        held_out=held_out,
    )


def _share(real: FloatArray, predicted: FloatArray, step: float) -> float:
    return conformal_quantile(relative_errors(real, predicted, step))
