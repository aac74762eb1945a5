"""Certificate files: a lower bound with the prices that prove it, for anyone to check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sortedf.errors import Fault, InputError
from sortedf.instances.files import write_whole
from sortedf.instances.json_text import JSON_ERRORS, json_fault, schema_of
from sortedf.instances.source import Source, open_source
from sortedf.instances.write import ROWS
from sortedf.model import Instance
from sortedf.model.result import Proof

SCHEMA = "sortedf.bound/1"

LISTS = ("prices", "price_lists", "tree")
PROOFS = ({"prices"}, {"price_lists", "tree"}, {"price_lists", "worker_lists"})
"""Keys whose items each get a line."""

_AGAIN = "write it anew with sortedf bound --certificate"

_Positive = Annotated[int, Meta(ge=1)]


class _Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The types of a certificate; what they mean is for :mod:`sortedf.certificate` to judge."""

    schema: str
    kv_tokens: _Positive
    workers: list[_Positive] | UnsetType = UNSET
    block_size: _Positive | UnsetType = UNSET
    instance_sha256: str
    skipped: list[int] | UnsetType = UNSET
    denominator: _Positive
    prices: list[list[int]] | UnsetType = UNSET
    price_lists: list[list[list[int]]] | UnsetType = UNSET
    tree: list[int | list[int]] | UnsetType = UNSET
    worker_lists: list[int] | UnsetType = UNSET
    bound: str


def new_certificate(
    instance: Instance, proof: Proof, *, block_size: int = 1, skipped: Sequence[int] = ()
) -> dict[str, Any]:
    """Put a certificate together, as plain data; the form is that of ``docs/formats.md``.

    Parameters
    ----------
    instance
        The backlog, its lengths as they are, also where ``proof`` is of one in blocks.
    proof
        What proves the bound.
    block_size
        The block size for which it does.
    skipped
        Positions in the backlog of the requests that were left out of ``instance``.
    """
    value = proof.value
    document: dict[str, Any] = {"schema": SCHEMA, "kv_tokens": instance.kv_tokens}
    if len(instance.workers) > 1:
        document["workers"] = instance.budgets.tolist()
    if block_size != 1:
        document["block_size"] = block_size
    document["instance_sha256"] = instance.sha256
    if skipped:
        document["skipped"] = list(skipped)
    return document | proof.to_dict() | {"bound": f"{value.numerator}/{value.denominator}"}


def is_certificate(source: Source) -> bool:
    """Whether a file is a certificate, of any version, by its schema."""
    return (schema_of(source) or "").startswith("sortedf.bound/")


def write_certificate(certificate: dict[str, Any], path: str | Path) -> None:
    """Write a certificate as JSON; a piece, a price list or an entry of the tree has a line.

    Packed when the name ends in ``.gz``; ``-`` is standard output. Same certificate, same bytes.
    O(size of the file).

    Raises
    ------
    InputError
        When the file cannot be written.
    """
    write_whole(path, _chunks(certificate))


def _chunks(certificate: dict[str, Any]) -> Iterator[bytes]:
    encode = msgspec.json.encode
    separator = b"{"
    for key, value in certificate.items():
        yield separator + encode(key) + b":"
        if key in LISTS:
            yield from _lines(value)
        else:
            yield encode(value)
        separator = b","
    yield b"}\n"


def _lines(items: Sequence[Any]) -> Iterator[bytes]:
    """Encode a list, a line each item, some thousand at a time."""
    separator = b"[\n"
    for first in range(0, len(items), ROWS):
        yield separator + b",\n".join(map(msgspec.json.encode, items[first : first + ROWS]))
        separator = b",\n"
    yield b"\n]" if items else b"[]"


def read_certificate(path: str | Path | Source) -> dict[str, Any]:
    """Read a certificate as plain data, every value of the right type.

    Whether it proves anything is for :func:`sortedf.certificate.check` to say. O(size of the file).

    Raises
    ------
    InputError
        For what is not a certificate: other JSON, a key missing or unknown, a number that is not a
        whole one.
    """
    source = path if isinstance(path, Source) else open_source(path)
    schema = schema_of(source)
    if schema != SCHEMA:
        what = f"its schema is {schema}" if schema else "it names no schema"
        raise _fault(source, f"not a {SCHEMA} document: {what}")
    try:
        document = msgspec.json.decode(source.data, type=_Document)
    except JSON_ERRORS as error:
        raise _fault(source, json_fault(source.data, error)) from None
    certificate = msgspec.structs.asdict(document)
    certificate = {key: value for key, value in certificate.items() if value is not UNSET}
    if certificate.keys() & {*LISTS, "worker_lists"} not in PROOFS:
        proofs = "prices, or price_lists and tree, or price_lists and worker_lists"
        raise _fault(source, f"it has to have either {proofs}")
    return certificate


def _fault(source: Source, message: str) -> InputError:
    return InputError([Fault(source.name, None, f"{message}; {_AGAIN}")])
