"""What transformers' continuous batching is started with, from the options of an engine."""

from __future__ import annotations

from typing import Any

from sortedf.engine.kv_budget import RESERVED_BLOCKS
from sortedf.errors import OptionError
from sortedf.runner.engines import Handover
from sortedf.runner.start import EngineOptions

BLOCK_SIZE = 16
"""Tokens in a block, where neither the plan nor the user says."""

LEAST_BLOCK_SIZE = 4
"""Of the library."""

TOKENS_A_STEP = 2048
"""Most tokens in a step. The library's own default, 8192, makes an attention mask of 8192 rows,
each as long as the KV cache, where there is no flash attention."""

SETTINGS = ("num_gpu_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs")

AS_THEY_ARE = {
    "max_model_len": None,
    "async_scheduling": False,
    "enable_prefix_caching": False,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "shared_blocks": 0,
}
"""Settings that need not be said, with the only value they can have; ``None`` for any."""

ARGUMENTS = ("dtype", "load_format", "gpu_memory_utilization", "enforce_eager", "own_process")


def check_options(options: EngineOptions) -> None:
    """Refuse what this engine cannot be started with, without asking it.

    Raises
    ------
    OptionError
        Naming the option.
    """
    if options.handover == Handover.PRIORITY:
        raise OptionError(
            "--handover priority: transformers has no priorities; planned keeps the plan's order "
            "and room, chunks and order leave the scheduler to transformers"
        )
    for name, value in options.settings.items():
        if name not in (*SETTINGS, *AS_THEY_ARE):
            raise OptionError(f"{name} is not for the engine transformers")
        if AS_THEY_ARE.get(name) not in (None, value) and name in AS_THEY_ARE:
            only = AS_THEY_ARE[name]
            raise OptionError(f"{name} is {value}; with the engine transformers it is {only}")
    for name in options.engine_arguments:
        if name not in ARGUMENTS:
            option = name.replace("_", "-")
            raise OptionError(f"--{option} is not for the engine transformers")
    if options.engine_arguments.get("load_format") not in (None, "auto", "dummy"):
        asked = options.engine_arguments["load_format"]
        raise OptionError(f"--load-format is {asked!r}; transformers has auto and dummy")
    if (page := _page_size(options)) < LEAST_BLOCK_SIZE:
        raise OptionError(f"blocks of {page} tokens; transformers has {LEAST_BLOCK_SIZE} at least")


def batching(options: EngineOptions) -> dict[str, Any]:
    """Give the arguments of the library's ``ContinuousBatchingConfig``.

    The KV cache is as large as the plan's budget, if nothing is said of it: what the library would
    take of a machine without a GPU is nearly all of its memory.
    """
    settings, arguments = options.settings, options.engine_arguments
    page = _page_size(options)
    share = arguments.get("gpu_memory_utilization")
    blocks: int | None = max(options.kv_tokens // page, 1)
    if "num_gpu_blocks" in settings:
        blocks = settings["num_gpu_blocks"] - RESERVED_BLOCKS
    elif share is not None:
        blocks = None
    return {
        "page_size": page,
        "num_blocks": blocks,
        "max_memory_percent": share,
        "max_batch_tokens": settings.get("max_num_batched_tokens", TOKENS_A_STEP),
        "max_requests_per_batch": settings.get("max_num_seqs"),
        "allow_block_sharing": False,  # plans know nothing of common prefixes
        "use_async_batching": False,  # or a request that ends would be given one more step
        "use_cuda_graph": False if arguments.get("enforce_eager") else None,
        "per_request_processors": True,
        "return_logprobs": True,
        "seed": options.seed,
        # The room for those that run is kept by the handover; else it is the library's own share.
        "safety_margin": None if options.handover == Handover.ORDER else 0.0,
    }


def _page_size(options: EngineOptions) -> int:
    planned = options.block_size if options.block_size > 1 else BLOCK_SIZE
    return int(options.settings.get("block_size") or planned)
