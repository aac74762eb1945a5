"""How far off a prediction is likely to be, learned from what a calibration held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.replaying import Replayed

FloatArray: TypeAlias = npt.NDArray[np.float64]
Bounds: TypeAlias = tuple[FloatArray, FloatArray]

COVERAGE = 0.9


@dataclass(frozen=True, kw_only=True)
class ErrorInterval:
    """Share of the time that the engine has been busy by which a moment may be off.

    A moment after which the engine has been busy for t seconds is expected within
    share (t + step_seconds): the errors of single steps add up since the engine last was idle, and
    nothing is known better than to a step.

    Parameters
    ----------
    coverage
        Share of the times that the interval should hold.
    first_token, completion
        The shares.
    step_seconds
        Duration of the longest step.
    held_out
        Times that it was learned from.
    """

    coverage: float
    first_token: float
    completion: float
    step_seconds: float
    held_out: int

    def bounds(self, replays: Sequence[Replayed]) -> dict[str, Bounds]:
        """Bounds on ``ttft`` and ``latency`` (seconds), shape (n,) each.

        Parameters
        ----------
        replays
            Of one backlog, one for each model that the calibration could not tell from the best
            one: the bounds hold what each of them expects.
        """
        moments = {
            "ttft": (self.first_token, [found.first_token for found in replays]),
            "latency": (self.completion, [found.completion for found in replays]),
        }
        arrivals = replays[0].arrivals
        bounds = {}
        for name, (share, times) in moments.items():
            margins = [
                share * busy_seconds(found, moment, self.step_seconds)
                for found, moment in zip(replays, times, strict=True)
            ]
            pairs = list(zip(times, margins, strict=True))
            low = np.min([moment - margin for moment, margin in pairs], axis=0)
            high = np.max([moment + margin for moment, margin in pairs], axis=0)
            bounds[name] = (np.maximum(low - arrivals, 0.0), high - arrivals)
        return bounds


def busy_seconds(found: Replayed, moments: FloatArray, step_seconds: float) -> FloatArray:
    """Seconds, shape (n,), that the engine has been busy by a moment of each request, and a step.

    The engine was idle when a request came after all before it had completed. O(n log n).
    """
    order = np.argsort(found.arrivals, kind="stable")
    arrivals = found.arrivals[order]
    done = np.maximum.accumulate(found.completion[order])
    after_idle = np.concatenate([[True], arrivals[1:] >= done[:-1]])
    began = np.empty(len(order))
    began[order] = arrivals[after_idle][np.cumsum(after_idle) - 1]
    result: FloatArray = moments - began + step_seconds
    return result


def conformal_quantile(errors: FloatArray, coverage: float = COVERAGE) -> float:
    """Share that a new error of the same kind stays below with at least this probability.

    The ceil((n + 1) coverage)-th smallest of n errors (split conformal prediction: Papadopoulos et
    al., ECML 2002); the largest where n is too small for that.
    """
    rank = min(len(errors), math.ceil((len(errors) + 1) * coverage))
    return float(np.sort(errors)[rank - 1])
