"""JSONL files of token counts: sortedf's own, Mooncake's, and the other traces' as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from sortedf.instances.json_text import JSON_ERRORS, first_object, json_fault
from sortedf.instances.json_values import BadLine
from sortedf.instances.lengths import ABSENT, Layout, Rows, find_layout
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source, bad_byte


def read_jsonl(source: Source, log: FaultLog, options: ReadOptions, note: Note) -> Columns:
    """Read a file with one object a line, whose keys are those of the first.

    Numbers must be JSON integers, an id a JSON string; keys without meaning here are ignored. Of a
    key that is repeated in an object the last value counts. All requests have an id or none; a
    release may be left out for 0. O(size of the file).

    Raises
    ------
    InputError
        When the first object does not name the token counts, each once.
    """
    line, keys = first_object(source) or (1, {})
    try:
        layout = find_layout(list(keys), source.name, options)
    except BadLine as error:
        raise log.stop(line, str(error)) from None
    decode = _decoder(layout)
    rows = Rows(layout, log, options.step, options.without_outputs)
    all_utf8 = source.is_utf8
    for line, text in source.lines():
        try:
            row = decode(text)
        except JSON_ERRORS as error:
            log.add(line, json_fault(text, error))
            continue
        # The decoder does not look into the values that it leaves out.
        if not all_utf8 and (fault := bad_byte(text)):
            log.add(line, fault)
        else:
            rows.add(line, row.prompt, row.output, row.id, row.release, row.stamp)
    return rows.columns(note)


def _decoder(layout: Layout) -> Callable[[bytes], Any]:
    """Build the decoder of a line: only the keys with a meaning, their values of any type."""

    def key(place: int | None, default: str) -> str:
        return default if place is None else layout.names[place]

    # Keys that the first object lacks are looked for too: they are faults, or ignored, in Rows.
    keys = {
        "prompt": key(layout.prompt, ""),
        "output": key(layout.output, ""),
        "id": key(layout.id, "id"),
        "release": key(layout.release, "release"),
        "stamp": key(layout.stamp, "timestamp"),
    }
    fields = [(role, Any, msgspec.field(name=name, default=ABSENT)) for role, name in keys.items()]
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False)).decode
