"""Records of a run that was cut short: its last line may be torn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sortedf.instances.json_text import json_object
from sortedf.instances.source import Source, open_source

META = "meta.json"


def is_unfinished(meta: Mapping[str, Any]) -> bool:
    """Tell from its ``meta.json`` whether a run began and did not say that it came to its end."""
    return bool(meta.get("started_at")) and not meta.get("finished_at")


def open_records(path: str | Path) -> Source:
    """Read a file of records, a line each.

    Where ``meta.json`` beside it tells of an unfinished run, a last line without its newline is
    left out: what is there of it could pass for a shorter number.

    Raises
    ------
    InputError
        As :func:`sortedf.instances.source.open_source`, for both files.
    """
    source = open_source(path)
    meta = Path(path).parent / META
    if source.data.endswith(b"\n") or not meta.is_file():
        return source
    if not is_unfinished(json_object(open_source(meta).data) or {}):
        return source
    return replace(source, data=source.data[: source.data.rfind(b"\n") + 1])
