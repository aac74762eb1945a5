"""What a plan file holds, as structures: the one schema that is read and written."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sortedf.model.instance import MAX_TOKENS, OVERFLOW_BOUND

SCHEMA = "sortedf.plan/1"

_Index = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_Name = Annotated[str, Meta(min_length=1)]
_Tokens = Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
_Step = Annotated[int, Meta(ge=0, le=MAX_TOKENS)]
_Large = Annotated[int, Meta(ge=1, lt=OVERFLOW_BOUND)]


class SkippedRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A request that was left out."""

    index: _Index
    id: _Name
    prompt_tokens: _Tokens
    output_tokens: _Tokens
    release: _Step = 0


class PlannedRow(SkippedRow, kw_only=True, omit_defaults=True, gc=False):
    """A request of the plan; its start is judged by the verifier, whatever it is."""

    worker: _Index = 0
    start: Any


class WorkerRow(msgspec.Struct, kw_only=True):
    """A worker by name, with its budget."""

    name: _Name
    kv_tokens: _Large


class Header(msgspec.Struct, kw_only=True):
    """All but the requests: the first line in the layout of JSON lines."""

    kv_tokens: _Large
    workers: list[WorkerRow] | None = None
    block_size: _Large = 1
    solver: str
    parameters: dict[str, Any] = {}
    seed: int = 0
    version: str = ""
    instance_sha256: str
    total_latency: Any
    lower_bound: int | None = None
    skipped: list[SkippedRow] = []


class Document(Header, kw_only=True):
    """The layout of one JSON document."""

    requests: list[PlannedRow]
