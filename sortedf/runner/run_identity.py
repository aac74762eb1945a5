"""What a run was begun with, and whether what it is resumed with is the same."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sortedf.errors import Fault, InputError
from sortedf.instances.files import write_whole
from sortedf.instances.json_values import BadLine, decode_object, shown
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import open_source
from sortedf.runner.append_file import csv_line

SCHEMA = "sortedf.run/1"
MANIFEST, INPUTS = "manifest.json", "inputs.csv"

_COLUMNS = ["custom_id", "sha256"]
_OWN = ("schema", "plan")
"""Keys of the manifest that the folder sets itself."""


def write_manifest(folder: Path, manifest: Mapping[str, Any], plan_name: str) -> None:
    """Write what identifies a run; ``plan`` is the name of the plan's file in the folder."""
    whole = {**manifest, "schema": SCHEMA, "plan": plan_name}
    data = msgspec.json.format(msgspec.json.encode(whole, order="sorted"), indent=2)
    write_whole(folder / MANIFEST, [data, b"\n"])


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read what a run was begun with.

    Raises
    ------
    InputError
        When no run was begun in this folder, or its manifest cannot be read.
    """
    path = Path(folder)
    if not _there(path, is_folder=True):
        raise InputError([Fault(str(folder), None, "no such folder")])
    if not _there(path / MANIFEST, is_folder=False):
        text = f"no run was begun in this folder: it has no {MANIFEST}"
        raise InputError([Fault(str(folder), None, text)])
    source = open_source(path / MANIFEST)
    try:
        manifest = decode_object(source.data)
    except BadLine as error:
        raise InputError([Fault(source.name, None, str(error))]) from None
    if manifest.get("schema") != SCHEMA or not isinstance(manifest.get("plan"), str):
        text = f"schema is {shown(manifest.get('schema'))}; {SCHEMA} is expected, with its plan"
        raise InputError([Fault(source.name, None, text)])
    return manifest


def check_manifest(folder: Path, begun: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuse to go on with what is not what the run was begun with.

    Raises
    ------
    InputError
        A line for each value that differs, with both.
    """
    log = FaultLog(str(folder / MANIFEST))
    before = dict(_leaves({key: begun[key] for key in begun if key not in _OWN}))
    now = dict(_leaves(msgspec.json.decode(msgspec.json.encode(given))))
    for key in sorted(before.keys() | now.keys() - set(_OWN)):
        if before.get(key) != now.get(key):
            log.add(
                None,
                f"{key} was {_value(before, key)} when the run was begun, it is {_value(now, key)} "
                "now; resume with what it was, or begin a run in another folder",
            )
    log.close(lambda note: None)


def write_inputs(folder: Path, inputs: Mapping[str, str]) -> None:
    """Write the hash of every request."""
    write_whole(folder / INPUTS, map(csv_line, (_COLUMNS, *inputs.items())))


def check_inputs(folder: Path, inputs: Mapping[str, str]) -> None:
    """Refuse to go on with requests that are not those the run was begun with, in any order.

    Raises
    ------
    InputError
        A line for each custom_id that was changed, is new or is missing.
    """
    path = folder / INPUTS
    if not _there(path, is_folder=False) or not path.is_file():
        raise InputError([Fault(str(path), None, "no such file, or not a regular one")])
    limit = csv.field_size_limit(2**31 - 1)  # a custom_id may be of any length
    try:
        with path.open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
            before = {name: digest for name, digest in rows}  # noqa: C416 - rows may be of any length
    except (OSError, ValueError, csv.Error) as error:
        raise InputError([Fault(str(path), None, f"cannot be read: {error}")]) from None
    finally:
        csv.field_size_limit(limit)
    if header != _COLUMNS:
        raise InputError([Fault(str(path), 1, f"the header is not {','.join(_COLUMNS)}")])
    if before == inputs:
        return
    log = FaultLog(str(path))
    for name in {**before, **inputs}:
        if before.get(name) != inputs.get(name):
            kind = "is new in" if name not in before else "was changed in"
            kind = "is missing from" if name not in inputs else kind
            log.add(
                None,
                f"custom_id {shown(name)} {kind} the input since the run was begun; "
                "resume with the input that it was begun with, or begin a run in another folder",
            )
    log.close(lambda note: None)


def _there(path: Path, *, is_folder: bool) -> bool:
    try:
        return path.is_dir() if is_folder else path.exists()
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}"
        raise InputError([Fault(str(path), None, text)]) from None


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and (value or not name):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    else:
        yield name, value


def _value(values: Mapping[str, Any], key: str) -> str:
    return msgspec.json.encode(values[key]).decode() if key in values else "not given"
