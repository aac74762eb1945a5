"""Output tokens from outside the backlog: one number for all, or a file of predictions by id."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sortedf.errors import OptionError
from sortedf.instances.json_values import BadLine, decode_object, shown, whole_number
from sortedf.instances.reading import FaultLog, Note
from sortedf.instances.source import Source, bad_byte, open_source

# An OpenAI output file has both, and there ``id`` names the answer.
_ID_COLUMNS = ("custom_id", "id")
_TOKENS = "output_tokens"
_DIGITS = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?")


@dataclass(frozen=True)
class Predictions:
    """Output tokens by id, or the same ``constant`` for every request.

    ``source`` is what messages call the file.
    """

    constant: int | None = None
    by_id: Mapping[str, int] = field(default_factory=dict)
    source: str = ""

    def tokens(self, *names: str) -> int:
        """Output tokens under the first of these ids that has some.

        Raises
        ------
        BadLine
            When none has; the last one is named.
        """
        if self.constant is not None:
            return self.constant
        for name in names:
            if (tokens := self.by_id.get(name)) is not None:
                return tokens
        raise BadLine(f"no output_tokens for {names[-1]!r} in {self.source} (--output-tokens)")

    def note_unknown(self, known: Container[str], note: Note) -> None:
        """Say how many predictions are for ids that the backlog does not have."""
        unknown = sum(name not in known for name in self.by_id)
        if unknown:
            noun = "prediction is" if unknown == 1 else "predictions are"
            note(f"{self.source}: {unknown} {noun} for ids that the backlog does not have")


def read_predictions(value: str | int | None) -> Predictions | None:
    """Understand ``--output-tokens FILE|N``; digits are a number (a file so named is ``./64``).

    The file is CSV with a header or JSONL, told apart by its first character, also gzipped. It has
    the columns ``id`` (or ``custom_id``, which wins) and ``output_tokens``; others are ignored.

    Raises
    ------
    OptionError
        A number that is not whole, or below 1.
    InputError
        A file that cannot be read; a duplicate id or a bad number, with its line in that file.
    """
    if value is None:
        return None
    if not isinstance(value, str) or _NUMBER.fullmatch(value):
        try:
            number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
            return Predictions(constant=whole_number(number, "--output-tokens"))
        except BadLine as bad:
            raise OptionError(str(bad)) from None
    source = open_source(value)
    return Predictions(by_id=_by_id(source), source=source.name)


def _by_id(source: Source) -> dict[str, int]:
    log = FaultLog(source.name)
    first = next(source.lines(), None)
    if first is None:
        raise log.stop(None, "no predictions: the file is empty")
    rows = _json_rows(source) if first[1].lstrip().startswith(b"{") else _csv_rows(source, log)
    tokens: dict[str, int] = {}
    lines: dict[str, int] = {}
    for line, row in rows:
        try:
            if isinstance(row, BadLine):
                raise row
            name, number = _prediction(row)
        except BadLine as bad:
            log.add(line, str(bad))
            continue
        if (earlier := lines.setdefault(name, line)) != line:
            log.add(line, f"repeats the id {name!r} of line {earlier}")
        tokens[name] = number
    if not tokens:
        log.add(None, "no predictions in the file")
    log.close(note=_no_note)
    return tokens


def _prediction(row: Mapping[str, Any]) -> tuple[str, int]:
    column = next((key for key in _ID_COLUMNS if key in row), "id")
    name = row.get(column)
    if not isinstance(name, str) or not name:
        raise BadLine(f"{column} is {shown(name)}; it must be a text that is not empty")
    return name, whole_number(row.get(_TOKENS), _TOKENS)


def _json_rows(source: Source) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
    for line, raw in source.lines():
        try:
            yield line, decode_object(raw)
        except BadLine as bad:
            yield line, bad


def _csv_rows(source: Source, log: FaultLog) -> Iterator[tuple[int, Mapping[str, Any] | BadLine]]:
    if not source.is_utf8:
        for line, raw in source.lines():
            if (fault := bad_byte(raw)) is not None:
                raise log.stop(line, fault)
    # An id may hold line ends, so the csv module finds the ends of the rows.
    reader = csv.reader(io.StringIO(source.data.decode(), newline="\n"), strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise log.stop(line, f"not valid CSV: {error}") from None
        if cells is None:
            return
        if not "".join(cells).strip():
            continue
        if header is None:
            header = [cell.strip() for cell in cells]
            if _TOKENS not in header or not any(key in header for key in _ID_COLUMNS):
                raise log.stop(line, f"the header must name the columns id and {_TOKENS}")
        elif len(cells) != len(header):
            yield line, BadLine(f"{len(cells)} fields, the header has {len(header)}")
        else:
            row: dict[str, Any] = dict(zip(header, cells, strict=True))
            number = row[_TOKENS].strip()
            yield line, row | {_TOKENS: int(number) if _DIGITS.fullmatch(number) else number}


def _no_note(_: str) -> None:
    """Nothing is left out of predictions, so that there is nothing to say."""
