"""How far off a prediction is likely to be, learned from what a calibration held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

COVERAGE = 0.9


@dataclass(frozen=True, kw_only=True)
class ErrorInterval:
    """Share of a predicted time by which the real one may differ.

    A time since arrival of t seconds is expected in t +- share (t + step_seconds): errors grow with
    what lies before a request, and nothing is known better than to a step.

    Parameters
    ----------
    coverage
        Share of the times that the interval should hold.
    first_token, completion
        The shares.
    step_seconds
        Mean duration of a step.
    held_out
        Times that it was learned from.
    """

    coverage: float
    first_token: float
    completion: float
    step_seconds: float
    held_out: int

    def first_token_bounds(self, ttft: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least and greatest seconds from arrival to first token, from the predicted ones."""
        return self._bounds(ttft, self.first_token)

    def completion_bounds(self, latency: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least and greatest seconds from arrival to last token, from the predicted ones."""
        return self._bounds(latency, self.completion)

    def _bounds(self, times: FloatArray, share: float) -> tuple[FloatArray, FloatArray]:
        margin = share * (times + self.step_seconds)
        return np.maximum(times - margin, 0.0), times + margin


def relative_errors(real: FloatArray, predicted: FloatArray, step_seconds: float) -> FloatArray:
    """Errors as shares, in the measure of :class:`ErrorInterval`; times since arrival."""
    result: FloatArray = np.abs(real - predicted) / (predicted + step_seconds)
    return result


def conformal_quantile(errors: FloatArray, coverage: float = COVERAGE) -> float:
    """Share that a new error of the same kind stays below with at least this probability.

    The ceil((n + 1) coverage)-th smallest of n errors (split conformal prediction: Papadopoulos et
    al., ECML 2002); the largest where n is too small for that.
    """
    rank = min(len(errors), math.ceil((len(errors) + 1) * coverage))
    return float(np.sort(errors)[rank - 1])
