"""From the body of a batch line to how its answers are sampled, under vLLM's names.

Every key of a body is one of these: it says how to sample, and its range is checked as vLLM checks
it; it is read elsewhere (the prompt, the number of choices); it changes no answer; it cannot be
honoured here, and the line is refused by its name; or it is unknown, and noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from sortedf.instances.batch_line import BatchLine
from sortedf.instances.json_values import BadLine, flag, shown, whole_number
from sortedf.runner.structured import structured_outputs

MOST_LOGPROBS = 20
"""Most alternatives a token, vLLM's default of ``max_logprobs``."""

COMPLETION_LIMIT = 16
"""Output tokens of a completion that sets no limit, by the API."""

INT32, INT64 = 2**31 - 1, 2**63 - 1

UNSUPPORTED = "unsupported_parameter"


class Form(NamedTuple):
    """What an answer is to hold besides its text.

    ``logprobs`` is how many alternatives of each token, ``None`` for no log-probabilities at all.
    """

    chat: bool
    logprobs: int | None = None
    token_ids: bool = False
    tokens_as_ids: bool = False


class Sampling(NamedTuple):
    """How the answers of a line are sampled.

    Parameters
    ----------
    parameters
        Keyword arguments of vLLM's ``SamplingParams``, plain data, what is not asked for left out.
        ``structured_outputs`` holds those of its ``StructuredOutputsParams``.
    limit
        Most output tokens, ``None`` for what the context leaves.
    form
        What the answer holds.
    ignored
        Unknown keys of the body, as vLLM's server ignores them.
    """

    parameters: dict[str, Any]
    limit: int | None
    form: Form
    ignored: tuple[str, ...] = ()

    def of_choice(self, choice: int) -> dict[str, Any]:
        """Give the parameters of one of several choices: each has a seed of its own, as in vLLM."""
        seed = self.parameters.get("seed")
        return self.parameters if seed is None else self.parameters | {"seed": seed + choice}


def sampling_of(checked: BatchLine) -> Sampling:
    """Read the body of a checked line.

    Raises
    ------
    BadLine
        A value that vLLM refuses, or a key that cannot be honoured, by its name.
    """
    body, chat = checked.body, checked.chat is not None
    for name, harmless in _REFUSED.items():
        if name in body and body[name] not in harmless:
            raise BadLine(f"{name} is {shown(body[name])}; {_advice(name)}", UNSUPPORTED)
    if chat:
        _check_tools(body)
    parameters: dict[str, Any] = {}
    for name, check in _SAMPLED.items():
        if body.get(name) is not None:
            parameters[name] = check(body[name], name)
    if parameters.get("seed") == -1:  # vLLM's word for none
        del parameters["seed"]
    if parameters.get("seed", 0) > INT64 - (checked.choices - 1):
        raise BadLine(f"seed is {parameters['seed']}; it leaves none for the other choices")
    logprobs = _logprobs(body, chat)
    if logprobs is not None:
        parameters["logprobs"] = logprobs
    structured = structured_outputs(body)
    if structured is not None:
        parameters["structured_outputs"] = structured
    limit = checked.output_limit
    if limit is None and not chat:
        limit = COMPLETION_LIMIT
    least = parameters.get("min_tokens", 0)
    if limit is not None and least > limit:
        raise BadLine(f"min_tokens is {least}, which is above max_tokens ({limit})")
    form = Form(
        chat,
        logprobs,
        flag(body, "return_token_ids", False),
        flag(body, "return_tokens_as_token_ids", False),
    )
    ignored = tuple(name for name in body if name not in _KNOWN)
    return Sampling(parameters, limit, form, ignored)


_Check: TypeAlias = Callable[[Any, str], Any]


def _number(least: float, most: float, *, above: bool = False, whole: bool = False) -> _Check:
    """Make a check of a number in ``least .. most``, or above ``least``."""

    def check(value: Any, name: str) -> float:
        kind = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kind):
            raise BadLine(f"{name} is {shown(value)}, not a {'whole ' * whole}number")
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if not math.isfinite(real) or not least <= real <= most or (above and real == least):
            edge = "above" if above else "at least"
            up_to = f" and at most {most:g}" if most < INT32 else ""
            raise BadLine(f"{name} is {shown(value)}; it must be {edge} {least:g}{up_to}")
        return value if whole else real

    return check


def _switch(value: Any, name: str) -> bool:
    return flag({name: value}, name, False)


def _texts(value: Any, name: str) -> list[str]:
    """Check a text or a list of texts, none of them empty."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadLine(f"{name} is {shown(value)}, not a text or a list of texts")
    if not all(texts):
        raise BadLine(f"{name} has an empty text")
    return texts


def _token_ids(value: Any, name: str) -> list[int]:
    if not isinstance(value, list):
        raise BadLine(f"{name} is {shown(value)}, not a list of token ids")
    return [whole_number(token, f"{name}[{k}]", 0, INT32) for k, token in enumerate(value)]


def _some_token_ids(value: Any, name: str) -> list[int]:
    if not (tokens := _token_ids(value, name)):
        raise BadLine(f"{name} is an empty list; it would allow no token at all")
    return tokens


def _bias(value: Any, name: str) -> dict[int, float]:
    """Check a bias by token id; beyond 100 either way it is cut, as by vLLM."""
    if not isinstance(value, dict):
        raise BadLine(f"{name} is {shown(value)}, not an object of token ids and numbers")
    bias = {}
    for key, number in value.items():
        if not key.isascii() or not key.isdigit() or len(key) > 10 or int(key) > INT32:
            raise BadLine(f"{name} has the key {shown(key)}, which is no token id")
        real = _number(-math.inf, math.inf)(number, f"{name}[{key}]")
        bias[int(key)] = max(-100.0, min(100.0, real))
    return bias


_SAMPLED: Mapping[str, _Check] = {
    "temperature": _number(0, 2),
    "top_p": _number(0, 1, above=True),
    "top_k": _number(-1, INT32, whole=True),
    "min_p": _number(0, 1),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repetition_penalty": _number(0, math.inf, above=True),
    "seed": lambda value, name: whole_number(value, name, -(2**63), INT64),
    "stop": _texts,
    "stop_token_ids": _token_ids,
    "bad_words": _texts,
    "allowed_token_ids": _some_token_ids,
    "logit_bias": _bias,
    "min_tokens": lambda value, name: whole_number(value, name, 0),
    "ignore_eos": _switch,
    "include_stop_str_in_output": _switch,
    "skip_special_tokens": _switch,
    "spaces_between_special_tokens": _switch,
}

_READ_ELSEWHERE = frozenset(
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

_WITHOUT_EFFECT = frozenset(
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

_REFUSED: Mapping[str, tuple[Any, ...]] = {
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

_KNOWN = _SAMPLED.keys() | _READ_ELSEWHERE | _WITHOUT_EFFECT | _REFUSED.keys()


def _advice(name: str) -> str:
    if name.startswith("guided_"):
        return "that is of an older vLLM: say it by structured_outputs"
    if name == "stream":
        return "answers are written whole"
    if name == "priority":
        return "the plan says who comes first"
    return "this cannot be honoured in a run; leave it out"


def _check_tools(body: Mapping[str, Any]) -> None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools and choice != "none":
        raise BadLine(
            "tools with a tool_choice other than none: calls are not parsed out of the text here; "
            'say "tool_choice": "none" for the text as the model writes it',
            UNSUPPORTED,
        )
    if tools is not None and not isinstance(tools, list):
        raise BadLine(f"tools is {shown(tools)}, not a list")
    if choice not in (None, "none"):
        raise BadLine(f"tool_choice is {shown(choice)}, but there are no tools")


def _logprobs(body: Mapping[str, Any], chat: bool) -> int | None:
    """How many alternatives of each token; a chat says that in two keys, a completion in one."""
    if not chat:
        if body.get("top_logprobs") is not None:
            raise BadLine("top_logprobs is of chats; a completion says logprobs")
        number = body.get("logprobs")
        return None if number is None else whole_number(number, "logprobs", 0, MOST_LOGPROBS)
    wanted = flag(body, "logprobs", False)
    top = body.get("top_logprobs")
    number = 0 if top is None else whole_number(top, "top_logprobs", 0, MOST_LOGPROBS)
    if number and not wanted:
        raise BadLine("top_logprobs needs logprobs true")
    return number if wanted else None
