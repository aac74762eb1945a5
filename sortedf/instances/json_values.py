"""One JSON value of a line into checked Python: what the readers of JSON backlogs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.model.instance import MAX_TOKENS

_SHOWN = 40


class BadLine(Exception):  # noqa: N818 - never leaves the readers, so it is no error of theirs
    """What is wrong with one line; the loop that knows its number makes it a fault of the file.

    ``code`` is the kind of it for programs, of lines that ask an engine for something.
    """

    def __init__(self, message: str, code: str = "invalid_request") -> None:
        self.code = code
        super().__init__(message)


def decode(raw: bytes) -> Any:
    """Decode one JSON value. A key that is repeated in an object keeps its last value.

    Raises
    ------
    BadLine
        Not UTF-8, not JSON, more than one value, nested too deeply, a number out of range, or half
        of a surrogate pair (which UTF-8 cannot hold).
    """
    try:
        return msgspec.json.decode(raw)
    except JSON_ERRORS as error:
        raise BadLine(json_fault(raw, error), "invalid_json_line") from None


def decode_object(raw: bytes) -> dict[str, Any]:
    """Decode one JSON object; see :func:`decode`."""
    value = decode(raw)
    if not isinstance(value, dict):
        raise BadLine(f"not an object but {shown(value)}", "invalid_json_line")
    return value


def whole_number(value: object, name: str, least: int = 1, most: int = MAX_TOKENS) -> int:
    """Check that a JSON value is an integer in ``least .. most``; true, "8" and 8.0 are not."""
    if type(value) is not int:
        raise BadLine(f"{name} is {shown(value)}, not a whole number")
    if value < least:
        raise BadLine(f"{name} is {shown(value)}; it must be at least {least}")
    if value > most:
        raise BadLine(f"{name} is {shown(value)}; it must be at most {most}")
    return value


def flag(body: Mapping[str, Any], name: str, default: bool) -> bool:
    """Look up a key that is true or false; ``default`` where it is absent or null."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadLine(f"{name} is {shown(value)}, not true or false")
    return value


def shown(value: object) -> str:
    """Spell a decoded JSON value in a message: scalars as in JSON, cut short, others by kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
