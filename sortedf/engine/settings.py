"""The settings of the engine that is replayed, under vLLM's own names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sortedf.engine.kv_budget import RESERVED_BLOCKS
from sortedf.errors import OptionError, whole_number
from sortedf.kernels.replay_state import Rules

MOST_TOKENS = 2**62 - 1
"""Of a KV cache, and of any other size: sums of them stay in 64 bits."""

MOST_CACHED_BLOCKS = 2**24
"""With prefix caching, where each block is followed: 268 million tokens in blocks of 16."""

_SWITCHES = (
    "long_prefill_token_threshold_adaptive",
    "enable_chunked_prefill",
    "scheduler_reserve_full_isl",
    "async_scheduling",
    "enable_prefix_caching",
)


class Policy(StrEnum):
    """By what the waiting queue is ordered, and who is preempted."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    PLANNED = "planned"


@dataclass(frozen=True, kw_only=True)
class EngineVersion:
    """What differs between versions of the engine's scheduler.

    Parameters
    ----------
    name
        As in ``vLLM 0.32``.
    cap_lifted_when_alone
        ``long_prefill_token_threshold`` does not hold where there is but one request.
    watermark, adaptive_threshold
        These settings exist.
    skip_after_victim
        Under priorities a victim that stood before the current request and had not been scheduled
        in the step (asynchronous: its last token was on its way) makes the loop pass over one.
    fresh_blocks_first
        Released blocks that hold nothing reusable go to the front of the free list.
    """

    name: str
    cap_lifted_when_alone: bool
    watermark: bool
    adaptive_threshold: bool
    skip_after_victim: bool
    fresh_blocks_first: bool


VLLM_0_32 = EngineVersion(
    name="vLLM 0.32",
    cap_lifted_when_alone=True,
    watermark=True,
    adaptive_threshold=True,
    skip_after_victim=False,
    fresh_blocks_first=True,
)

VLLM_0_19 = EngineVersion(
    name="vLLM 0.19",
    cap_lifted_when_alone=False,
    watermark=False,
    adaptive_threshold=False,
    skip_after_victim=True,
    fresh_blocks_first=False,
)

VERSIONS = {version.name: version for version in (VLLM_0_32, VLLM_0_19)}


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """How the engine is started, under vLLM's names. Frozen, checked once.

    Parameters
    ----------
    num_gpu_blocks
        All blocks of the KV cache; the engine keeps one of them for itself.
    block_size
        Tokens in a block.
    max_num_batched_tokens
        Most tokens in a step.
    max_num_seqs
        Most requests that run at once. vLLM chooses this and the tokens in a step by the device and
        the use; its log says how.
    max_model_len
        Most tokens of a request, prompt and output; an output that goes beyond is cut, as the
        engine does. ``None`` for no limit.
    long_prefill_token_threshold
        Most tokens of one request in a step; 0 for no cap.
    long_prefill_token_threshold_adaptive
        Take the cap as at least an even share of ``max_num_batched_tokens``.
    enable_chunked_prefill
        Whether a prompt may be computed in several steps. Without it ``max_num_batched_tokens`` is
        at least ``max_model_len``.
    watermark
        Share of the blocks, in [0, 1), that an admission beside running requests leaves free.
    scheduler_reserve_full_isl
        Whether a request is admitted only if all of its known tokens would fit now.
    policy
        ``fcfs`` or ``priority``, vLLM's own; or ``planned``: as ``priority``, but a request is
        admitted only if blocks suffice for the predicted outputs of all that run and its own until
        they have ended.
    lookahead
        ``planned``: how many requests that do not fit end the admissions of a step; 1 is strict.
    async_scheduling
        Whether a step is scheduled while the one before runs; vLLM's default on GPUs.
    enable_prefix_caching
        Whether content is found again: a preempted request finds its own blocks as long as nobody
        has taken them, all find the shared ones. Otherwise requests have nothing in common.
    shared_blocks
        Leading blocks whose content all prompts share (a common header); needs prefix caching.
    version
        Which scheduler: :data:`VLLM_0_32`, :data:`VLLM_0_19`.

    Raises
    ------
    OptionError
        For values that vLLM refuses too, or that the version does not know.
    """

    num_gpu_blocks: int
    block_size: int = 16
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    max_model_len: int | None = None
    long_prefill_token_threshold: int = 0
    long_prefill_token_threshold_adaptive: bool = False
    enable_chunked_prefill: bool = True
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    policy: Policy | str = Policy.FCFS
    lookahead: int = 1
    async_scheduling: bool = True
    enable_prefix_caching: bool = False
    shared_blocks: int = 0
    version: EngineVersion = VLLM_0_32

    def __post_init__(self) -> None:
        for name, least in (
            ("num_gpu_blocks", RESERVED_BLOCKS + 1),
            ("block_size", 1),
            ("max_num_batched_tokens", 1),
            ("max_num_seqs", 1),
            ("long_prefill_token_threshold", 0),
            ("lookahead", 1),
            ("shared_blocks", 0),
        ):
            whole_number(name, getattr(self, name), least, MOST_TOKENS)
        if self.max_model_len is not None:
            whole_number("max_model_len", self.max_model_len, 2, MOST_TOKENS)
        for name in _SWITCHES:
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be true or false")
        if self.kv_tokens > MOST_TOKENS:
            raise OptionError(
                f"{self.num_gpu_blocks} blocks of {self.block_size} tokens are more than 2^62 - 1 "
                "tokens; take fewer"
            )
        if self.enable_prefix_caching and self.num_gpu_blocks > MOST_CACHED_BLOCKS:
            raise OptionError(
                f"num_gpu_blocks is {self.num_gpu_blocks}; with prefix caching it can be at most "
                f"{MOST_CACHED_BLOCKS}"
            )
        try:
            object.__setattr__(self, "policy", Policy(self.policy))
        except ValueError:
            names = ", ".join(Policy)
            raise OptionError(f"policy is {self.policy!r}; it must be one of {names}") from None
        if self.lookahead > 1 and self.policy != Policy.PLANNED:
            raise OptionError("lookahead is of the policy planned alone; vLLM's own are strict")
        number = isinstance(self.watermark, int | float) and not isinstance(self.watermark, bool)
        if not number or not 0 <= self.watermark < 1:
            raise OptionError(f"watermark is {self.watermark!r}; it must be in [0, 1)")
        if self.watermark and not self.version.watermark:
            raise OptionError(f"{self.version.name} has no watermark; leave it at 0")
        if self.long_prefill_token_threshold_adaptive and not self.version.adaptive_threshold:
            raise OptionError(f"{self.version.name} has no adaptive prefill threshold")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise OptionError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs "
                f"({self.max_num_seqs}); the engine refuses that"
            )
        longest = self.max_model_len
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < (longest or 0):
            raise OptionError(
                f"without chunked prefill max_num_batched_tokens ({self.max_num_batched_tokens}) "
                f"must be at least max_model_len ({longest})"
            )
        if self.shared_blocks and not self.enable_prefix_caching:
            raise OptionError("shared_blocks needs enable_prefix_caching")

    @classmethod
    def for_budget(cls, kv_tokens: int, *, block_size: int = 16, **settings: Any) -> EngineSettings:
        """Give the settings of an engine with this KV budget, rounded down to whole blocks."""
        whole_number("kv_tokens", kv_tokens, 1)
        whole_number("block_size", block_size, 1)
        if kv_tokens < block_size:
            raise OptionError(
                f"a KV budget of {kv_tokens} tokens holds no block of {block_size}; "
                "take smaller blocks"
            )
        blocks = kv_tokens // block_size + RESERVED_BLOCKS
        return cls(num_gpu_blocks=blocks, block_size=block_size, **settings)

    def replace(self, **changes: Any) -> EngineSettings:
        """Copy with some settings changed, checked anew."""
        return replace(self, **changes)

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can get."""
        return self.num_gpu_blocks - RESERVED_BLOCKS

    @property
    def kv_tokens(self) -> int:
        """The KV budget: tokens in the usable blocks."""
        return self.usable_blocks * self.block_size

    def rules(self) -> Rules:
        """Return the settings as the kernels read them."""
        return Rules(
            blocks=self.usable_blocks,
            block_size=self.block_size,
            token_budget=self.max_num_batched_tokens,
            seats=self.max_num_seqs,
            chunk_cap=self.long_prefill_token_threshold,
            cap_alone=not self.version.cap_lifted_when_alone,
            cap_shared=self.long_prefill_token_threshold_adaptive,
            chunked=self.enable_chunked_prefill,
            watermark=int(self.watermark * self.num_gpu_blocks),
            gate=self.scheduler_reserve_full_isl,
            by_priority=self.policy != Policy.FCFS,
            planned=self.policy == Policy.PLANNED,
            lookahead=self.lookahead,
            longest=min(self.kv_tokens, (self.max_model_len or self.kv_tokens + 1) - 1),
            skip_after_victim=self.version.skip_after_victim,
            asynchronous=self.async_scheduling,
            caching=self.enable_prefix_caching,
            fresh_first=self.version.fresh_blocks_first,
        )


def check_settings(given: Mapping[str, Any], shared_blocks: int = 0) -> dict[str, Any]:
    """Check some settings of an engine, whatever the others will be.

    Parameters
    ----------
    given
        Names and values of :class:`EngineSettings`; ``version`` may be a name, as ``0.32``.
    shared_blocks
        Leading blocks that all prompts share, where there is prefix caching.

    Raises
    ------
    OptionError
        For a value that is refused.
    """
    settings = with_version(given)
    if settings.get("enable_prefix_caching"):
        settings.setdefault("shared_blocks", shared_blocks)
    EngineSettings(**({"num_gpu_blocks": 2} | settings))
    return settings


def with_version(given: Mapping[str, Any]) -> dict[str, Any]:
    """Give settings with the ``version``, which may be a name, as ``0.32``, by what it is.

    Raises
    ------
    OptionError
        For an unknown name.
    """
    settings = dict(given)
    name = settings.get("version", VLLM_0_32)
    if not isinstance(name, EngineVersion):
        if f"vLLM {name}" not in VERSIONS or not isinstance(name, str):
            known = ", ".join(known.removeprefix("vLLM ") for known in VERSIONS)
            raise OptionError(f"the engine's version is {name!r}; known are {known}")
        settings["version"] = VERSIONS[f"vLLM {name}"]
    return settings
