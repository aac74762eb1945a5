"""What is foreseen of a request's output while it is being generated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.kernels.replay_live import FINENESS, LOWEST, PLACES

FloatArray: TypeAlias = npt.NDArray[np.float64]

MOST_SIGMA = 10
"""Beyond it predictions say nothing, and their factors leave what a float can hold."""


@dataclass(frozen=True)
class LengthModel:
    """Foreseen output in all, given what was predicted and how many tokens there are so far.

    Parameters
    ----------
    name
        For tables.
    longer
        Factor on the prediction, by the logarithm of tokens so far over prediction: shape (193,),
        on a grid from -6 to 6. What is foreseen is at least one token more than there are.
    """

    name: str
    longer: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        if self.longer.shape != (PLACES,) or not (self.longer > 0).all():
            raise OptionError(f"a length model has {PLACES} factors above 0")


def _ratios() -> FloatArray:
    result: FloatArray = np.exp(LOWEST + np.arange(PLACES) / FINENESS)
    return result


def as_predicted() -> LengthModel:
    """Believe every prediction until it is outlived, and then in one more token, again and again.

    Right for lengths that are known exactly. An under-prediction leaves every old request one token
    from done.
    """
    return LengthModel("as predicted", np.ones(PLACES))


def check_sigma(sigma: float) -> None:
    """Refuse a deviation of predictions, of the logarithm, that is none."""
    if not 0 <= sigma <= MOST_SIGMA:
        raise OptionError(f"sigma is {sigma!r}; it must be a number in 0 .. {MOST_SIGMA}")


def log_normal(sigma: float) -> LengthModel:
    """Foresee the mean of what is possible, true over predicted output log-normal of median 1.

    ``E[X | X > r]`` for ln X normal with deviation ``sigma``: exp(sigma^2 / 2) Phi(sigma - z) /
    Phi(-z), z = ln(r) / sigma. Derived for this project.
    """
    from scipy.special import log_ndtr

    check_sigma(sigma)
    if sigma == 0:
        return as_predicted()
    z = np.log(_ratios()) / sigma
    factors = np.exp(sigma**2 / 2 + log_ndtr(sigma - z) - log_ndtr(-z))
    return LengthModel(f"conditional, sigma {sigma:g}", factors)


def learnt(ratios: npt.ArrayLike) -> LengthModel:
    """Foresee as a history tells: true over predicted outputs of requests that have ended.

    The mean of those ratios that are above what there is so far; above all of them, what there is
    and an eighth more.
    """
    history = np.sort(np.asarray(ratios, np.float64))
    if history.ndim != 1 or not len(history) or not (history > 0).all():
        raise OptionError("a history is at least one ratio of true to predicted output, above 0")
    grid = _ratios()
    above = np.searchsorted(history, grid, side="right")
    sums = np.concatenate([np.cumsum(history[::-1])[::-1], [0.0]])
    left = len(history) - above
    factors = np.where(left > 0, sums[above] / np.maximum(left, 1), grid * 1.125)
    return LengthModel(f"learnt from {len(history)}", np.maximum(factors, grid))
