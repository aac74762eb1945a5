"""How good a routing is: utility of answers in time, over the rate; errors of estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.routing.simulate import Routed

FloatArray: TypeAlias = npt.NDArray[np.float64]


def on_time_utility(routed: Routed) -> float:
    """Mean of utility x [TTFT <= limit] (arXiv 2607.18253)."""
    return float((routed.utility * routed.on_time).mean())


def area(rates: npt.ArrayLike, values: npt.ArrayLike) -> float:
    """Area under values over ascending rates by trapezoids, over the width: a mean over rates."""
    x, y = np.asarray(rates, np.float64), np.asarray(values, np.float64)
    if len(x) == 1:
        return float(y[0])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def figures(routed: Routed) -> dict[str, float]:
    """Give the figures of a routing, by name.

    ``doomed_*``: seconds to the first token of those who were not on time, who pay for the others;
    0 where there are none. Percentiles by nearest rank.
    """
    n = len(routed.workload)
    late = np.sort(routed.ttft[~routed.on_time])
    some = len(late) > 0
    found = {
        "on_time_utility": on_time_utility(routed),
        "on_time": float(routed.on_time.mean()),
        "mean_ttft": float(routed.ttft.mean()),
        "doomed": float(len(late) / n),
        "doomed_mean": float(late.mean()) if some else 0.0,
        "doomed_p99": float(np.quantile(late, 0.99, method="inverted_cdf")) if some else 0.0,
        "doomed_longest": float(late[-1]) if some else 0.0,
        "preemptions": float(routed.preemptions.sum()),
        "makespan": float(routed.completion.max() - routed.workload.arrivals[0]),
    }
    for place in range(routed.workload.output_tokens.shape[1]):
        found[f"share_{place}"] = float((routed.instance == place).mean())
    return found


def mean_figures(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of every figure over runs, one a seed."""
    return {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}


def relative_errors(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> FloatArray:
    """|estimate - truth| / truth of those that were estimated."""
    guess, real = np.asarray(estimate, np.float64), np.asarray(truth, np.float64)
    known = np.isfinite(guess)
    result: FloatArray = np.abs(guess - real)[known] / real[known]
    return result


def error_figures(estimate: npt.ArrayLike, truth: npt.ArrayLike) -> dict[str, float]:
    """Mean absolute percentage error and its 95th percentile, as shares; nan without estimates."""
    errors = relative_errors(estimate, truth)
    if not len(errors):
        return {"mape": float("nan"), "p95": float("nan")}
    return {
        "mape": float(errors.mean()),
        "p95": float(np.quantile(errors, 0.95, method="inverted_cdf")),
    }
