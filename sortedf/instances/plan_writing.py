"""Plan files written: requests in the order of their starts, the same bytes for the same plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sortedf.instances.files import kind_by_name, write_whole
from sortedf.instances.plan_schema import SCHEMA, PlannedRow, SkippedRow, WorkerRow
from sortedf.instances.write import ROWS
from sortedf.model import Request, Result


def write_plan(
    result: Result, path: str | Path, skipped: Sequence[tuple[int, Request]] = ()
) -> None:
    """Write a plan: one JSON document, or JSON lines when the name ends in ``.jsonl``.

    Either is packed when the name ends in ``.gz``; ``-`` is standard output. The requests come in
    the order of their starts, ties by index; each has a line. No time or date goes in: same result,
    same bytes. O(n log n).

    Parameters
    ----------
    result
        What to write.
    path
        Where to; the file appears whole or not at all.
    skipped
        ``(position in the backlog, request)`` of each request that was left out before planning.
        The index of the planned ones is their position in the backlog with these.

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    instance = result.instance
    header: dict[str, Any] = {"schema": SCHEMA, "kv_tokens": instance.kv_tokens}
    if len(instance.workers) > 1:
        header["workers"] = [WorkerRow(name=name, kv_tokens=m) for name, m in instance.workers]
    if result.block_size != 1:
        header["block_size"] = result.block_size
    header |= {
        "solver": result.solver,
        "parameters": dict(result.parameters),
        "seed": result.seed,
        "version": result.version,
        "instance_sha256": instance.sha256,
        "total_latency": result.total_latency,
        "lower_bound": result.lower_bound,
    }
    if skipped:
        header["skipped"] = [
            SkippedRow(
                index=index,
                id=request.id,
                prompt_tokens=request.prompt_tokens,
                output_tokens=request.output_tokens,
                release=request.release,
            )
            for index, request in skipped
        ]
    encoder = msgspec.json.Encoder(enc_hook=_plain)
    top = encoder.encode(header)
    chunks = _planned(result, [index for index, _ in skipped])
    if kind_by_name(path) == ".jsonl":
        write_whole(path, _as_lines(top, chunks, encoder))
    else:
        write_whole(path, _as_document(top, chunks, encoder))


def _as_lines(
    top: bytes, chunks: Iterator[list[PlannedRow]], encoder: msgspec.json.Encoder
) -> Iterator[bytes]:
    yield top + b"\n"
    for rows in chunks:
        yield encoder.encode_lines(rows)


def _as_document(
    top: bytes, chunks: Iterator[list[PlannedRow]], encoder: msgspec.json.Encoder
) -> Iterator[bytes]:
    separator = top.removesuffix(b"}") + b',"requests":[\n'
    for rows in chunks:
        yield separator + b",\n".join(map(encoder.encode, rows))
        separator = b",\n"
    yield b"\n]}\n"


def _planned(result: Result, skipped: Sequence[int]) -> Iterator[list[PlannedRow]]:
    """Give the requests in the order of the file, some thousand at a time."""
    instance, starts = result.instance, result.schedule.starts
    n = len(instance) + len(skipped)
    index = np.delete(np.arange(n), np.array(skipped, dtype=np.int64))
    order = np.lexsort((index, starts))
    for first in range(0, len(order), ROWS):
        part = order[first : first + ROWS]
        arrays = (
            *(index, instance.prompt_tokens, instance.output_tokens, instance.release),
            *(result.schedule.workers, starts),
        )
        columns = [array[part].tolist() for array in arrays]
        names = [instance.ids[i] for i in part.tolist()]
        yield [
            PlannedRow(
                index=i, id=name, prompt_tokens=s, output_tokens=o, release=a, worker=w, start=p
            )
            for name, i, s, o, a, w, p in zip(names, *columns, strict=True)
        ]


def _plain(value: Any) -> Any:
    """Turn a number of numpy's, among the parameters, into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError
