"""What the body of a batch line says of the form of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sortedf.instances.json_values import BadLine, shown

_CONSTRAINTS: dict[str, type | tuple[type, ...]] = {
    "json": (str, dict),
    "regex": str,
    "choice": list,
    "grammar": str,
    "json_object": bool,
    "structural_tag": str,
}
_CONSTRAINT_SETTINGS: dict[str, type | tuple[type, ...]] = {
    "disable_any_whitespace": bool,
    "disable_additional_properties": bool,
    "whitespace_pattern": str,
}


def structured_outputs(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read ``structured_outputs`` and ``response_format``.

    Returns
    -------
    dict or None
        Keyword arguments of vLLM's ``StructuredOutputsParams``; ``None`` for any answer.

    Raises
    ------
    BadLine
        A key or type that vLLM does not know, or more than one constraint.
    """
    given = body.get("structured_outputs")
    found: dict[str, Any] = {}
    if given is not None:
        if not isinstance(given, dict):
            raise BadLine(f"structured_outputs is {shown(given)}, not an object")
        kinds = _CONSTRAINTS | _CONSTRAINT_SETTINGS
        for name, value in given.items():
            if name not in kinds:
                raise BadLine(f"structured_outputs has no key {shown(name)}")
            if value is None:
                continue
            if not isinstance(value, kinds[name]):
                raise BadLine(f"structured_outputs.{name} is {shown(value)}")
            found[name] = value
        choice = found.get("choice", [""])
        if not choice or not all(isinstance(text, str) for text in choice):
            raise BadLine("structured_outputs.choice must be a list of texts, at least one")
    found |= _format(body.get("response_format"))
    constraints = [name for name in found if name in _CONSTRAINTS]
    if len(constraints) > 1:
        raise BadLine(f"structured outputs by {' and '.join(constraints)}; one is taken")
    if given is not None and not constraints:
        raise BadLine(f"structured_outputs has none of {', '.join(_CONSTRAINTS)}")
    return found or None


def _format(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "text":
        return {}
    if kind == "json_object":
        return {"json_object": True}
    if kind == "json_schema":
        inner = given.get("json_schema")
        schema = inner.get("schema") if isinstance(inner, dict) else None
        if not isinstance(schema, dict):
            raise BadLine(f"response_format.json_schema.schema is {shown(schema)}, not an object")
        return {"json": schema}
    if kind == "structural_tag":
        return {"structural_tag": json.dumps(given)}
    what = shown(kind) if isinstance(given, dict) else shown(given)
    raise BadLine(
        f"response_format is {what}; its type is text, json_object, json_schema or structural_tag"
    )
