"""Small instances and workloads for the tests of routing."""

from __future__ import annotations

import numpy as np

from sortedf.engine import EngineSettings, StepTimeModel
from sortedf.routing.instances import EngineInstance
from sortedf.routing.workload import RoutedWorkload

TASK = "task"


def instance(
    name: str,
    kv_tokens: int,
    quality: float,
    *,
    slow: float = 1.0,
    seats: int = 8,
    asynchronous: bool = True,
    price: float = 0.0,
) -> EngineInstance:
    """Make an engine of a few blocks, whose steps are ``slow`` times as long as usual."""
    return EngineInstance(
        name=name,
        step_time=StepTimeModel(
            fixed=0.01 * slow,
            prefill_token=2e-4 * slow,
            decode_token=3e-4 * slow,
            context=1e-5 * slow,
            chunk_squared=1e-7 * slow,
        ),
        settings=EngineSettings.for_budget(
            kv_tokens,
            block_size=4,
            max_num_batched_tokens=64,
            max_num_seqs=seats,
            async_scheduling=asynchronous,
        ),
        prompt_price=price,
        output_price=price,
        quality={TASK: quality},
    )


def workload(
    n: int, width: int, seed: int, *, rate: float = 20.0, sigma: float = 0.0, longest: int = 30
) -> RoutedWorkload:
    """Short requests, with limits around what an empty engine needs."""
    rng = np.random.default_rng(seed)
    output = rng.integers(1, longest, (n, width))
    return RoutedWorkload(
        arrivals=np.cumsum(rng.exponential(1 / rate, n)),
        task=(TASK,) * n,
        prompt_tokens=rng.integers(1, 60, n),
        output_tokens=output,
        predicted=np.maximum(output * np.exp(sigma * rng.standard_normal(output.shape)), 1.0),
        limit=rng.uniform(0.02, 0.3, n),
    )
