"""A 3-Partition problem in a file: ``{"numbers": [...], "target": B}``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sortedf.errors import Fault, InputError
from sortedf.instances.json_values import BadLine, decode_object, shown
from sortedf.instances.source import open_source
from sortedf.proofs_check.three_partition import ThreePartition

FORM = '{"numbers": [...], "target": B}'


def read_three_partition(path: str | Path) -> ThreePartition:
    """Read a problem from a JSON file, plain or gzipped, or standard input for ``-``.

    Raises
    ------
    InputError
        Naming the file, for what is no JSON of this form or no 3-Partition problem.
    """
    source = open_source(path)
    try:
        numbers, target = _values(decode_object(source.data))
    except BadLine as error:
        raise InputError([Fault(source.name, None, f"{error}; write {FORM}")]) from None
    try:
        return ThreePartition(numbers, target)
    except InputError as error:
        faults = [fault._replace(source=source.name) for fault in error.faults]
        raise InputError(faults) from None


def _values(document: dict[str, Any]) -> tuple[list[Any], Any]:
    for key in ("numbers", "target"):
        if key not in document:
            raise BadLine(f"the key {key!r} is missing")
    if unknown := sorted(document.keys() - {"numbers", "target"}):
        raise BadLine(f"the key {shown(unknown[0])} is unknown")
    if not isinstance(document["numbers"], list):
        raise BadLine(f"the numbers are {shown(document['numbers'])}, not a list")
    return document["numbers"], document["target"]
