"""Write a backlog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from sortedf.errors import InvalidRequestError
from sortedf.instances.files import kind_by_name, write_whole
from sortedf.model import Instance
from sortedf.model.instance import IntArray

ROWS = 65536
"""Rows that are put into bytes at a time."""

_LONGEST_ID = 100_000
"""Characters of an id in CSV; the csv module takes no longer cells than 131,072."""

_QUOTED = re.compile('[,"\r\n]')
_NONE: Mapping[str, IntArray] = MappingProxyType({})


class _Row(msgspec.Struct, omit_defaults=True):
    id: str
    prompt_tokens: int
    output_tokens: int
    release: int = 0


def write_backlog(
    instance: Instance, path: str | Path, *, columns: Mapping[str, IntArray] = _NONE
) -> None:
    """Write the requests of an instance; :func:`read_backlog` gives them back exactly.

    CSV with the columns ``id,prompt_tokens,output_tokens`` and, unless all are 0, ``release``; JSON
    lines with these keys when the name ends in ``.jsonl``. Either is packed when the name ends in
    ``.gz``; ``-`` is standard output. Same instance, same bytes. O(n). ``columns``, each of
    shape (n,), come after these; they are for others to read.

    Raises
    ------
    InvalidRequestError
        For an id that no CSV reader takes (a NUL character, over 100,000 characters): write JSONL.
    InputError
        When the file cannot be written.
    """
    if kind_by_name(path) == ".jsonl":
        write_whole(path, _json_lines(instance, columns))
        return
    for index, name in enumerate(instance.ids):
        if "\0" in name or len(name) > _LONGEST_ID:
            raise InvalidRequestError(
                f"the id of request {index} has a NUL character or over {_LONGEST_ID} characters, "
                "which CSV cannot hold; write JSONL",
                index,
            )
    write_whole(path, _csv(instance, columns))


def _csv(instance: Instance, columns: Mapping[str, IntArray]) -> Iterator[bytes]:
    released = bool(instance.release.any())
    names = [*(["release"] if released else []), *columns]
    yield ",".join(["id,prompt_tokens,output_tokens", *names]).encode() + b"\n"
    for rows in _chunks(instance, columns):
        if names:
            lines = [
                ",".join(map(str, (_field(name), s, o, *rest[0 if released else 1 :]))) + "\n"
                for name, s, o, *rest in rows
            ]
        else:
            lines = [f"{_field(name)},{s},{o}\n" for name, s, o, _ in rows]
        yield "".join(lines).encode()


def _json_lines(instance: Instance, columns: Mapping[str, IntArray]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    row = msgspec.defstruct("Row", [(name, int) for name in columns], bases=(_Row,), kw_only=True)
    for rows in _chunks(instance, columns):
        yield encoder.encode_lines(
            [row(*given[:4], **dict(zip(columns, given[4:], strict=True))) for given in rows]
        )


def _chunks(
    instance: Instance, columns: Mapping[str, IntArray]
) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Give the requests as plain tuples, some thousand at a time."""
    arrays = (instance.prompt_tokens, instance.output_tokens, instance.release, *columns.values())
    for first in range(0, len(instance), ROWS):
        part = slice(first, first + ROWS)
        yield zip(instance.ids[part], *(array[part].tolist() for array in arrays), strict=True)


def _field(name: str) -> str:
    # The csv module's writer leaves a lone CR unquoted before Python 3.13, its reader refuses that.
    return '"' + name.replace('"', '""') + '"' if _QUOTED.search(name) else name
