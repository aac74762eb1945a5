"""What an offline vLLM is started with, under vLLM's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sortedf.errors import OptionError, whole_number
from sortedf.runner.engines import Handover

OURS = ("handover", "own_process", "further")
"""Options that are not vLLM's."""

RESERVED = frozenset(("scheduling_policy", "scheduler_cls", "disable_log_stats"))
"""Arguments of vLLM that follow from the handover, or that the runner cannot do without."""


@dataclass(frozen=True, kw_only=True)
class VllmOptions:
    """How to start vLLM. What is ``None`` is left to vLLM's defaults.

    Parameters
    ----------
    model
        Folder of a model, or its name on the hub.
    handover
        How it is given the plan.
    own_process
        Whether the engine runs in a process of its own: vLLM's default, and what GPUs want; a death
        of the engine leaves this one alive.
    tokenizer
        Folder or name, where it is not the model's.
    skip_tokenizer_init
        Do without a tokenizer: answers have token ids and no text.
    num_gpu_blocks_override, kv_cache_memory_bytes
        Size of the KV cache, in blocks or bytes. Without either vLLM takes what is left of
        ``gpu_memory_utilization``.
    block_size
        Tokens in a block.
    max_num_seqs, max_num_batched_tokens, max_model_len
        Most requests that run at once, tokens in a step, tokens of a request.
    dtype, load_format, seed, tensor_parallel_size, gpu_memory_utilization, enforce_eager
        As of vLLM. ``load_format`` ``dummy`` makes random weights.
    enable_prefix_caching
        Off, unlike in vLLM: plans know nothing of common prefixes, and predictions hold without.
    async_scheduling
        Whether a step is scheduled while the one before runs.
    further
        Other arguments of vLLM's ``EngineArgs``.

    Raises
    ------
    OptionError
        For values that are refused without asking vLLM.
    """

    model: str
    handover: Handover | str = Handover.PLANNED
    own_process: bool = True
    tokenizer: str | None = None
    skip_tokenizer_init: bool = False
    num_gpu_blocks_override: int | None = None
    kv_cache_memory_bytes: int | None = None
    block_size: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    dtype: str | None = None
    load_format: str | None = None
    seed: int = 0
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None
    enforce_eager: bool = False
    enable_prefix_caching: bool = False
    async_scheduling: bool | None = None
    further: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "handover", Handover(self.handover))
        except ValueError:
            names = ", ".join(Handover)
            raise OptionError(f"handover is {self.handover!r}; it must be one of {names}") from None
        for name in (
            "num_gpu_blocks_override",
            "kv_cache_memory_bytes",
            "block_size",
            "max_num_seqs",
            "max_num_batched_tokens",
            "max_model_len",
            "tensor_parallel_size",
        ):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        if self.num_gpu_blocks_override is not None:
            # One is the engine's own; without a second one nothing could run.
            whole_number("num_gpu_blocks_override", self.num_gpu_blocks_override, 2)
        if self.skip_tokenizer_init and self.tokenizer is not None:
            raise OptionError("tokenizer and skip_tokenizer_init exclude each other")
        reserved = RESERVED.union(option.name for option in fields(self))
        if taken := reserved.intersection(self.further):
            raise OptionError(f"{', '.join(sorted(taken))}: not among the further arguments")
        looks_like_a_path = self.model.startswith((".", "/", "~")) or Path(self.model).exists()
        if looks_like_a_path and not (Path(self.model) / "config.json").is_file():
            raise OptionError(f"{self.model}: no model's folder; it has no config.json")

    def engine_args(self) -> dict[str, Any]:
        """Give the arguments of vLLM's ``EngineArgs``."""
        named = {option.name: getattr(self, option.name) for option in fields(self)}
        return {
            **{k: value for k, value in named.items() if value is not None and k not in OURS},
            **self.further,
            "scheduling_policy": "priority" if self.handover == Handover.PRIORITY else "fcfs",
            "disable_log_stats": False,  # or answers would have no times
        }
