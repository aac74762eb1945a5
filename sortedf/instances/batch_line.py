"""One line of an OpenAI batch file: what it asks for, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sortedf.instances.json_values import BadLine, flag, shown, whole_number
from sortedf.instances.prompts import Message, chat_messages, completion_prompts

MOST_CHOICES = 16384
"""Largest ``n``: what vLLM takes by default (``VLLM_MAX_N_SEQUENCES``)."""

# Azure leaves out the version; servers differ in whether they keep a trailing slash; some clients
# write the whole address.
_URL = re.compile(r"(?:https?://[^/?#]+)?(?:/v1)?/(chat/)?completions/?")


class BatchLine(NamedTuple):
    """What one line asks for: one chat, or one or more prompts, ``choices`` answers to each."""

    body: Mapping[str, Any]
    chat: list[Message] | None
    prompts: list[str | list[int]]
    choices: int
    output_limit: int | None


def custom_id(entry: Mapping[str, Any]) -> str:
    """Look up the id, exactly as it is written: nothing is trimmed, folded or normalised."""
    name = entry.get("custom_id")
    if not isinstance(name, str) or not name:
        what = "missing" if "custom_id" not in entry else shown(name)
        text = f"custom_id is {what}; it must be a text that is not empty"
        raise BadLine(text, "invalid_custom_id")
    return name


def check_line(entry: Mapping[str, Any]) -> BatchLine:
    """Check the method, the url and the body of a line.

    Raises
    ------
    BadLine
        The first thing that cannot be planned.

    Notes
    -----
    ``best_of`` above ``n`` and beam search are refused: they make sequences that are thrown away,
    and current engines do not run them. Keys that change no length are not looked at.
    """
    if entry.get("method") != "POST":
        text = f"method is {shown(entry.get('method'))}; it must be POST"
        raise BadLine(text, "invalid_method")
    endpoint = _endpoint(entry.get("url"))
    body = entry.get("body")
    if not isinstance(body, dict):
        raise BadLine(f"body is not an object but {shown(body)}")
    is_chat = endpoint == "chat"
    return BatchLine(
        body=body,
        chat=chat_messages(body) if is_chat else None,
        prompts=[] if is_chat else completion_prompts(body),
        choices=_choices(body),
        output_limit=_output_limit(body),
    )


def _endpoint(url: object) -> Literal["chat", "completions"]:
    match = _URL.fullmatch(url) if isinstance(url, str) else None
    if not match:
        raise BadLine(
            f"url is {shown(url)}; only /v1/chat/completions and /v1/completions generate tokens "
            "that can be planned",
            "invalid_url",
        )
    return "chat" if match[1] else "completions"


def _choices(body: Mapping[str, Any]) -> int:
    n = body.get("n")
    choices = 1 if n is None else whole_number(n, "n", most=MOST_CHOICES)
    best_of = body.get("best_of")
    if best_of is not None and whole_number(best_of, "best_of") != choices:
        raise BadLine(f"best_of is {best_of} and n is {choices}; engines take n only")
    if flag(body, "use_beam_search", False):
        raise BadLine("use_beam_search is true; beams cannot be planned")
    return choices


def _output_limit(body: Mapping[str, Any]) -> int | None:
    """Most tokens to generate; the newer name wins where both are given."""
    limits = [
        whole_number(body[name], name)
        for name in ("max_completion_tokens", "max_tokens")
        if body.get(name) is not None
    ]
    return limits[0] if limits else None
