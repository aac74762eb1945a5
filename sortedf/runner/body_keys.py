"""The keys of a body that do not say how to sample: read elsewhere, without effect, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sortedf.runner.sampling_values import SAMPLED

READ_ELSEWHERE = frozenset(
    (
        "model",
        "messages",
        "prompt",
        "n",
        "best_of",
        "max_tokens",
        "max_completion_tokens",
        "use_beam_search",
        "tools",
        "tool_choice",
        "documents",
        "chat_template_kwargs",
        "add_generation_prompt",
        "continue_final_message",
        "add_special_tokens",
        "reasoning_effort",
        "logprobs",
        "top_logprobs",
        "response_format",
        "structured_outputs",
        "return_token_ids",
        "return_tokens_as_token_ids",
    )
)

WITHOUT_EFFECT = frozenset(
    (
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prediction",
        "session_id",
        "request_id",
        "cache_salt",
        "parallel_tool_calls",
        "length_penalty",
        "stream_options",
        "stream_interval",
        "truncation_side",
        "return_token_offsets",
    )
)

_NONE = (None,)
_OFF = (None, False)
_EMPTY: tuple[Any, ...] = (None, {}, [])

REFUSED: Mapping[str, tuple[Any, ...]] = {
    "stream": _OFF,
    "echo": _OFF,
    "suffix": (None, ""),
    "audio": _NONE,
    "modalities": (None, [], ["text"]),
    "functions": _EMPTY,
    "function_call": (None, "none"),
    "web_search_options": _NONE,
    "prompt_logprobs": _NONE,
    "prompt_embeds": _NONE,
    "logprob_token_ids": _EMPTY,
    "truncate_prompt_tokens": _NONE,
    "chat_template": _NONE,
    "thinking_token_budget": _NONE,
    "include_reasoning": (None, True),
    "priority": (None, 0),
    "watermarking": _OFF,
    "repetition_detection": _NONE,
    "routed_experts_prompt_start": (None, 0),
    "return_prompt_text": _OFF,
    "kv_transfer_params": _EMPTY,
    "ec_transfer_params": _EMPTY,
    "vllm_xargs": _EMPTY,
    "mm_processor_kwargs": _EMPTY,
    "media_io_kwargs": _EMPTY,
    "guided_json": _NONE,
    "guided_regex": _NONE,
    "guided_choice": _NONE,
    "guided_grammar": _NONE,
    "guided_decoding_backend": _NONE,
    "guided_whitespace_pattern": _NONE,
}
"""Keys that cannot be honoured, and the values of each that ask for nothing."""

KNOWN = SAMPLED.keys() | READ_ELSEWHERE | WITHOUT_EFFECT | REFUSED.keys()


def advice(name: str) -> str:
    """Say what to do about a key that cannot be honoured."""
    if name.startswith("guided_"):
        return "that is of an older vLLM: say it by structured_outputs"
    if name == "stream":
        return "answers are written whole"
    if name == "priority":
        return "the plan says who comes first"
    return "this cannot be honoured in a run; leave it out"
