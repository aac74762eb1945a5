"""What arrives at a router: requests of several tasks, each with an output on every instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.routing.instances import (
    TASKS,
    EngineInstance,
    check_weight,
    published_instances,
)
from sortedf.routing.lengths import check_sigma
from sortedf.serving.arrivals import modulated, poisson

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

SLOPE, LEAST, BASE, MOST = 0.035e-3, 0.150, 0.155, 1.120
LONGEST_OUTPUT = 8_192
LEAST_RATE, MOST_RATE, MOST_RATIO = 1e-6, 1e9, 1_000_000
LONGEST_PROMPT = 32_000
PROMPTS = {"alpaca": (60, 0.6), "govreport": (9_000, 0.5), "hotpotqa": (1_300, 0.3),
           "writingprompts": (40, 0.5)}  # fmt: skip
"""Prompt tokens by task: median and deviation of the logarithm."""

OUTPUT_SIGMA = 0.6
SHARED = 0.7


@dataclass(frozen=True, kw_only=True)
class RoutedWorkload:
    """Requests in the order of arrival; n of them, R instances.

    Parameters
    ----------
    arrivals
        Seconds, shape (n,), ascending.
    task
        Names of tasks, shape (n,).
    prompt_tokens
        Shape (n,).
    output_tokens
        What each instance would generate, shape (n, R).
    predicted
        What is known of that on arrival, shape (n, R), tokens, not necessarily whole.
    limit
        Most seconds to the first token, shape (n,).
    name
        For tables.
    """

    arrivals: FloatArray
    task: tuple[str, ...]
    prompt_tokens: IntArray
    output_tokens: IntArray
    predicted: FloatArray
    limit: FloatArray
    name: str = ""

    def __post_init__(self) -> None:
        n, width = len(self.arrivals), self.output_tokens.shape
        shapes = {
            "task": (len(self.task),) == (n,),
            "prompt_tokens": self.prompt_tokens.shape == (n,),
            "limit": self.limit.shape == (n,),
            "output_tokens": len(width) == 2 and width[0] == n and width[1] > 0,
            "predicted": self.predicted.shape == width,
        }
        for name, holds in shapes.items():
            if not holds:
                raise OptionError(f"{name} does not fit {n} requests")
        if not np.isfinite(self.arrivals).all() or (np.diff(self.arrivals) < 0).any():
            raise OptionError("requests must come in the order of their arrivals, in seconds")
        if n and min(self.prompt_tokens.min(), self.output_tokens.min()) < 1:
            raise OptionError("prompts and outputs have at least one token")
        if n and not (self.predicted > 0).all():
            raise OptionError("predicted outputs are above 0")

    def __len__(self) -> int:
        return len(self.arrivals)


def published_limit(prompt_tokens: npt.ArrayLike) -> FloatArray:
    """Most seconds to the first token: 155 ms + 0.035 ms a prompt token, within 150..1120 ms.

    arXiv 2607.18253; its page prints a tenth of this slope, with which the upper end never counts.
    """
    result: FloatArray = np.clip(BASE + SLOPE * np.asarray(prompt_tokens), LEAST, MOST)
    return result


def utilities(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    weight: float = 5e-4,
    *,
    foreseen: bool = False,
) -> FloatArray:
    """Give each request's utility on each instance, (n, R): (quality - weight x cost) / 100.

    Quality is in per cent and cost in millionths of a dollar, as price a million tokens times
    tokens; arXiv 2607.18253 does not give the unit of its costs, and with this one they decide
    between equals. ``foreseen``: by predicted outputs instead of true ones.

    Raises
    ------
    OptionError
        For a weight outside 0..1e9.
    """
    check_weight(weight)
    outputs = workload.predicted if foreseen else workload.output_tokens
    prompt_prices = np.array([one.prompt_price for one in instances])
    output_prices = np.array([one.output_price for one in instances])
    cost = workload.prompt_tokens[:, None] * prompt_prices + outputs * output_prices
    rows = {task: [one.quality[task] for one in instances] for task in set(workload.task)}
    quality = np.array([rows[task] for task in workload.task]).reshape(cost.shape)
    result: FloatArray = (quality - weight * cost) / 100
    return result


def check_rate(rate: float) -> None:
    """Refuse what is no number of requests a second."""
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise OptionError(f"a rate is {rate!r}; give {LEAST_RATE:g} .. {MOST_RATE:g} a second")


def drawn_arrivals(kind: str, n: int, rate: float, seed: int) -> FloatArray:
    """Arrivals by name: ``poisson``, or ``mmpp-R`` with R the ratio of the rates of two states."""
    if kind == "poisson":
        return poisson(n, rate, seed=seed)
    if kind.startswith("mmpp-"):
        try:
            ratio = float(kind.removeprefix("mmpp-"))
        except ValueError:
            ratio = math.nan
        if 1 <= ratio <= MOST_RATIO:
            return modulated(n, rate, ratio=ratio, share=0.2, correlation=2.0, seed=seed)
    raise OptionError(
        f"no arrivals are called {kind!r}; there are poisson, and mmpp-3, mmpp-6, ... with a ratio "
        f"of 1 to {MOST_RATIO:,}"
    )


def published_workload(
    n: int,
    rate: float,
    instances: Sequence[EngineInstance] | None = None,
    *,
    arrivals: str = "poisson",
    sigma: float = 0.4,
    seed: int = 0,
) -> RoutedWorkload:
    """Draw the published comparison's requests: four tasks in equal shares.

    Limits are published; lengths are assumed for this project: prompts log-normal by task, outputs
    log-normal (deviation 0.6) with the instances' means, alike on all of them.

    Parameters
    ----------
    instances
        Where they may go; the published ones when left out.
    arrivals
        See :func:`drawn_arrivals`.
    sigma
        Predicted over true outputs is log-normal of median 1 with this deviation; 0 is exact.
    """
    if n < 1:
        raise OptionError(f"a workload of {n} requests is none; take at least 1")
    check_sigma(sigma)
    check_rate(rate)
    means = np.array([one.mean_output for one in instances or published_instances()])
    rng = np.random.default_rng([seed, 9])
    kinds = rng.integers(0, len(TASKS), n)
    medians = np.array([PROMPTS[task][0] for task in TASKS])[kinds]
    spreads = np.array([PROMPTS[task][1] for task in TASKS])[kinds]
    prompt = np.clip(np.rint(medians * np.exp(spreads * rng.standard_normal(n))), 1, LONGEST_PROMPT)
    common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, len(means)))
    z = math.sqrt(SHARED) * common + math.sqrt(1 - SHARED) * own
    output = means * np.exp(OUTPUT_SIGMA * z - OUTPUT_SIGMA**2 / 2)
    output = np.clip(np.rint(output), 1, LONGEST_OUTPUT)
    noise = np.exp(sigma * rng.standard_normal(output.shape))
    return RoutedWorkload(
        arrivals=drawn_arrivals(arrivals, n, rate, seed),
        task=tuple(TASKS[kind] for kind in kinds),
        prompt_tokens=prompt.astype(np.int64),
        output_tokens=output.astype(np.int64),
        predicted=np.clip(output * noise, 1.0, LONGEST_OUTPUT),
        limit=published_limit(prompt),
        name=f"{arrivals} {rate:g}/s",
    )
