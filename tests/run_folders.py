"""Run folders for tests, made by the replay itself: what happened is known to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import sortedf
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import VLLM_0_19, EngineSettings
from sortedf.engine.step_time import StepTimeModel

TRUE = StepTimeModel(fixed=0.012, token=5e-5, context=8e-8)

EPOCH, CLOCK = 1.7e9, 5_000.0
"""Where the wall clock and the engine's clock stand at the first arrival."""


def replayed_run(
    n: int = 80,
    *,
    seed: int = 0,
    model: StepTimeModel = TRUE,
    rate: float = 8.0,
    **settings: Any,
) -> tuple[sortedf.Instance, EngineSettings, Replayed]:
    """Draw a workload with Poisson arrivals and replay it on a small engine."""
    generator = np.random.default_rng(seed)
    instance = sortedf.Instance(
        generator.integers(64, 900, n), generator.integers(40, 200, n), 10**6
    )
    plain: dict[str, Any] = {
        "num_gpu_blocks": 800,
        "max_num_seqs": 64,
        "max_num_batched_tokens": 1024,
        "enable_prefix_caching": True,
        "version": VLLM_0_19,
    }
    engine = EngineSettings(**(plain | settings))
    gaps = generator.exponential(1 / rate, n)
    arrivals = np.cumsum(gaps) - gaps[0]
    replay = Replay(instance, engine, arrivals=arrivals)
    return instance, engine, replay.run(model, log=True)


def meta_of(settings: EngineSettings, n: int) -> dict[str, Any]:
    """Write down an engine as a run does."""
    return {
        "schema_version": 1,
        "model": "made/up",
        "vllm_version": "0.19.0",
        "engine_kwargs": {"max_num_seqs": settings.max_num_seqs, "max_model_len": None},
        "num_requests": n,
        "tick_seconds": 1.0,
        "kv_cache": {
            "num_gpu_blocks": settings.num_gpu_blocks,
            "block_size": settings.block_size,
            "enable_prefix_caching": settings.enable_prefix_caching,
        },
        "resolved_config": {
            "scheduler_config": {
                "async_scheduling": settings.async_scheduling,
                "enable_chunked_prefill": settings.enable_chunked_prefill,
                "long_prefill_token_threshold": settings.long_prefill_token_threshold,
                "max_num_batched_tokens": settings.max_num_batched_tokens,
                "max_num_seqs": settings.max_num_seqs,
                "policy": "fcfs",
                "scheduler_reserve_full_isl": settings.scheduler_reserve_full_isl,
            }
        },
    }


def rows_of(
    instance: sortedf.Instance, replayed: Replayed, noise: float = 0.0, seed: int = 0
) -> list[dict[str, Any]]:
    """Write down the requests as a run does; steps are longer or shorter by noise, at random.

    The noise is put on the durations of the steps, so that stamps keep their order.
    """
    log = replayed.log
    assert log is not None
    generator = np.random.default_rng(seed)
    factors = generator.lognormal(0.0, noise, len(log.end)) if noise else np.ones(len(log.end))
    ends = np.concatenate([[0.0], log.end])
    moved = np.concatenate([[0.0], np.cumsum(np.diff(ends) * factors)])

    def stamp(times: np.ndarray[Any, Any]) -> list[float]:
        return [float(time) for time in CLOCK + np.interp(times, ends, moved)]

    columns = zip(
        instance.ids,
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        stamp(replayed.arrivals),
        stamp(replayed.admitted),
        stamp(replayed.first_token),
        stamp(replayed.completion),
        strict=True,
    )
    return [
        {
            "request_id": f"r{name}",
            "input_toks": prompt,
            "output_toks": output,
            "arrival_time": EPOCH + queued - CLOCK,
            "queued_ts": queued,
            "scheduled_ts": admitted,
            "first_token_ts": first,
            "last_token_ts": last,
        }
        for name, prompt, output, queued, admitted, first, last in columns
    ]


def write_folder(
    folder: Path,
    meta: dict[str, Any],
    rows: list[dict[str, Any]],
    series: list[str] | None = None,
) -> Path:
    """Write a run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta, indent=2))
    (folder / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if series is not None:
        (folder / "timeseries.csv").write_text("\n".join(series) + "\n")
    return folder


def made_folder(
    folder: Path,
    n: int = 80,
    *,
    noise: float = 0.0,
    series: list[str] | None = None,
    **given: Any,
) -> Path:
    """Write the folder of a replayed run."""
    instance, settings, replayed = replayed_run(n, **given)
    return write_folder(folder, meta_of(settings, n), rows_of(instance, replayed, noise), series)
