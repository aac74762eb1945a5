"""Lines of an output file: what each says of its request, and which of them stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.instances.json_values import BadLine
from sortedf.instances.source import BOM, bad_byte

_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
"""Status codes of the 400s that say nothing of the request."""


class Status(StrEnum):
    """What became of a request.

    ``answered``: status 200 and a body with choices. ``failed``: refused with a status code of the
    400s, so it would fail again. ``broken``: anything else, such as an engine that died or an
    answer without a body; it is run again on resume.
    """

    ANSWERED = "answered"
    FAILED = "failed"
    BROKEN = "broken"


class OutputLine(NamedTuple):
    """One line: of a request, or (``custom_id`` is ``None``) of an input line that is none."""

    custom_id: str | None
    status: Status
    input_line: int | None
    """1-based, where there is no custom_id."""


class _Response(msgspec.Struct):
    status_code: int | None = None
    body: msgspec.Raw = msgspec.Raw()


class _Error(msgspec.Struct):
    line: int | None = None


class _Line(msgspec.Struct):
    custom_id: str | None
    response: _Response | None = None
    error: msgspec.Raw = msgspec.Raw()


class _Body(msgspec.Struct):
    choices: list[msgspec.Raw]


# What is not named above is checked to be JSON and passed over, which is fast.
_LINE = msgspec.json.Decoder(_Line)
_BODY = msgspec.json.Decoder(_Body)
_ERROR = msgspec.json.Decoder(_Error)


def read_line(text: bytes) -> OutputLine:
    """Read one line of an output file. O(its length).

    Raises
    ------
    BadLine
        When it is none: torn, not UTF-8, not JSON, or without a request that it speaks of.
    """
    text = text.removeprefix(BOM)
    if fault := bad_byte(text):
        raise BadLine(fault)
    try:
        line = _LINE.decode(text)
        if line.custom_id is not None:
            return OutputLine(line.custom_id, _status(line.response), None)
        number = _ERROR.decode(line.error).line
    except JSON_ERRORS as error:
        raise BadLine(json_fault(text, error)) from None
    if number is None:
        raise BadLine("custom_id is null, and there is no error.line that says of which line it is")
    return OutputLine(None, Status.FAILED, number)


def _status(response: _Response | None) -> Status:
    if response is None or response.status_code is None:
        return Status.BROKEN
    if response.status_code == HTTPStatus.OK:
        try:
            return Status.ANSWERED if _BODY.decode(response.body).choices else Status.BROKEN
        except JSON_ERRORS:
            return Status.BROKEN
    refused = 400 <= response.status_code < 500 and response.status_code not in _PASSING
    return Status.FAILED if refused else Status.BROKEN


@dataclass
class Ledger:
    """Which lines of an output file stand, by the offset where each begins.

    A later line of a request replaces an earlier one, but nothing replaces an answer.

    Parameters
    ----------
    answered
        ``custom_id`` of each request that was answered.
    errors
        For each other ``custom_id`` with a line: what became of it, and the offset of the line.
    unread
        Offset of the error record of each input line that is no request.
    dropped
        Offsets of the lines that do not stand.
    """

    answered: set[str] = field(default_factory=set)
    errors: dict[str, tuple[Status, int]] = field(default_factory=dict)
    unread: dict[int, int] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    def enter(self, line: OutputLine, offset: int) -> bool:
        """Enter a line that begins at an offset; returns whether it stands, for the time being."""
        if line.custom_id is None:
            assert line.input_line is not None
            if (older := self.unread.get(line.input_line)) is not None:
                self.dropped.add(older)
            self.unread[line.input_line] = offset
            return True
        if line.custom_id in self.answered:
            self.dropped.add(offset)
            return False
        if replaced := self.errors.pop(line.custom_id, None):
            self.dropped.add(replaced[1])
        if line.status is Status.ANSWERED:
            self.answered.add(line.custom_id)
        else:
            self.errors[line.custom_id] = (line.status, offset)
        return True
