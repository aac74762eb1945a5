"""Starts transformers' continuous batching, and says what became of it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformers

from sortedf.engine import EngineSettings
from sortedf.engine.kv_budget import RESERVED_BLOCKS
from sortedf.errors import EngineError, OptionError
from sortedf.runner.engines import Handover
from sortedf.runner.library_output import output_into, reason
from sortedf.runner.start import EngineOptions, context_of
from sortedf.runner.transformers_options import batching, check_options

TESTED = ("5.19",)
"""Versions of transformers that the tests hold this against."""

REPLAYED_AS = {
    Handover.PLANNED: "run by transformers with sortedf's scheduler, whose steps are those of vLLM "
    "with it; replayed as that",
    Handover.CHUNKS: "run by transformers, handed over in chunks; replayed as vLLM, first come, "
    "first served, which is near to it",
    Handover.ORDER: "run by transformers' own scheduler, which passes over requests that do not "
    "fit; replayed as vLLM, first come, first served, which does not: an approximation",
}
"""What a run folder says of how near its replay is."""


def start(options: EngineOptions, log: Path) -> tuple[Any, Any]:
    """Start the library in this process; its manager, and a tokenizer or ``None``.

    Raises
    ------
    OptionError
        For options that it does not take.
    EngineError
        When it is not a version that has what is needed, or does not start.
    """
    check_options(options)
    with output_into(log):
        _log_into(log)
        try:
            torch = importlib.import_module("torch")
            library = importlib.import_module("transformers.generation.configuration_utils")
            scheduler = importlib.import_module("sortedf.runner.transformers_scheduler")
            sampling = importlib.import_module("sortedf.runner.transformers_sampling")
        except ImportError as error:
            raise EngineError(not_this_version(error)) from None
        try:
            config = library.ContinuousBatchingConfig(**batching(options))
        except (TypeError, ValueError) as error:
            raise OptionError(f"transformers refuses its options: {reason(error)}") from None
        if options.handover == Handover.PLANNED:
            config.scheduler_type = scheduler.NAME
        torch.manual_seed(options.seed)
        try:
            model = _model(options, torch)
            tokenizer = None
            if options.tokenizer is not None:
                tokenizer = transformers.AutoTokenizer.from_pretrained(options.tokenizer)
        except Exception as error:
            told = f"{options.model} cannot be loaded: {reason(error)}; see {log}"
            raise OptionError(told) from None
        try:
            manager = model.init_continuous_batching(sampling.with_all_processors(), config)
            manager.batch_processor = manager._create_batch_processor()
            kinds = list(manager.batch_processor.cache.cache_allocators)
        except Exception as error:
            raise EngineError(f"transformers did not start: {reason(error)}; see {log}") from None
    if kinds != ["full_attention"]:
        raise EngineError(
            f"{options.model} keeps KV by {' and '.join(kinds)}; with the engine transformers only "
            "models all of whose layers look at the whole context are run"
        )
    return manager, tokenizer


def _model(options: EngineOptions, torch: Any) -> Any:
    """Load the model, or make one of random weights, where it will run."""
    name = options.engine_arguments.get("dtype", "auto")
    dtype = name if name == "auto" else getattr(torch, name.removeprefix("torch."), None)
    if dtype is None:
        raise ValueError(f"torch has no type {name!r}")
    models: Any = transformers.AutoModelForCausalLM
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.engine_arguments.get("load_format") == "dummy":
        config = transformers.AutoConfig.from_pretrained(str(options.model))
        kind = config.dtype if dtype == "auto" else dtype
        with torch.device(device):
            model = models.from_config(config, dtype=kind)
    else:
        model = models.from_pretrained(options.model, dtype=dtype, local_files_only=True)
    return model.to(device).eval()


def settings_in(manager: Any, options: EngineOptions) -> EngineSettings:
    """Give what it was started with, resolved, as near as the replay can have it."""
    cache = manager.batch_processor.cache
    config = manager.continuous_batching_config
    longest = options.settings.get("max_model_len") or context_of(options.model)
    if longest is None:
        longest = getattr(manager.model.config.get_text_config(), "max_position_embeddings", None)
    return EngineSettings(
        num_gpu_blocks=cache.num_blocks + RESERVED_BLOCKS,
        block_size=config.page_size,
        max_num_batched_tokens=cache.max_batch_tokens,
        max_num_seqs=config.max_requests_per_batch,
        max_model_len=longest,
        scheduler_reserve_full_isl=options.handover != Handover.ORDER,
        policy="planned" if options.handover == Handover.PLANNED else "fcfs",
        async_scheduling=False,
    )


def meta_of(manager: Any, options: EngineOptions, settings: EngineSettings) -> Mapping[str, Any]:
    """Describe a started engine, as :func:`sortedf.engine.read_run` reads it."""
    torch = importlib.import_module("torch")
    model, planned = manager.model, options.handover == Handover.PLANNED
    processor = manager.batch_processor
    on_cpu = model.device.type == "cpu"
    return {
        "schema_version": 1,
        "engine": "transformers",
        "model": options.model,
        "transformers_version": transformers.__version__,
        "torch_version": torch.__version__,
        "replayed_as": REPLAYED_AS[options.handover],
        "engine_kwargs": {**options.settings, **options.engine_arguments},
        "continuous_batching": {name: _plain(v) for name, v in vars(processor.cb_config).items()},
        "attention": model.config._attn_implementation,
        "handover": str(options.handover),
        "resolved_config": {
            "scheduler_config": {
                "max_num_batched_tokens": settings.max_num_batched_tokens,
                "max_num_seqs": settings.max_num_seqs,
                "long_prefill_token_threshold": 0,
                "enable_chunked_prefill": True,
                "scheduler_reserve_full_isl": settings.scheduler_reserve_full_isl,
                "policy": "fcfs",
                "async_scheduling": False,
                "scheduler_cls": "sortedf.runner.transformers_scheduler.PlannedScheduler"
                if planned
                else None,
            },
            "cache_config": {
                "block_size": settings.block_size,
                "enable_prefix_caching": False,
            },
            "model_config": {
                "max_model_len": settings.max_model_len,
                "dtype": str(model.dtype).removeprefix("torch."),
                "seed": options.seed,
            },
            "additional_config": {"sortedf": {"policy": "planned"}} if planned else {},
        },
        "kv_cache": {"num_gpu_blocks": settings.num_gpu_blocks},
        "hardware": {"device_name": "cpu" if on_cpu else torch.cuda.get_device_name(model.device)},
    }


def not_this_version(error: Exception) -> str:
    """Say that the library lacks something."""
    return (
        f"transformers {transformers.__version__} has not what sortedf relies on "
        f"({reason(error)}); tested versions: {', '.join(TESTED)}"
    )


def _log_into(log: Path) -> None:
    """Lead what the library logs into the file, from now on."""
    handler = logging.FileHandler(log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("transformers", "ContinuousBatchingLogger"):
        logger = logging.getLogger(name)
        logger.propagate = False
        for old in tuple(logger.handlers):
            logger.removeHandler(old)
        logger.addHandler(handler)
    version = transformers.__version__
    if not version.startswith(tuple(f"{tested}." for tested in TESTED)):
        logging.getLogger("transformers").warning(
            "sortedf was not tested with transformers %s; tested versions: %s",
            version,
            ", ".join(TESTED),
        )


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else str(value)
