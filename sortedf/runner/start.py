"""Which engines there are, and how one is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import Fault, InputError, OptionError
from sortedf.instances.json_values import BadLine, decode_object
from sortedf.instances.source import open_source
from sortedf.runner.engines import Engine, Handover

ENGINES = ("replay", "vllm", "transformers")

_LIBRARIES = {"vllm": ("vllm",), "transformers": ("transformers", "torch")}
"""What must be installed for an engine."""

_VLLM_NAMES = {"num_gpu_blocks": "num_gpu_blocks_override"}
_VLLM_SETTINGS = (
    "num_gpu_blocks",
    "block_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "enable_prefix_caching",
    "async_scheduling",
)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What an engine is started with.

    Parameters
    ----------
    model
        Folder of the model; the replay needs none.
    tokenizer
        Folder of the tokenizer that makes text of the answers; ``None`` for answers of token ids
        alone.
    handover
        How the plan is given to it.
    settings
        Names and values of :class:`sortedf.engine.EngineSettings` that the user gave: vLLM's names.
    engine_arguments
        Other arguments of the engine's own, by its names (``dtype``, ``load_format``, ...).
    kv_tokens, block_size
        The plan's KV budget, and the blocks that it is safe for.
    step_time
        Seconds of steps, which the replay lives by.
    pace
        Of the replay: how many times faster than real time; ``None`` for at once.
    seed
        Of what the engine draws at random where a request has no seed.
    """

    model: str | None = None
    tokenizer: str | None = None
    handover: Handover = Handover.PLANNED
    settings: Mapping[str, Any] = field(default_factory=dict)
    engine_arguments: Mapping[str, Any] = field(default_factory=dict)
    kv_tokens: int
    block_size: int = 1
    step_time: StepTimeModel | None = None
    pace: float | None = None
    seed: int = 0


def start_engine(name: str, options: EngineOptions, log: Path) -> Engine:
    """Start an engine; its module is imported now.

    Parameters
    ----------
    log
        File for what the engine prints.

    Raises
    ------
    OptionError
        For an unknown name, an engine whose library is not installed, and options that it does not
        take.
    EngineError
        When it does not start.
    """
    check_engine(name, options)
    engine: Engine
    if name == "replay":
        engine = _load("replayed").ReplayEngine.start(options)
    elif name == "vllm":
        vllm_options = _load("vllm_options").VllmOptions(**_vllm_arguments(options))
        engine = _load("vllm_engine").VllmEngine.start(vllm_options, log=log)
    else:
        engine = _load("transformers_engine").TransformersEngine.start(options, log=log)
    return engine


def check_engine(name: str, options: EngineOptions) -> None:
    """Refuse what no engine could be started with, before any work.

    Raises
    ------
    OptionError
        See :func:`start_engine`.
    """
    if name not in ENGINES:
        raise OptionError(f"--engine is {name!r}; it must be one of {', '.join(ENGINES)}")
    if name == "replay":
        for argument in options.engine_arguments:
            raise OptionError(f"--{argument.replace('_', '-')} is of a real engine, not of replay")
        if options.handover == Handover.CHUNKS:
            raise OptionError(
                "--handover chunks is not replayed, as it hands over by when answers end; "
                "planned keeps the same room"
            )
        return
    if options.model is None:
        raise OptionError(f"--engine {name} needs --model, the folder of the model")
    if options.pace is not None:
        raise OptionError(f"--pace is of the engine replay; {name} takes the time that it takes")
    for library in _LIBRARIES[name]:
        if find_spec(library) is None:
            raise OptionError(
                f"--engine {name}: {library} is not installed beside this Python "
                f"({sys.executable}); pip install 'sortedf[{name}]', or see docs/runner.md; "
                "--engine replay needs nothing"
            )
    if not (Path(options.model) / "config.json").is_file():
        raise OptionError(f"--model {options.model}: no model's folder; it has no config.json")
    if name == "vllm":
        _vllm_arguments(options)
    else:
        _load("transformers_options").check_options(options)


def _vllm_arguments(options: EngineOptions) -> dict[str, Any]:
    """Options of the engine vLLM."""
    for name in options.settings:
        if name not in (*_VLLM_SETTINGS, "shared_blocks"):
            raise OptionError(f"{name} is not for the engine vllm, which decides it itself")
    settings = {
        _VLLM_NAMES.get(name, name): value
        for name, value in options.settings.items()
        if name in _VLLM_SETTINGS
    }
    if options.block_size > 1:
        settings.setdefault("block_size", options.block_size)
    no_text = options.tokenizer is None
    return {
        "model": options.model,
        "handover": options.handover,
        "tokenizer": None if options.tokenizer == options.model else options.tokenizer,
        "skip_tokenizer_init": no_text,
        "seed": options.seed,
        **settings,
        **options.engine_arguments,
    }


def _load(module: str) -> Any:
    try:
        return import_module(f"sortedf.runner.{module}")
    except ModuleNotFoundError as error:
        raise OptionError(f"this engine cannot be used: {error}") from None


def context_of(model: str | None) -> int | None:
    """Look up the most tokens of a request in a model's ``config.json``; ``None`` if it is silent.

    Where positions are scaled the engine itself says how far.
    """
    config = _config(model)
    scaled = config.get("rope_scaling") or config.get("rope_parameters")
    if isinstance(scaled, dict) and scaled.get("factor") is not None:
        return None
    return _count(config, "max_position_embeddings")


def vocabulary_of(model: str | None) -> int | None:
    """Look up how many tokens a model knows in its ``config.json``; ``None`` if it is silent."""
    return _count(_config(model), "vocab_size")


def tokenizer_of(model: str | None) -> str | None:
    """Give the folder of a model when a tokenizer lies in it, else ``None``."""
    files = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
    has_one = model is not None and any((Path(model) / name).is_file() for name in files)
    return model if has_one else None


def _config(model: str | None) -> Mapping[str, Any]:
    """Give the part on the language model of a folder's ``config.json``; empty without one."""
    path = Path(model or "") / "config.json"
    if model is None or not path.is_file():
        return {}
    source = open_source(path)
    try:
        config = decode_object(source.data)
    except BadLine as error:
        raise InputError([Fault(source.name, None, str(error))]) from None
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def _count(config: Mapping[str, Any], key: str) -> int | None:
    value = config.get(key)
    return value if type(value) is int and value > 0 else None
