"""From the body of a batch line to how its answers are sampled, under vLLM's names.

Every key of a body is one of these: it says how to sample, and its range is checked as vLLM checks
it; it is read elsewhere (the prompt, the number of choices); it changes no answer; it cannot be
honoured here, and the line is refused by its name; or it is unknown, and noted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sortedf.instances.batch_line import BatchLine
from sortedf.instances.json_values import BadLine, flag, shown, whole_number
from sortedf.runner.body_keys import KNOWN, REFUSED, advice
from sortedf.runner.sampling_values import INT64, SAMPLED
from sortedf.runner.structured import structured_outputs

MOST_LOGPROBS = 20
"""Most alternatives a token, vLLM's default of ``max_logprobs``."""

COMPLETION_LIMIT = 16
"""Output tokens of a completion that sets no limit, by the API."""

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
    for name, harmless in REFUSED.items():
        if name in body and body[name] not in harmless:
            raise BadLine(f"{name} is {shown(body[name])}; {advice(name)}", UNSUPPORTED)
    if chat:
        _check_tools(body)
    parameters: dict[str, Any] = {}
    for name, check in SAMPLED.items():
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
    ignored = tuple(name for name in body if name not in KNOWN)
    return Sampling(parameters, limit, form, ignored)


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
