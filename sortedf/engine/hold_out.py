"""The error interval of a calibration from request times: fit on less, look at the rest."""

from __future__ import annotations

from sortedf.engine.fit import fit_form
from sortedf.engine.interval import COVERAGE, ErrorInterval, conformal_quantile, relative_errors
from sortedf.engine.replaying import Replay
from sortedf.engine.settings import EngineSettings
from sortedf.engine.training import BoolArray, FloatArray, Training, earlier_part

FEWEST = 5
"""Held-out times of a kind below which no interval is given."""


def held_out_interval(
    training: Training, settings: EngineSettings, form: str
) -> ErrorInterval | None:
    """Fit the form anew on the earlier half of the training part, and predict the later one.

    Nothing but the training part is looked at. The later half comes later in time, as what is to be
    predicted does, and lies as far ahead as the second half of a run lies ahead of the first.
    ``None`` where too few times are left over.
    """
    earlier = earlier_part(training)
    if earlier is None:
        return None
    first, last = training.first & ~earlier.first, training.last & ~earlier.last
    if min(first.sum(), last.sum()) < FEWEST:
        return None
    prepared = earlier.replay(settings)
    fitted = fit_form(form, lambda model: earlier.error(prepared.run(model)))
    run = training.run
    whole = Replay(run.instance, settings, arrivals=run.arrivals)
    replayed = whole.run(fitted.model, log=True)
    log = replayed.log
    assert log is not None
    step = float((log.end - log.begin).mean())

    def share(real: FloatArray, predicted: FloatArray, held_out: BoolArray) -> float:
        return conformal_quantile(relative_errors(real[held_out], predicted[held_out], step))

    return ErrorInterval(
        coverage=COVERAGE,
        first_token=share(run.ttft, replayed.ttft, first),
        completion=share(run.latency, replayed.latency, last),
        step_seconds=step,
        held_out=int(first.sum() + last.sum()),
    )
