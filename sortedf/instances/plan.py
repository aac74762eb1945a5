"""Plan files read: a schedule with ids, provenance and prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from sortedf.errors import Fault, InputError, InvalidRequestError
from sortedf.instances.json_text import JSON_ERRORS, json_fault, schema_of
from sortedf.instances.plan_schema import SCHEMA, Document, Header, PlannedRow
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source, open_source
from sortedf.model import Instance, Request
from sortedf.model.instance import IntArray
from sortedf.model.workers import Worker, checked_workers


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
        header = msgspec.json.decode(text, type=Header if in_lines else Document)
    except JSON_ERRORS as error:
        fault = Fault(source.name, line if in_lines else None, json_fault(text, error))
        raise InputError([fault]) from None
    requests = header.requests if isinstance(header, Document) else _read_lines(source, lines)
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


def _workers(header: Header, source: Source) -> tuple[Worker, ...]:
    """Take the workers of a plan; they have to be such as an instance may have."""
    named = None
    if header.workers is not None:
        named = [Worker(row.name, row.kv_tokens) for row in header.workers]
    try:
        return checked_workers(named, header.kv_tokens)
    except InvalidRequestError as error:
        raise InputError([Fault(source.name, None, str(error))]) from None


def _read_lines(source: Source, lines: Iterator[tuple[int, bytes]]) -> list[PlannedRow]:
    log = FaultLog(source.name)
    decode = msgspec.json.Decoder(PlannedRow).decode
    rows = []
    for line, text in lines:
        try:
            rows.append(decode(text))
        except JSON_ERRORS as error:
            log.add(line, json_fault(text, error))
    if log.total:
        raise InputError(log.faults, log.total)
    return rows
