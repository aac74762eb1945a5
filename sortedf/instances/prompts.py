"""The prompts in the body of one batch request, checked: messages, texts, lists of token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from sortedf.instances.json_values import BadLine, shown

Message: TypeAlias = dict[str, Any]
"""A message of a chat, checked; ``content`` is a text or a list of text parts."""


class Text(NamedTuple):
    """A text as an engine tokenizes it: with the tokenizer's special tokens around it, or bare."""

    text: str
    special_tokens: bool = True


def completion_prompts(body: Mapping[str, Any]) -> list[str | list[int]]:
    """Split the ``prompt`` of a completion into its prompts, each a text or a list of token ids.

    Raises
    ------
    BadLine
        A prompt that is missing, empty, or neither text nor token ids (integers >= 0).
    """
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        return [_one_prompt(part, f"prompt[{k}]") for k, part in enumerate(prompt)]
    return [_one_prompt(prompt, "prompt")]


def chat_messages(body: Mapping[str, Any]) -> list[Message]:
    """Check the ``messages`` of a chat; their content is a text or a list of text parts afterwards.

    Any role is taken. An assistant's content may be null beside tool calls and counts as empty.

    Raises
    ------
    BadLine
        No message, a message without role or content, or a part that is not text (an image, audio,
        a file): how many tokens it takes depends on the model.
    """
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        what = "an empty list" if messages == [] else shown(messages)
        raise BadLine(f"messages is {what}; it must be a list of at least one message")
    return [_message(message, f"messages[{k}]") for k, message in enumerate(messages)]


def content_texts(message: Mapping[str, Any]) -> list[str]:
    """Text of a checked message, part by part."""
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content]


def _one_prompt(prompt: object, name: str) -> str | list[int]:
    if isinstance(prompt, str):
        if not prompt:
            raise BadLine(f"{name} is empty")
        return prompt
    if not isinstance(prompt, list):
        raise BadLine(f"{name} is {shown(prompt)}; it must be text or a list of token ids")
    if not prompt:
        raise BadLine(f"{name} is an empty list")
    for position, token in enumerate(prompt):
        if type(token) is not int or token < 0:
            raise BadLine(f"{name}[{position}] is {shown(token)}, not a token id")
    return prompt


def _message(message: object, name: str) -> Message:
    if not isinstance(message, dict):
        raise BadLine(f"{name} is {shown(message)}, not an object")
    role = message.get("role")
    if not isinstance(role, str) or not role:
        raise BadLine(f"{name}.role is {shown(role)}; it must name a role, such as user")
    content = message.get("content")
    if content is None and role == "assistant" and _calls_tools(message):
        return message | {"content": ""}
    if isinstance(content, list) and content:
        for k, part in enumerate(content):
            _check_part(part, f"{name}.content[{k}]")
    elif not isinstance(content, str):
        what = "an empty list" if content == [] else shown(content)
        raise BadLine(f"{name}.content is {what}, not text")
    return message


def _calls_tools(message: Mapping[str, Any]) -> bool:
    return any(
        isinstance(message.get(key), kind) and message[key]
        for key, kind in (("tool_calls", list), ("function_call", dict))
    )


def _check_part(part: object, name: str) -> None:
    if not isinstance(part, dict):
        raise BadLine(f"{name} is {shown(part)}, not an object")
    kind = part.get("type")
    if kind != "text":
        raise BadLine(f"{name} is of type {shown(kind)}; only the tokens of text can be counted")
    if not isinstance(part.get("text"), str):
        raise BadLine(f"{name}.text is {shown(part.get('text'))}, not text")
