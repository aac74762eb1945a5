"""Calibration from the steps themselves: robust regression with coefficients of 0 or more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.identify import unidentified
from sortedf.engine.interval import COVERAGE, ErrorInterval, conformal_quantile
from sortedf.engine.step_time import FORMS, StepTimeModel, design_matrix, form_names
from sortedf.errors import Fault, InputError, OptionError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

AUTO = "auto"

HUBER = 1.345
"""Scaled residuals beyond this count by their size, not its square: 95 % as good as least squares
where all is normal (Huber, Ann. Math. Statist. 35, 1964)."""

OUTLYING = 6.0
"""Scaled residuals beyond this are named as outliers."""

TO_NORMAL = 1.4826
"""Median absolute deviation to standard deviation."""

ROUNDS = 50
FOLDS = 10
RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Error on steps that the fit did not see, with its 95 % confidence interval.

    Parameters
    ----------
    error, low, high
        Mean absolute error over mean duration.
    bias
        Predicted over real total time, less 1.
    """

    error: float
    low: float
    high: float
    bias: float


@dataclass(frozen=True, kw_only=True)
class StepFit:
    """A step-time model fitted to steps.

    Parameters
    ----------
    form
        Its form.
    model
        Coefficients.
    outliers
        Steps (by position) that took far more or less time than all others of their kind.
    held_out
        Error on steps not seen; for every form that was tried, by name.
    interval
        Error of times that are sums of steps, from stretches of steps not seen.
    warnings
        What the data cannot tell, a line each.
    """

    form: str
    model: StepTimeModel
    outliers: IntArray
    held_out: dict[str, HeldOut]
    interval: ErrorInterval | None
    warnings: tuple[str, ...]


def calibrate_steps(
    work: npt.ArrayLike,
    seconds: npt.ArrayLike,
    *,
    runs: Sequence[int] = (),
    form: str = AUTO,
    seed: int = 0,
) -> StepFit:
    """Fit a step-time model to steps.

    Parameters
    ----------
    work
        What each step is made of, shape (steps, TERMS).
    seconds
        How long it took, shape (steps,), > 0.
    runs
        How many of the steps are of the first run, of the second one, and so on; of one when left
        out. What the speed of the machine does from run to run is learned from several alone.
    form
        A form, or ``auto``: of all forms whose held-out error is within the confidence interval of
        the least one, the one of fewest coefficients, and of these the best.
    seed
        Of the resampling.

    Raises
    ------
    InputError
        For fewer steps than coefficients.
    OptionError
        For shapes that do not fit.

    Notes
    -----
    Non-negative least squares (Lawson and Hanson, 1974) reweighted by Huber's rule. Held out are
    ten stretches of consecutive steps, one after the other, so that steps next to each other, which
    are alike, are not on both sides; confidence intervals from bootstrap over single steps.
    """
    terms, times = np.asarray(work, np.float64), np.asarray(seconds, np.float64)
    if terms.ndim != 2 or times.shape != (len(terms),):
        raise OptionError(f"work has shape {terms.shape} and seconds {times.shape}")
    if runs and (sum(runs) != len(times) or min(runs) < 1):
        raise OptionError(f"runs are of {sum(runs)} steps, there are {len(times)}")
    if form != AUTO:
        form_names(form)
    asked = FORMS if form == AUTO else [form]
    names = [name for name in asked if len(FORMS[name]) <= len(times)]
    if not names:
        noun = "step is" if len(times) == 1 else "steps are"
        fewest = min(len(FORMS[name]) for name in asked)
        message = f"{len(times)} {noun} too few to fit {fewest} coefficients; log more"
        raise InputError([Fault("work", None, message)])
    folds = min(FOLDS, len(times))
    stretches = _stretches(len(times), folds)
    predicted = {name: _held_out(design_matrix(name, terms), times, stretches) for name in names}
    held_out = {name: _score(times, predicted[name], seed) for name in names}
    best = min(names, key=lambda name: held_out[name].error)
    good = [name for name in names if held_out[name].error <= held_out[best].high]
    chosen = min(good, key=lambda name: (len(FORMS[name]), held_out[name].error))
    design = design_matrix(chosen, terms)
    coefficients, scale = fit_robustly(design, times)
    residuals = times - design @ coefficients
    # A perfect fit has no scale; what differs then is rounding.
    unseen = predicted[chosen]
    if len(runs) > 1:
        ends = np.cumsum(runs)
        whole = [np.arange(end - n, end) for n, end in zip(runs, ends, strict=True)]
        unseen = _held_out(design, times, whole)
        stretches = [part for run in whole for part in np.array_split(run, min(FOLDS, len(run)))]
        stretches += whole
    limit = max(OUTLYING * scale, 1e-9 * float(np.median(times)))
    return StepFit(
        form=chosen,
        model=StepTimeModel.of_form(chosen, coefficients.tolist()),
        outliers=np.flatnonzero(np.abs(residuals) > limit),
        held_out=held_out,
        interval=_interval(times, unseen, stretches),
        warnings=tuple(unidentified(design, form_names(chosen))),
    )


def fit_robustly(design: FloatArray, times: FloatArray) -> tuple[FloatArray, float]:
    """Fit times = design @ coefficients, coefficients >= 0; gives these and the residuals' scale.

    O(rounds x rows x columns^2).
    """
    from scipy.optimize import nnls

    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1.0
    scaled = design / lengths
    weights = np.ones(len(times))
    coefficients = np.zeros(design.shape[1])
    scale = 0.0
    for _ in range(ROUNDS):
        root = np.sqrt(weights)
        found = nnls(scaled * root[:, None], times * root)[0]
        residuals = times - scaled @ found
        scale = TO_NORMAL * float(np.median(np.abs(residuals)))
        done = np.allclose(found, coefficients, rtol=1e-9, atol=0.0)
        coefficients = found
        if done or scale <= 1e-12 * float(np.median(times)):
            break
        weights = np.minimum(1.0, HUBER * scale / np.maximum(np.abs(residuals), 1e-300))
    return coefficients / lengths, scale


def _stretches(n: int, folds: int) -> list[IntArray]:
    return np.array_split(np.arange(n), folds)


def _held_out(design: FloatArray, times: FloatArray, stretches: list[IntArray]) -> FloatArray:
    """Predict each stretch of steps from all others."""
    predicted = np.empty(len(times))
    for stretch in stretches:
        rest = np.ones(len(times), bool)
        rest[stretch] = False
        predicted[stretch] = design[stretch] @ fit_robustly(design[rest], times[rest])[0]
    return predicted


def _score(times: FloatArray, predicted: FloatArray, seed: int) -> HeldOut:
    errors = np.abs(predicted - times)
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(times), (RESAMPLES, len(times)))
    ratios = errors[drawn].mean(axis=1) / times[drawn].mean(axis=1)
    low, high = np.percentile(ratios, (2.5, 97.5)).tolist()
    return HeldOut(
        error=float(errors.mean() / times.mean()),
        low=low,
        high=high,
        bias=float(predicted.sum() / times.sum()) - 1,
    )


def _interval(
    times: FloatArray, predicted: FloatArray, stretches: list[IntArray]
) -> ErrorInterval | None:
    """Learn the error of sums of steps from the stretches; none from fewer than ten."""
    sums = np.array([[times[part].sum(), predicted[part].sum()] for part in stretches])
    if len(sums) < FOLDS or not sums.all():
        return None
    share = conformal_quantile(np.abs(sums[:, 0] / sums[:, 1] - 1))
    return ErrorInterval(
        coverage=COVERAGE,
        first_token=share,
        completion=share,
        step_seconds=float(predicted.max()),
        held_out=len(stretches),
    )
