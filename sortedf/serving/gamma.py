"""gamma-Boost in numpy, and gamma-Ada: its gamma from the tail of the latencies of late."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.kernels.replay_scores import rescore_all
from sortedf.kernels.replay_state import Engine, Rules
from sortedf.kernels.standing import GAMMA, LEAST_WORK, Scoring

FloatArray: TypeAlias = npt.NDArray[np.float64]


def boosted_arrivals(arrivals: FloatArray, work: FloatArray, gamma: float) -> FloatArray:
    """Scores a - b_gamma(w), shape (n,); as :func:`sortedf.kernels.standing.boosted` has them."""
    least = np.maximum(work, LEAST_WORK)
    if gamma == 0:
        return least
    if gamma == np.inf:
        return arrivals
    scores: FloatArray = arrivals + np.log(-np.expm1(-gamma * least)) / gamma
    return scores


def tail_slope(latencies: npt.ArrayLike) -> float:
    """Give gamma = ln 5 / (t99 - t95): the decay of the tail, were it exponential beyond P95.

    Between these two the share of slower requests falls from 5 % to 1 %; percentiles by nearest
    rank. inf where both are the same. The two-point form is derived for this project.
    """
    low, high = np.percentile(np.asarray(latencies), [95, 99], method="inverted_cdf")
    return float(np.log(5) / (high - low)) if high > low else float("inf")


def next_gamma(scoring: Scoring, latencies: npt.ArrayLike, gamma: float) -> float:
    """Move gamma toward the slope of the latencies of late, in logarithms; clamp it. O(window)."""
    least, most = scoring.least_gamma, scoring.most_gamma
    found = np.clip(tail_slope(latencies), least, most)
    weight = scoring.smoothing
    after = np.exp((1 - weight) * np.log(gamma) + weight * np.log(found))
    return float(np.clip(after, least, most))


def learn_gamma(rules: Rules, engine: Engine) -> None:
    """Learn gamma anew and bring every score up to date. O(window + n)."""
    engine.dials[GAMMA] = next_gamma(rules.scoring, engine.recent, engine.dials[GAMMA])
    rescore_all(rules, engine)
