"""Output lines for tests of run folders, and a judge of output files that shares no code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANIFEST: dict[str, Any] = {"engine": "replay", "model": "m", "sampling": {"temperature": 0}}
PLAN = b'{"schema": "sortedf.plan/1"}\n'


def answer(name: str, content: str = "ok") -> dict[str, Any]:
    """Give the line of a request that was answered."""
    message = {"role": "assistant", "content": content}
    body = {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": f"batch_req_{name}", "custom_id": name, "response": response, "error": None}


def refused(name: str, code: int = 400) -> dict[str, Any]:
    """Give the line of a request that failed with a status code."""
    body = {"error": {"message": "too long", "code": "invalid"}}
    response = {"status_code": code, "request_id": "r", "body": body}
    return {"id": "x", "custom_id": name, "response": response, "error": None}


def died(name: str) -> dict[str, Any]:
    """Give the line of a request whose engine died."""
    error = {"code": "engine_died", "message": "engine died"}
    return {"id": "x", "custom_id": name, "response": None, "error": error}


def unread(line: int) -> dict[str, Any]:
    """Give the record of an input line that is no request."""
    error = {"code": "invalid_line", "message": f"line {line}: not an object", "line": line}
    return {"id": "x", "custom_id": None, "response": None, "error": error}


def encoded(*lines: dict[str, Any]) -> bytes:
    """Spell lines as another program would: with spaces, and not in ASCII."""
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()


def read_strictly(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines, each ended by LF, none blank, with the standard library."""
    data = path.read_bytes()
    if not data:
        return []
    assert data.endswith(b"\n")
    lines = data.decode().removesuffix("\n").split("\n")
    return [json.loads(line) for line in lines]


def names_in(path: Path) -> list[str | None]:
    """Give the custom_id of each line, in order."""
    return [line["custom_id"] for line in read_strictly(path)]


def inputs_of(*names: str) -> dict[str, str]:
    """Give a made-up hash to each custom_id."""
    return {name: f"{index:064x}" for index, name in enumerate(names)}
