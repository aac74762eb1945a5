"""Two real engines with different settings behind the router, at the same time.

How near estimates come is a matter of time, and of the machine: bench/routing_engines.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from real_engine import interpreter
from served_engines import ByProcessor, ByWall, engine_processes
from served_runs import Served, decisions_again, engine_counts, serve
from small_fleets import TASK

from sortedf.engine import EngineSettings, StepTimeModel, calibrate_from_steps
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import as_predicted
from sortedf.routing.router import Router
from sortedf.routing.workload import RoutedWorkload

pytestmark = pytest.mark.vllm

COMMON: dict[str, Any] = {
    "block_size": 32,
    "max_model_len": 256,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "policy": "fcfs",
    "async_scheduling": False,
    "enable_prefix_caching": False,
    "shared_blocks": 0,
}
SETTINGS = (
    COMMON | {"num_gpu_blocks": 40, "max_num_batched_tokens": 128, "max_num_seqs": 8},
    COMMON | {"num_gpu_blocks": 12, "max_num_batched_tokens": 64, "max_num_seqs": 4},
)
MODELS: tuple[dict[str, Any], ...] = ({}, {"num_hidden_layers": 3})
LONGEST = 30


def drawn(n: int, rate: float, seed: int) -> RoutedWorkload:
    generator = np.random.default_rng(seed)
    output = np.repeat(generator.integers(2, LONGEST, (n, 1)), 2, axis=1)
    return RoutedWorkload(
        arrivals=np.cumsum(generator.exponential(1 / rate, n)),
        task=(TASK,) * n,
        prompt_tokens=generator.integers(5, 150, n),
        output_tokens=output,
        predicted=output.astype(np.float64),
        limit=np.full(n, 0.1),
    )


def router(models: list[StepTimeModel], rule: str) -> Router:
    instances = [
        EngineInstance(
            name=f"engine {place}",
            step_time=model,
            settings=EngineSettings(**SETTINGS[place]),
            prompt_price=0.1,
            output_price=0.1,
            quality={TASK: 50.0 + 30.0 * place},
        )
        for place, model in enumerate(models)
    ]
    return Router(instances, rule, lengths=as_predicted(), longest_output=LONGEST, every_step=True)


def check(served: Served, work: RoutedWorkload, again: Router) -> None:
    """Every request answered once and in full; the same events, the same decisions."""
    assert (served.answers == 1).all()
    assert np.array_equal(served.tokens, work.output_tokens[:, 0])
    assert (served.sent >= served.arrival).all()
    assert (served.first_token > served.sent).all()
    assert (served.completion >= served.first_token).all()
    assert np.isfinite(served.estimate).all()
    assert (served.estimate > 0).all()
    assert decisions_again(served, again)


def test_two_engines_behind_the_router() -> None:
    """By the clock of the processor, twins are where their engines are; then all run freely."""
    with engine_processes(interpreter(), SETTINGS, MODELS) as processes:
        engines = ByProcessor(processes)
        plain = [StepTimeModel(fixed=0.005)] * 2
        warm = drawn(60, 1e6, 1)
        rehearsed = serve(engines, router(plain, "shortest-queue"), warm)
        check(rehearsed, warm, router(plain, "shortest-queue"))
        models = [calibrate_from_steps(rehearsed.step_log(place))[0].model for place in range(2)]
        rate = len(warm) / float(rehearsed.completion.max())  # of a burst
        work = drawn(60, rate, 2)
        for rule in ("sfs", "priced"):
            served = serve(engines, router(models, rule), work)
            check(served, work, router(models, rule))
            twins = served.twins
            for place in range(2):
                counts = engine_counts(served, place)
                assert np.array_equal(twins[:, place].sum(axis=1), counts.sum(axis=1))
                assert np.mean(twins[:, place] == counts) > 0.8
            assert twins[:, :, 1].max() > 0  # some wait
        work = drawn(40, rate / 2, 3)
        served = serve(ByWall(processes), router(models, "priced"), work)
        check(served, work, router(models, "priced"))
