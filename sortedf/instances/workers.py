"""Workers files: the workers of a plan, each with a name and a KV budget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from sortedf.errors import Fault, InputError, InvalidRequestError
from sortedf.instances.json_text import JSON_ERRORS, json_fault, schema_of
from sortedf.instances.source import Source, open_source
from sortedf.model.instance import OVERFLOW_BOUND
from sortedf.model.workers import MOST_WORKERS, Worker, checked_workers

SCHEMA = "sortedf.workers/1"

_Count = Annotated[int, Meta(ge=1, le=MOST_WORKERS)]


class _Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1)]
    kv_tokens: Annotated[int, Meta(ge=1, lt=OVERFLOW_BOUND)]
    count: _Count = 1


class _Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: str
    workers: Annotated[list[_Row], Meta(min_length=1)]


def read_workers(path: str | Path | Source) -> tuple[Worker, ...]:
    """Read a workers file; the form is that of ``docs/formats.md``.

    A row that counts several workers stands for so many of one budget, "name-0", "name-1", ...

    Raises
    ------
    InputError
        For what is not such a file, a name that is there twice, or too many workers.
    """
    source = path if isinstance(path, Source) else open_source(path)
    schema = schema_of(source)
    if schema != SCHEMA:
        what = f"its schema is {schema}" if schema else "it names no schema"
        raise InputError([Fault(source.name, None, f"not a {SCHEMA} document: {what}")])
    try:
        document = msgspec.json.decode(source.data, type=_Document)
    except JSON_ERRORS as error:
        raise InputError([Fault(source.name, None, json_fault(source.data, error))]) from None
    workers = [
        Worker(row.name if row.count == 1 else f"{row.name}-{k}", row.kv_tokens)
        for row in document.workers
        for k in range(row.count)
    ]
    try:
        return checked_workers(workers, max(worker.kv_tokens for worker in workers))
    except InvalidRequestError as error:
        raise InputError([Fault(source.name, None, str(error))]) from None
