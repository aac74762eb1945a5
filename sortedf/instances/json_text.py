"""JSON lines: what they hold, and what is wrong with them in words."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from sortedf.instances.source import Source, bad_byte

JSON_ERRORS = (msgspec.MsgspecError, RecursionError, ValueError)
"""All that decoding bytes of any kind can raise."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_SCHEMA = re.compile(r"sortedf\.[\w./-]{1,40}", re.ASCII)
_SCHEMA_FIRST = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(sortedf\.[\w./-]{1,40})"')


class _Tagged(msgspec.Struct):
    schema: str = ""


def json_fault(text: bytes, error: Exception) -> str:
    """Say in one line what is wrong with a text that JSON decoding refused with this error."""
    reason = str(error)
    if fault := bad_byte(text):
        return fault
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if reason.startswith("Expected `object`") and " - at " not in reason:
        return "not an object"
    if isinstance(error, msgspec.ValidationError):
        return reason
    if "trailing characters" in reason:
        return f"extra data after the object: {reason}"
    if _SURROGATE.search(text) and ("truncated" in reason or "surrogate" in reason):
        return "a lone surrogate (half of a character), which UTF-8 cannot hold"
    return reason if "malformed" in reason else f"JSON is malformed: {reason}"


def json_object(text: bytes) -> dict[str, Any] | None:
    """Decode the object that a line holds; ``None`` when it holds anything else."""
    try:
        value = msgspec.json.decode(text)
    except JSON_ERRORS:
        return None
    return value if isinstance(value, dict) else None


def first_object(source: Source) -> tuple[int, dict[str, Any]] | None:
    """Give the first line that holds a JSON object, with its number; ``None`` without any."""
    for line, text in source.lines():
        if (value := json_object(text)) is not None:
            return line, value
    return None


def is_one_object(source: Source) -> bool:
    """Whether the whole file is one JSON object, however many lines it takes."""
    try:
        msgspec.json.decode(source.data, type=_Tagged)
    except JSON_ERRORS:
        return False
    return True


def schema_of(source: Source) -> str | None:
    """Give the ``schema`` of a document of sortedf's (``sortedf.plan/1``), else ``None``.

    Also for damaged documents, as far as the schema is the first key. O(size of the file).
    """
    if match := _SCHEMA_FIRST.match(source.data):
        return match[1].decode()
    if not source.data.lstrip().startswith(b"{"):
        return None
    first_line = next((text for _, text in source.lines()), b"")
    for text in (first_line, source.data):
        try:
            schema = msgspec.json.decode(text, type=_Tagged).schema
        except JSON_ERRORS:
            continue
        return schema if _SCHEMA.fullmatch(schema) else None
    return None
