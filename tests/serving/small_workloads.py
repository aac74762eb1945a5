"""Small workloads for the policies, tight in memory, and the engine that they run on."""

from __future__ import annotations

import numpy as np

import sortedf
from sortedf.engine import EngineSettings, StepTimeModel
from sortedf.serving.workloads import Workload

MODEL = StepTimeModel(fixed=0.01, prefill_token=2e-4, decode_token=1e-4, context=1e-6)


def small(
    seed: int, n: int = 40, *, span: float = 3.0, seats: int = 12, late: bool = False
) -> tuple[Workload, EngineSettings]:
    """Draw requests that come within ``span`` seconds to an engine of about a quarter of them."""
    rng = np.random.default_rng(seed)
    instance = sortedf.Instance(rng.integers(1, 120, n), rng.integers(1, 150, n), 600)
    settings = EngineSettings.for_budget(
        600,
        block_size=int(rng.choice([1, 4, 16])),
        max_num_batched_tokens=int(rng.choice([64, 512])),
        max_num_seqs=seats,
        async_scheduling=late,
    )
    return Workload(instance, np.sort(rng.random(n)) * span, f"small {seed}"), settings


def in_whole_steps(seed: int, n: int = 30, *, span: int = 1500, budget: int = 500) -> Workload:
    """Draw requests that come at whole steps."""
    rng = np.random.default_rng(seed)
    instance = sortedf.Instance(rng.integers(1, 120, n), rng.integers(1, 150, n), budget)
    return Workload(instance, np.sort(rng.integers(0, span + 1, n)).astype(np.float64))
