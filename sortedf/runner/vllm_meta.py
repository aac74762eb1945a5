"""What ``meta.json`` of a run folder says of vLLM: what was asked for, and what became of it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from sortedf.engine import EngineSettings
from sortedf.engine.run_settings import settings_of
from sortedf.runner.vllm_options import VllmOptions

SCHEDULER = (
    "max_num_batched_tokens",
    "max_num_seqs",
    "long_prefill_token_threshold",
    "long_prefill_token_threshold_adaptive",
    "enable_chunked_prefill",
    "watermark",
    "scheduler_reserve_full_isl",
    "policy",
    "async_scheduling",
    "scheduler_cls",
)


def meta_of(options: VllmOptions, config: Any) -> dict[str, Any]:
    """Describe a started engine, as :func:`sortedf.engine.read_run` reads it.

    Parameters
    ----------
    config
        vLLM's ``VllmConfig``, after the engine has started: then the blocks are counted.
    """
    scheduler, cache = config.scheduler_config, config.cache_config
    parallel, model = config.parallel_config, config.model_config
    platform = importlib.import_module("vllm.platforms").current_platform
    return {
        "schema_version": 1,
        "engine": "vllm",
        "model": options.model,
        "vllm_version": importlib.import_module("vllm").__version__,
        "engine_kwargs": options.engine_args(),
        "handover": str(options.handover),
        "own_process": options.own_process,
        "resolved_config": {
            "scheduler_config": {name: getattr(scheduler, name, None) for name in SCHEDULER},
            "cache_config": {
                "block_size": cache.block_size,
                "enable_prefix_caching": bool(cache.enable_prefix_caching),
            },
            "parallel_config": {
                name: getattr(parallel, name)
                for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
            },
            "model_config": {
                "max_model_len": model.max_model_len,
                "dtype": str(model.dtype).removeprefix("torch."),
                "seed": model.seed,
            },
            "additional_config": config.additional_config,
        },
        "kv_cache": {"num_gpu_blocks": cache.num_gpu_blocks},
        "hardware": {"device_name": str(platform.get_device_name())},
    }


def settings_in(meta: Mapping[str, Any]) -> EngineSettings:
    """Give the settings that the replay takes from a description."""
    nobody = np.array([], np.int64)
    settings, _, _ = settings_of(meta, "vLLM", nobody, nobody)
    return settings
