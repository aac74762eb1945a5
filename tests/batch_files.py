"""Batch files in memory, for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import strategies as st

from sortedf.errors import InputError
from sortedf.instances.batch import read_batch
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source

ESTIMATE: dict[str, Any] = {"prompt_tokens": "chars/4"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
"""Any JSON value, small."""

Reader = Callable[[Source, FaultLog, ReadOptions, Note], Columns]


def chat(name: str = "a", content: Any = "Say hi.", **body: Any) -> dict[str, Any]:
    """Build a line that asks for one answer of 8 tokens to a user's message."""
    messages = [{"role": "user", "content": content}]
    return line("/v1/chat/completions", name, {"messages": messages} | body)


def completion(name: str = "a", prompt: Any = (1, 2, 3), **body: Any) -> dict[str, Any]:
    """Build a line that asks for a completion of 8 tokens."""
    return line("/v1/completions", name, {"prompt": prompt} | body)


def line(url: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Put a body into the envelope of a batch line."""
    body = {"model": "m", "max_tokens": 8} | body
    return {"custom_id": name, "method": "POST", "url": url, "body": body}


def as_source(entries: Iterable[Any]) -> Source:
    """Write entries as JSON Lines; bytes stand for a line as it is."""
    lines = [e if isinstance(e, bytes) else json.dumps(e).encode() for e in entries]
    return Source("batch.jsonl", b"\n".join(lines))


def read(
    entries: Iterable[Any] | Source, reader: Reader = read_batch, skip: bool = False, **options: Any
) -> tuple[Columns, list[str]]:
    """Read entries as ``read_backlog`` would: the columns and the notes, or what is raised."""
    notes: list[str] = []
    source = entries if isinstance(entries, Source) else as_source(entries)
    log = FaultLog(source.name, skip)
    columns = reader(source, log, ReadOptions(skip_bad_lines=skip, **options), notes.append)
    log.close(notes.append)
    return columns, notes


def faults(
    entries: Iterable[Any] | Source, reader: Reader = read_batch, **options: Any
) -> list[tuple[int | None, str]]:
    """Read entries that must be refused: the lines and the messages."""
    with pytest.raises(InputError) as caught:
        read(entries, reader, **options)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def rows(columns: Columns) -> list[tuple[str, int, int, int]]:
    """Give the requests as (id, prompt tokens, output tokens, line)."""
    assert columns.ids is not None
    return list(
        zip(
            columns.ids,
            columns.prompt_tokens,
            columns.output_tokens,
            columns.lines,
            strict=True,
        )
    )
