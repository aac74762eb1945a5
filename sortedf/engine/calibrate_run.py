"""Calibration from the times of requests alone: a step-time model by fitting through the replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sortedf.engine.fit import WORTH, Fitted, apart, fit_form
from sortedf.engine.identify import unidentified
from sortedf.engine.run_folder import Run
from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel, design_matrix, form_names
from sortedf.engine.training import HORIZON, Training
from sortedf.errors import Fault, InputError

AUTO = "auto"

SIMPLE_FORMS = ("plain", "small")
RICH_FORMS = ("sfs",)

MOST_OTHERS = 5
"""Models of a form that are kept beside the best one."""

MOST_SHARED = 64
"""Blocks up to which a common header is looked for."""

SEATS_FILLED = 0.9
"""Share of the seats below which a waiting request does not wait for a seat."""

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One thing tried: so many shared blocks, a form, and what its search came to."""

    shared_blocks: int
    fitted: Fitted


@dataclass(frozen=True, kw_only=True)
class RunFit:
    """A step-time model fitted to the training part of a run.

    Parameters
    ----------
    model
        Coefficients.
    settings
        The engine's, with the shared blocks chosen.
    fitted
        The search that was chosen.
    trials
        All that was tried, in order.
    others
        Models that the training part cannot tell from it: their scores are within 5 %.
    warnings
        What the data cannot tell, a line each.
    """

    model: StepTimeModel
    others: tuple[StepTimeModel, ...]
    settings: EngineSettings
    fitted: Fitted
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...]


def calibrate_run(
    training: Training,
    *,
    form: str = AUTO,
    shared_blocks: int | None = None,
    report: Report | None = None,
) -> RunFit:
    """Fit a step-time model to the times of requests.

    The training error decides everything: coefficients, form, and how many blocks all prompts share
    (0, 1, 2, ... as long as one more makes it better by 5 %; only with prefix caching).

    Parameters
    ----------
    training
        What may be looked at.
    form
        A form, or ``auto``: the better one of ``plain`` and ``small``, or ``sfs`` if it is better
        by 5 %.
    shared_blocks
        Taken as given instead of being looked for.
    report
        Called with what is going on.

    Raises
    ------
    InputError
        Where there are fewer known times than coefficients.
    """
    say = report or (lambda text: None)
    if form != AUTO:
        form_names(form)
    run = training.run
    simple = SIMPLE_FORMS if form == AUTO else (form,)
    fewest = max(len(form_names(name)) for name in simple)
    if training.times < fewest:
        raise InputError(
            [
                Fault(
                    run.folder,
                    None,
                    f"{training.times} token times are too few to fit {fewest} coefficients "
                    f"({training.name}); train on more",
                )
            ]
        )
    trials: list[Trial] = []

    def fit(name: str, shared: int, begin: Fitted | None = None) -> Fitted:
        say(f"fitting form {name}, shared blocks {shared}")
        error = objective(training, run.settings.replace(shared_blocks=shared))
        fitted = fit_form(name, error, begin=None if begin is None else begin.model)
        trials.append(Trial(shared_blocks=shared, fitted=fitted))
        return fitted

    shared = shared_blocks or 0
    best = fit(simple[0], shared)
    if shared_blocks is None and run.settings.enable_prefix_caching:
        for count in range(1, _most_shared(run) + 1):
            longer = fit(simple[0], count, best)
            if longer.score > (1 - WORTH) * best.score:
                break
            best, shared = longer, count
    for name in simple[1:]:
        best = min(best, fit(name, shared), key=lambda fitted: fitted.score)
    for name in RICH_FORMS if form == AUTO else ():
        if training.times >= len(form_names(name)):
            richer = fit(name, shared, best)
            best = richer if richer.score < (1 - WORTH) * best.score else best
    settings = run.settings.replace(shared_blocks=shared)
    source = f"fitted through the replay to {training.name} of {Path(run.folder).resolve().name}"
    return RunFit(
        model=replace(best.model, source=source),
        others=_as_good(best, [trial for trial in trials if trial.shared_blocks == shared]),
        settings=settings,
        fitted=best,
        trials=tuple(trials),
        warnings=tuple(_warnings(training, settings, best)),
    )


def _as_good(best: Fitted, trials: list[Trial]) -> tuple[StepTimeModel, ...]:
    """Give what else was tried that is as good but for noise; of each form a few, far apart."""
    limit = (1 + WORTH) * best.score
    found: list[StepTimeModel] = []
    for trial in trials:
        fitted = trial.fitted
        models = [model for score, model in fitted.near if score <= limit]
        if models:
            found += apart(fitted.form, [fitted.model, *models], MOST_OTHERS)
    return tuple(model for model in found if model != best.model)


def objective(training: Training, settings: EngineSettings) -> Callable[[StepTimeModel], float]:
    """Give the training error of a model as a function, the replay prepared once."""
    replay = training.replay(settings)
    return lambda model: training.error(replay.run(model))


def _most_shared(run: Run) -> int:
    """Blocks that a header of all prompts can have: the last token of a prompt is its own."""
    shortest = int(run.instance.prompt_tokens.min())
    return min(MOST_SHARED, (shortest - 1) // run.settings.block_size)


def _warnings(training: Training, settings: EngineSettings, fit: Fitted) -> list[str]:
    """Say what the known times cannot tell, by the work that was done between them."""
    lines = []
    if training.completed == 0:
        lines.append("no request is seen to its last token: what a decode takes is a guess")
    if _cache_bound(training, settings):
        lines.append(
            "requests waited while seats were free: the KV cache was full, but its size was not "
            "recorded; give num_gpu_blocks"
        )
    replay = training.replay(settings)
    replayed = replay.run(fit.model, log=True)
    log = replayed.log
    assert log is not None
    present = training.run.arrivals <= HORIZON * training.end
    known = np.concatenate(
        [
            replayed.first_token[training.first[present]],
            replayed.completion[training.last[present]],
        ]
    )
    moments = np.unique(known[~np.isnan(known)])
    done = np.vstack([np.zeros(log.work.shape[1]), np.cumsum(log.work, axis=0)])
    between = np.diff(done[np.searchsorted(log.end, moments, side="right")], axis=0)
    return lines + unidentified(design_matrix(fit.form, between), form_names(fit.form))


def _cache_bound(training: Training, settings: EngineSettings) -> bool:
    """Whether a cache of unknown size kept requests waiting, by the known times."""
    run = training.run
    if run.blocks_known or not training.first.any():
        return False
    # Who waited longer than its own prefill took did not wait for a step alone.
    waited = training.first & (run.admitted - run.arrivals > run.first_token - run.admitted)
    if not waited.any():
        return False
    came = np.sort(run.admitted[training.admitted])
    left = np.sort(run.last_token[training.last])
    moments = run.admitted[waited]
    running = np.searchsorted(came, moments) - np.searchsorted(left, moments)
    return bool(np.median(running) < SEATS_FILLED * settings.max_num_seqs)
