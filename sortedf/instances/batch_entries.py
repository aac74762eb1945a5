"""The lines of an OpenAI batch file, told apart: what each asks for, or what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sortedf.instances.batch_line import BatchLine, check_line, custom_id
from sortedf.instances.json_values import BadLine, decode_object
from sortedf.instances.source import Source

MOST_SEQUENCES = 2**20
"""Most sequences that one line may ask for."""


class Entry(NamedTuple):
    """A line that asks for something: its request, and the names of its sequences.

    A line with one prompt and one answer is one sequence, named as the line. With more, they are
    ``custom_id#0``, ``custom_id#1``, ... in the order of the choices of the answer.
    """

    line: int
    custom_id: str
    value: Mapping[str, Any]
    checked: BatchLine
    sequences: list[str]


class BadEntry(NamedTuple):
    """A line at fault. ``custom_id`` is ``None`` when none stands for this line alone."""

    line: int
    custom_id: str | None
    value: Mapping[str, Any] | None
    code: str
    message: str


class BatchEntries:
    """Reads the lines of a file one after another, and sees to it that no two share a name."""

    def __init__(self) -> None:
        self.line_of: dict[str, int] = {}
        """The line of each name, of lines and of sequences."""

    def read(self, source: Source) -> Iterator[Entry | BadEntry]:
        """Go through a file. Linear in its size, nothing of it is kept but names."""
        for line, raw in source.lines():
            yield self._entry(line, raw)

    def _entry(self, line: int, raw: bytes) -> Entry | BadEntry:
        value = name = None
        try:
            value = decode_object(raw)
            named = custom_id(value)
            self._claim(named, line, "repeats the custom_id {name!r} of line {earlier}")
            name = named
            checked = check_line(value)
            return Entry(line, name, value, checked, self._sequences(line, name, checked))
        except BadLine as fault:
            return BadEntry(line, name, value, fault.code, str(fault))

    def _sequences(self, line: int, name: str, checked: BatchLine) -> list[str]:
        """Names of the sequences of a line, which no other line may have."""
        count = checked.choices * max(1, len(checked.prompts))
        if count == 1:
            return [name]
        if count > MOST_SEQUENCES:
            raise BadLine(f"{count} sequences; a line may ask for {MOST_SEQUENCES}")
        names = [f"{name}#{k}" for k in range(count)]
        for sequence in names:
            self._claim(sequence, line, "its sequence {name!r} has the custom_id of line {earlier}")
        return names

    def _claim(self, name: str, line: int, complaint: str) -> None:
        """Take a name for a line.

        It counts against a later line even when the earlier one is bad for another reason: which of
        the two was meant cannot be known.
        """
        if (earlier := self.line_of.setdefault(name, line)) != line:
            text = complaint.format(name=name, earlier=earlier)
            raise BadLine(text, "duplicate_custom_id")
