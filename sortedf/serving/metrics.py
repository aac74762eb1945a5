"""What was served how fast: means, tails, attainment, fairness; intervals over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.serving.served import Served

FloatArray: TypeAlias = npt.NDArray[np.float64]

PERCENTS = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
MEASURES = ("ttft", "ttlt", "tbt", "seconds_per_token")


def measured(served: Served) -> dict[str, FloatArray]:
    """Give the times of each request that completed, in seconds, shape (completed,).

    ``ttft`` arrival to first token; ``ttlt`` arrival to last token; ``tbt`` the mean time between
    its tokens, of requests with two or more; ``seconds_per_token`` ttlt over output tokens.
    """
    done = ~np.isnan(served.completion)
    tokens = served.workload.instance.output_tokens[done]
    first, last = served.first_token[done], served.completion[done]
    arrived = served.workload.arrivals[done]
    several = tokens > 1
    return {
        "ttft": first - arrived,
        "ttlt": last - arrived,
        "tbt": (last - first)[several] / (tokens[several] - 1),
        "seconds_per_token": (last - arrived) / tokens,
    }


def figures(served: Served) -> dict[str, float]:
    """Give mean and percentiles of every measure, and what the run cost.

    Percentiles by nearest rank, ``p99.9_ttlt`` and the like. ``throughput`` is output tokens a
    second from the first arrival to the last token, ``requests_per_second`` likewise;
    ``longest_wait`` the most seconds from arrival to the first admission; ``recomputed_share``
    tokens computed again for each token that had to be computed.
    """
    result: dict[str, float] = {}
    for name, times in measured(served).items():
        if not len(times):
            continue
        result[f"mean_{name}"] = float(times.mean())
        points = np.percentile(times, PERCENTS, method="inverted_cdf")
        for percent, value in zip(PERCENTS, points.tolist(), strict=True):
            result[f"p{percent:g}_{name}"] = value
    instance, arrivals = served.workload.instance, served.workload.arrivals
    done = ~np.isnan(served.completion)
    span = float(np.nanmax(served.completion) - arrivals.min())
    useful = int((instance.prompt_tokens + instance.output_tokens - 1)[done].sum())
    result["throughput"] = float(instance.output_tokens[done].sum()) / span
    result["requests_per_second"] = int(done.sum()) / span
    result["longest_wait"] = float(np.nanmax(served.admitted - arrivals))
    result["preemptions"] = float(served.preemptions.sum())
    result["recomputed_tokens"] = float(served.recomputed.sum())
    result["recomputed_share"] = float(served.recomputed.sum()) / useful
    return result


def attainment(served: Served, targets: npt.ArrayLike, measure: str = "ttft") -> FloatArray:
    """Share of all requests within each target (seconds), shape of ``targets``: the SLO curve."""
    if measure not in MEASURES:
        raise OptionError(f"no measure is called {measure!r}; there are {', '.join(MEASURES)}")
    times = np.sort(measured(served)[measure])
    whole = len(times) if measure == "tbt" else len(served.workload)
    within: FloatArray = np.searchsorted(times, np.asarray(targets), side="right") / max(whole, 1)
    return within


def slowdown_by_size(
    served: Served, alone: FloatArray, classes: int = 4
) -> list[tuple[int, int, float, float]]:
    """Mean and worst slowdown of each class of requests by size: fairness.

    Parameters
    ----------
    alone
        Seconds that each takes on an empty engine, shape (n,): :func:`.alone.seconds_alone`.
    classes
        So many, of equally many requests, by prompt and output tokens.

    Returns
    -------
    list
        (least tokens, most tokens, mean slowdown, worst slowdown); slowdown = ttlt / alone.
    """
    size = served.workload.instance.prompt_tokens + served.workload.instance.output_tokens
    slowdown = (served.completion - served.workload.arrivals) / alone
    order = np.argsort(size, kind="stable")
    rows = []
    for part in np.array_split(order, classes):
        values = slowdown[part][~np.isnan(slowdown[part])]
        if len(values):
            low, high = int(size[part].min()), int(size[part].max())
            rows.append((low, high, float(values.mean()), float(values.max())))
    return rows


@dataclass(frozen=True)
class Interval:
    """A mean over seeds and its confidence interval; nan bounds from a single seed."""

    mean: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


def interval(values: Sequence[float] | FloatArray, confidence: float = 0.95) -> Interval:
    """Student's t interval of a mean over independent seeds."""
    from scipy import stats

    data = np.asarray(values, np.float64)
    mean = float(data.mean())
    if len(data) < 2:
        return Interval(mean, float("nan"), float("nan"))
    error = float(data.std(ddof=1)) / np.sqrt(len(data))
    half = float(stats.t.ppf((1 + confidence) / 2, len(data) - 1)) * error
    return Interval(mean, mean - half, mean + half)


def intervals(runs: Sequence[Mapping[str, float]], confidence: float = 0.95) -> dict[str, Interval]:
    """Intervals of every figure that all runs (one a seed) have."""
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: interval([run[name] for run in runs], confidence) for name in names}


def ratio_interval(
    ours: Sequence[float], theirs: Sequence[float], confidence: float = 0.95
) -> Interval:
    """Interval of a ratio of two policies, seed by seed: the geometric mean of the pairs' ratios.

    The same seeds serve both, so that what a seed does to both does not widen it.
    """
    logs = interval(np.log(np.asarray(ours) / np.asarray(theirs)), confidence)
    return Interval(*(float(np.exp(value)) for value in (logs.mean, logs.low, logs.high)))
