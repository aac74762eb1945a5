"""Backlog files in a test: written, read, and what was said about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sortedf.errors import Fault, InputError
from sortedf.instances.read import read_backlog
from sortedf.model import Instance


def read(folder: Path, content: str | bytes, **options: Any) -> tuple[Instance, list[str]]:
    """Read the content as a backlog on 10,000 tokens; give it with the notes that were made."""
    path = folder / "backlog"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notes: list[str] = []
    return read_backlog(path, kv_tokens=10_000, note=notes.append, **options), notes


def rows(instance: Instance) -> list[tuple[int, int]]:
    """Prompt and output tokens of each request."""
    return list(zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True))


def faults(folder: Path, content: str | bytes, **options: Any) -> list[tuple[int | None, str]]:
    """Read a content that must be refused; give the line and the message of each fault."""
    with pytest.raises(InputError) as caught:
        read(folder, content, **options)
    assert all(isinstance(fault, Fault) for fault in caught.value.faults)
    assert len(str(caught.value).splitlines()) == len(caught.value.faults)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def fault_lines(folder: Path, content: str | bytes, **options: Any) -> list[int | None]:
    """Read a content that must be refused; give the lines at fault."""
    return [line for line, _ in faults(folder, content, **options)]
