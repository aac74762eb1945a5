"""What the lines of a file say of requests besides their lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from sortedf.instances.batch_entries import BatchEntries, Entry
from sortedf.instances.csv_rows import csv_rows
from sortedf.instances.json_text import first_object
from sortedf.instances.json_values import BadLine, decode_object, whole_number
from sortedf.instances.lengths import OUTPUT_NAMES, RELEASE_NAMES, STAMP_NAMES
from sortedf.instances.prompts import content_texts
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source
from sortedf.instances.timestamps import Clock
from sortedf.instances.traits import COLUMN_NAMES, LIMIT_NAMES, TEXT_NAMES, FloatArray, Traits
from sortedf.model import Instance

Row: TypeAlias = dict[str, Any]
"""What a line says, by names in lower case."""

_SINCE_AN_EPOCH = 10**8
"""Seconds from which on a stamp is a date; traces count smaller ones from their own beginning."""

_NANOSECONDS = 10**9
_DAY = 24 * 3600


def has_arrivals(source: Source, kind: str) -> bool:
    """Whether the rows of a CSV or JSONL file have time stamps, and no releases."""
    names = _names(source, kind)
    stamped, released = _first(names, STAMP_NAMES), _first(names, RELEASE_NAMES)
    return stamped is not None and released is None


def rows_told(source: Source, kind: str, lines: Sequence[int]) -> list[Row]:
    """Give what is said of each request, ``lines`` being where they stand in the file.

    Of a batch file that is what the body holds, its ``metadata``, and its text as ``prompt``; of
    ShareGPT nothing.
    """
    rows = _rows(source, kind)
    told = [rows.get(line, {}) for line in lines]
    return _by_sequence(told, lines) if kind == "batch" else told


def _names(source: Source, kind: str) -> list[str]:
    """Names of the columns, or the keys of the first object."""
    if kind == "csv":
        return next(csv_rows(source, FaultLog(source.name)), (1, []))[1]
    return list((first_object(source) or (1, {}))[1])


def _plain(name: str) -> str:
    return name.strip().lower()


def _first(names: Iterable[str], wanted: Sequence[str]) -> str | None:
    """Give the first of the wanted names that is there, as it is wanted."""
    there = {_plain(name) for name in names}
    return next((name for name in wanted if name in there), None)


def _rows(source: Source, kind: str) -> dict[int, Row]:
    if kind == "csv":
        rows = csv_rows(source, FaultLog(source.name))
        header = [_plain(name) for name in next(rows)[1]]
        return {line: dict(zip(header, row, strict=False)) for line, row in rows}
    if kind == "batch":
        entries = BatchEntries().read(source)
        return {entry.line: _of_body(entry) for entry in entries if isinstance(entry, Entry)}
    found = {}
    for line, text in source.lines() if kind == "jsonl" else ():
        try:
            row = decode_object(text)
        except BadLine:
            continue  # a fault already
        found[line] = {_plain(name): value for name, value in row.items()}
    return found


def _of_body(entry: Entry) -> Row:
    body = dict(entry.checked.body)  # its own keys before those of the metadata
    metadata = body.get("metadata")
    said = (metadata if isinstance(metadata, dict) else {}) | body
    told: Row = {_plain(name): value for name, value in said.items()}
    if entry.checked.chat is not None:
        texts = [part for message in entry.checked.chat for part in content_texts(message)]
        prompts = ["\n".join(texts)]
    else:
        prompts = [p if isinstance(p, str) else "" for p in entry.checked.prompts]
    return told | {"prompt": [text for text in prompts for _ in range(entry.checked.choices)]}


def _by_sequence(told: list[Row], lines: Sequence[int]) -> list[Row]:
    """Give each sequence the text of its own prompt: those of a line follow one another."""
    found, place = [], 0
    for index, (row, line) in enumerate(zip(told, lines, strict=True)):
        place = place + 1 if index and lines[index - 1] == line else 0
        found.append(row | {"prompt": row["prompt"][place]})
    return found


def traits_told(
    instance: Instance,
    told: Sequence[Row],
    lines: Sequence[int],
    wanted: Sequence[str],
    log: FaultLog,
) -> Traits:
    """Take what is known on arrival: by the names of :mod:`.traits`, and the columns ``wanted``.

    Raises
    ------
    InputError
        For a column that there is not, or a limit that is none.
    """
    there = {name for row in told for name in row}
    for name in wanted:
        if _plain(name) in OUTPUT_NAMES:
            raise log.stop(None, f"the column {name!r} is what is to be learnt")
        if _plain(name) not in there:
            found = ", ".join(sorted(there)) or "none"
            raise log.stop(None, f"no column {name!r}; found: {found}")
    named = [name for name in COLUMN_NAMES if name in there]
    named += [plain for name in wanted if (plain := _plain(name)) not in named]
    text = _first(there, TEXT_NAMES)
    texts = None if text is None else [row.get(text) for row in told]
    return Traits(
        prompt_tokens=instance.prompt_tokens,
        limits=_limits(told, lines, log) if _first(there, LIMIT_NAMES) else None,
        columns={name: [row.get(name) for row in told] for name in named},
        texts=None if texts is None else [t if isinstance(t, str) else "" for t in texts],
    )


def _limits(told: Sequence[Row], lines: Sequence[int], log: FaultLog) -> FloatArray:
    limits = np.full(len(told), np.inf)
    for index, row in enumerate(told):
        name = next((name for name in LIMIT_NAMES if row.get(name) not in (None, "")), None)
        if name is None:
            continue
        value = row[name]
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        try:
            limits[index] = whole_number(value, name)
        except BadLine as bad:
            raise log.stop(lines[index], str(bad)) from None
    return limits


def hours_told(told: Sequence[Row]) -> FloatArray | None:
    """Hours of the day (UTC), where stamps are dates."""
    milliseconds = "input_length" in told[0]
    name = _first(told[0], STAMP_NAMES)
    clock = Clock(milliseconds)
    ticks = [clock.read(row[name]) for row in told] if name else []
    if not ticks or min(ticks) < _SINCE_AN_EPOCH * _NANOSECONDS:
        return None
    seconds = np.array([tick // 1000 % (_DAY * 10**6) for tick in ticks]) / 1e6
    hours: FloatArray = seconds / 3600
    return hours
