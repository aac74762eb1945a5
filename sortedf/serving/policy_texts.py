"""Policies as one writes them: ``fcfs,srpt:eviction=swap:watermark=0.03``, or ``all``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from sortedf.errors import OptionError
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import POLICIES, policy
from sortedf.serving.side import EngineSide

_YES_NO = {"yes": True, "true": True, "no": False, "false": False}

SIDE = {field.name: field.default for field in fields(EngineSide)}
"""What the engine's side of a policy is where the policy does not say: names and values."""


@dataclass(frozen=True)
class Named:
    """A policy as it was asked for; ``text`` tells it from the others, ``options`` made it.

    ``own`` are those of the options that its own text names.
    """

    text: str
    policy: OnlinePolicy
    options: Mapping[str, Any]
    own: Sequence[str] = ()


def read_policies(text: str, options: Mapping[str, Any] | None = None) -> list[Named]:
    """Read policies with commas between them, each a name and, after colons, its options.

    Parameters
    ----------
    text
        ``NAME[:OPTION=VALUE]...,...``, or ``all``; with options, all that take them.
    options
        Of the engine's side, for all of them. What a policy's own text says goes before it.

    Raises
    ------
    OptionError
        For a name, an option or a value that there is not, or a policy named twice.
    """
    texts = [part.strip() for part in text.split(",")]
    if texts == ["all"]:
        # What all refuse is refused with the first's words.
        texts = [name for name in POLICIES if _takes(name, options or {})] or list(POLICIES)
    if not all(texts):
        raise OptionError(f"a policy is missing in {text!r}; there are {', '.join(POLICIES)}")
    found = [_read_one(part, dict(options or {})) for part in texts]
    if len({named.text for named in found}) < len(found):
        raise OptionError(f"a policy is named twice in {text!r}")
    return found


def _takes(name: str, options: Mapping[str, Any]) -> bool:
    """Say whether a policy takes these options: who chooses its side itself takes none."""
    try:
        policy(name, **options)
    except OptionError:
        return False
    return True


def _read_one(text: str, options: dict[str, Any]) -> Named:
    name, *parts = text.split(":")
    made = policy(name)  # an unknown name is refused before its options are looked at
    defaults = {
        **SIDE,
        **{key: one.default for key, one in inspect.signature(POLICIES[name]).parameters.items()},
    }
    own: dict[str, Any] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{text}: {part!r} is no option; write OPTION=VALUE")
        if key in own:
            raise OptionError(f"{text}: {key} is there twice")
        if key not in defaults:
            policy(name, **{key: value})  # says what there is
        own[key] = _value(text, key, value, defaults[key])
    try:
        made = policy(name, **(options | own))
    except OptionError as error:
        raise OptionError(f"{text}: {error}") from None
    return Named(text, made, options | own, tuple(own))


def _value(text: str, key: str, value: str, default: Any) -> Any:
    """Read a value of the kind of its default."""
    kind: Any = type(default)
    if issubclass(kind, StrEnum):
        return value
    if default is None:
        raise OptionError(f"{text}: {key} cannot be written in a text; make the policy in Python")
    try:
        return _YES_NO[value.lower()] if kind is bool else kind(value)
    except (KeyError, ValueError):
        what = {bool: "yes or no", int: "a whole number"}.get(kind, "a number")
        raise OptionError(f"{text}: {key} is {value!r}; it must be {what}") from None
