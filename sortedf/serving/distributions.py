"""Distributions of times as plain data: by share, by target, by size of request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sortedf.engine.step_time import StepTimeModel
from sortedf.serving.alone import seconds_alone
from sortedf.serving.arrivals import FloatArray
from sortedf.serving.metrics import attainment, measured, slowdown_by_size
from sortedf.serving.served import Served

DRAWN = ("ttlt", "ttft", "tbt")
"""Measures whose distributions are given."""

ATTAINED = ("ttft", "tbt", "seconds_per_token")
"""Measures that targets are set for."""

A_DECADE = 25
"""Targets in a factor of 10."""


def shares(n: int) -> FloatArray:
    """Give the shares of n requests at which a distribution is told, ascending, to 1 at most.

    Even up to 90 %, and from there on evenly in the logarithm of what is left, to 1 / n.
    """
    body = np.arange(1, 91) / 100
    left = np.geomspace(0.1, 1 / n, 61)[1:] if n > 10 else np.empty(0)
    return np.concatenate([body, 1 - left, [1.0]])


def at_shares(runs: Sequence[Served], points: FloatArray) -> dict[str, list[float]]:
    """Give the time within which each share of all requests of some runs is, by measure."""
    result = {}
    for measure in DRAWN:
        times = np.concatenate([measured(run)[measure] for run in runs])
        if len(times):
            found = np.quantile(times, points, method="inverted_cdf")
            result[measure] = found.tolist()
    return result


def targets(unit: str) -> FloatArray:
    """Targets to be attained, ascending, 25 in each factor of 10."""
    low, high = (-3, 5) if unit == "seconds" else (0, 8)
    return np.logspace(low, high, (high - low) * A_DECADE + 1)


def attained(runs: Sequence[Served], points: FloatArray) -> dict[str, list[float]]:
    """Share of all requests of some runs within each target, by measure."""
    return {
        measure: np.mean([attainment(run, points, measure) for run in runs], axis=0).tolist()
        for measure in ATTAINED
    }


def slowdowns(
    runs: Sequence[Served], step_time: StepTimeModel | None, classes: int = 4
) -> list[dict[str, float]]:
    """Slowdown of each class of requests by size: means over runs, and the worst of all.

    Held against the time that a request takes alone: seconds on the engine, or its output in steps.
    """
    found = []
    for run in runs:
        instance = run.workload.instance
        if run.settings is None or step_time is None:
            alone = instance.output_tokens.astype(np.float64)
        else:
            alone = seconds_alone(instance, run.settings, step_time)
        found.append(slowdown_by_size(run, alone, classes))
    return [
        {
            "least_tokens": min(low for low, _, _, _ in rows),
            "most_tokens": max(high for _, high, _, _ in rows),
            "mean_slowdown": float(np.mean([mean for _, _, mean, _ in rows])),
            "worst_slowdown": max(worst for _, _, _, worst in rows),
        }
        for rows in zip(*found, strict=True)
    ]
