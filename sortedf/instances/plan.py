"""Plan files: a schedule with ids, provenance and prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from sortedf.errors import Fault, InputError, InvalidRequestError
from sortedf.instances.files import kind_by_name, write_whole
from sortedf.instances.json_text import JSON_ERRORS, json_fault, schema_of
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source, open_source
from sortedf.instances.write import ROWS
from sortedf.model import Instance, Request, Result
from sortedf.model.instance import MAX_TOKENS, OVERFLOW_BOUND, IntArray
from sortedf.model.workers import Worker, checked_workers

SCHEMA = "sortedf.plan/1"

_Index = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_Name = Annotated[str, Meta(min_length=1)]
_Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
_Step = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_Large = Annotated[int, Meta(ge=1, lt=OVERFLOW_BOUND)]


class _Skipped(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    index: _Index
    id: _Name
    prompt_tokens: _Tokens
    output_tokens: _Tokens
    release: _Step = 0


class _Planned(_Skipped, kw_only=True, omit_defaults=True, gc=False):
    worker: _Index = 0
    start: Any


class _Worker(msgspec.Struct, kw_only=True):
    name: _Name
    kv_tokens: _Large


class _Header(msgspec.Struct, kw_only=True):
    kv_tokens: _Large
    workers: list[_Worker] | None = None
    block_size: _Large = 1
    solver: str
    parameters: dict[str, Any] = {}
    seed: int = 0
    version: str = ""
    instance_sha256: str
    total_latency: Any
    lower_bound: int | None = None
    skipped: list[_Skipped] = []


class _Document(_Header, kw_only=True):
    requests: list[_Planned]


class _Parts(msgspec.Struct):
    requests: msgspec.Raw | None = None


@dataclass(frozen=True)
class Plan:
    """A plan as its file tells it; nothing in it is believed yet.

    The columns have one entry for each request of the file, in its order (by start). ``starts`` and
    ``total_latency`` are what the file holds, whatever it is: to judge them is the verifier's work.

    Parameters
    ----------
    source
        What messages call the file.
    kv_tokens, block_size
        The KV budget in tokens, of several workers the largest, and the tokens a KV block for
        which the plan is meant to be safe.
    solver, parameters, seed, version
        What made the plan.
    instance_sha256
        Content hash of the requests that were planned, in the order of the backlog.
    total_latency, lower_bound
        The recorded objective and proven bound (steps); no bound is ``None``.
    index
        Position of each request in the backlog (tokens, steps and ids beside it).
    workers, on_worker
        The workers where there are several, with the names and budgets of the file, else one; and
        the position among them of the one that each request runs on.
    skipped
        ``(position, request)`` of those left out because they are larger than the budget.
    """

    source: str
    kv_tokens: int
    block_size: int
    solver: str
    parameters: Mapping[str, Any]
    seed: int
    version: str
    instance_sha256: str
    total_latency: Any
    lower_bound: int | None
    index: Sequence[int]
    ids: Sequence[str]
    prompt_tokens: Sequence[int]
    output_tokens: Sequence[int]
    release: Sequence[int]
    starts: Sequence[Any]
    on_worker: Sequence[int]
    workers: Sequence[Worker]
    skipped: Sequence[tuple[int, Request]] = ()

    def instance(self) -> Instance:
        """Rebuild the instance from the plan alone, in the order of the backlog.

        Of requests with the same index the first counts; see :meth:`positions` and :meth:`gaps`.

        Raises
        ------
        InputError
            When the requests are none that an instance may hold.
        """
        _, rows = np.unique(self._indices(), return_index=True)
        columns = (self.prompt_tokens, self.output_tokens, self.release)
        prompt, output, release = (np.array(column, np.int64)[rows] for column in columns)
        ids = [self.ids[row] for row in rows.tolist()]
        try:
            return Instance(
                prompt, output, self.kv_tokens, release=release, ids=ids, workers=self.workers
            )
        except InvalidRequestError as error:
            raise InputError([Fault(self.source, None, str(error))]) from None

    def check_one_worker(self, what: str) -> None:
        """Refuse a plan for several workers, as an :class:`InputError`, where one is meant."""
        if len(self.workers) > 1:
            text = f"a plan for {len(self.workers)} workers; {what} one engine"
            raise InputError([Fault(self.source, None, text)])

    def positions(self) -> list[int]:
        """Position in :meth:`instance` of each entry; an index that is repeated repeats it."""
        _, positions = np.unique(self._indices(), return_inverse=True)
        return list(positions.tolist())

    def gaps(self) -> list[range]:
        """Positions in the backlog, up to the last known, of requests that are not in the plan."""
        skipped = np.array([index for index, _ in self.skipped], np.int64)
        known = [-1, *np.unique(np.concatenate([self._indices(), skipped])).tolist()]
        return [range(a + 1, b) for a, b in pairwise(known) if b > a + 1]

    def _indices(self) -> IntArray:
        return np.array(self.index, np.int64)


def is_plan(source: Source) -> bool:
    """Whether a file is a plan, of any version, by its schema."""
    return (schema_of(source) or "").startswith("sortedf.plan/")


def read_plan(path: str | Path | Source) -> Plan:
    """Read a plan file of either layout, told apart by content.

    Raises
    ------
    InputError
        For what is not a plan, with the line in the layout of JSON lines. Starts and the recorded
        objective are handed on unchecked. O(size of the file).
    """
    source = path if isinstance(path, Source) else open_source(path)
    schema = schema_of(source)
    if schema != SCHEMA:
        what = f"its schema is {schema}" if schema else "it names no schema"
        raise InputError([Fault(source.name, None, f"not a {SCHEMA} document: {what}")])
    lines = source.lines()
    line, first = next(lines)
    try:
        in_lines = msgspec.json.decode(first, type=_Parts).requests is None
    except JSON_ERRORS:
        in_lines = False  # The first line of a document over several.
    text = first if in_lines else source.data
    try:
        header = msgspec.json.decode(text, type=_Header if in_lines else _Document)
    except JSON_ERRORS as error:
        fault = Fault(source.name, line if in_lines else None, json_fault(text, error))
        raise InputError([fault]) from None
    requests = header.requests if isinstance(header, _Document) else _read_lines(source, lines)
    return Plan(
        source=source.name,
        kv_tokens=header.kv_tokens,
        block_size=header.block_size,
        solver=header.solver,
        parameters=header.parameters,
        seed=header.seed,
        version=header.version,
        instance_sha256=header.instance_sha256,
        total_latency=header.total_latency,
        lower_bound=header.lower_bound,
        index=[row.index for row in requests],
        ids=[row.id for row in requests],
        prompt_tokens=[row.prompt_tokens for row in requests],
        output_tokens=[row.output_tokens for row in requests],
        release=[row.release for row in requests],
        starts=[row.start for row in requests],
        on_worker=[row.worker for row in requests],
        workers=_workers(header, source),
        skipped=tuple(
            (row.index, Request(row.id, row.prompt_tokens, row.output_tokens, row.release))
            for row in header.skipped
        ),
    )


def _workers(header: _Header, source: Source) -> tuple[Worker, ...]:
    """Take the workers of a plan; they have to be such as an instance may have."""
    named = None
    if header.workers is not None:
        named = [Worker(row.name, row.kv_tokens) for row in header.workers]
    try:
        return checked_workers(named, header.kv_tokens)
    except InvalidRequestError as error:
        raise InputError([Fault(source.name, None, str(error))]) from None


def _read_lines(source: Source, lines: Iterator[tuple[int, bytes]]) -> list[_Planned]:
    log = FaultLog(source.name)
    decode = msgspec.json.Decoder(_Planned).decode
    rows = []
    for line, text in lines:
        try:
            rows.append(decode(text))
        except JSON_ERRORS as error:
            log.add(line, json_fault(text, error))
    if log.total:
        raise InputError(log.faults, log.total)
    return rows


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
        header["workers"] = [_Worker(name=name, kv_tokens=m) for name, m in instance.workers]
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
            _Skipped(
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
    top: bytes, chunks: Iterator[list[_Planned]], encoder: msgspec.json.Encoder
) -> Iterator[bytes]:
    yield top + b"\n"
    for rows in chunks:
        yield encoder.encode_lines(rows)


def _as_document(
    top: bytes, chunks: Iterator[list[_Planned]], encoder: msgspec.json.Encoder
) -> Iterator[bytes]:
    separator = top.removesuffix(b"}") + b',"requests":[\n'
    for rows in chunks:
        yield separator + b",\n".join(map(encoder.encode, rows))
        separator = b",\n"
    yield b"\n]}\n"


def _planned(result: Result, skipped: Sequence[int]) -> Iterator[list[_Planned]]:
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
            _Planned(
                index=i, id=name, prompt_tokens=s, output_tokens=o, release=a, worker=w, start=p
            )
            for name, i, s, o, a, w, p in zip(names, *columns, strict=True)
        ]


def _plain(value: Any) -> Any:
    """Turn a number of numpy's, among the parameters, into Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError
