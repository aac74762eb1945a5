"""What a body may say of sampling: each key, and its range as vLLM has it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sortedf.instances.json_values import BadLine, flag, shown, whole_number

INT32, INT64 = 2**31 - 1, 2**63 - 1

Check: TypeAlias = Callable[[Any, str], Any]
"""Gives a value as it is to be, from it and its name; a BadLine where it is refused."""


def number(least: float, most: float, *, above: bool = False, whole: bool = False) -> Check:
    """Make a check of a number in ``least .. most``, or above ``least``."""

    def check(value: Any, name: str) -> float:
        kind = int if whole else int | float
        if isinstance(value, bool) or not isinstance(value, kind):
            raise BadLine(f"{name} is {shown(value)}, not a {'whole ' * whole}number")
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if not math.isfinite(real) or not least <= real <= most or (above and real == least):
            edge = "above" if above else "at least"
            up_to = f" and at most {most:g}" if most < INT32 else ""
            raise BadLine(f"{name} is {shown(value)}; it must be {edge} {least:g}{up_to}")
        return value if whole else real

    return check


def switch(value: Any, name: str) -> bool:
    """Check a value that is true or false."""
    return flag({name: value}, name, False)


def texts(value: Any, name: str) -> list[str]:
    """Check a text or a list of texts, none of them empty."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadLine(f"{name} is {shown(value)}, not a text or a list of texts")
    if not all(texts):
        raise BadLine(f"{name} has an empty text")
    return texts


def token_ids(value: Any, name: str) -> list[int]:
    """Check a list of token ids, which may be empty."""
    if not isinstance(value, list):
        raise BadLine(f"{name} is {shown(value)}, not a list of token ids")
    return [whole_number(token, f"{name}[{k}]", 0, INT32) for k, token in enumerate(value)]


def some_token_ids(value: Any, name: str) -> list[int]:
    """Check a list of at least one token id."""
    if not (tokens := token_ids(value, name)):
        raise BadLine(f"{name} is an empty list; it would allow no token at all")
    return tokens


def bias(value: Any, name: str) -> dict[int, float]:
    """Check a bias by token id; beyond 100 either way it is cut, as by vLLM."""
    if not isinstance(value, dict):
        raise BadLine(f"{name} is {shown(value)}, not an object of token ids and numbers")
    bias = {}
    for key, weight in value.items():
        if not key.isascii() or not key.isdigit() or len(key) > 10 or int(key) > INT32:
            raise BadLine(f"{name} has the key {shown(key)}, which is no token id")
        real = number(-math.inf, math.inf)(weight, f"{name}[{key}]")
        bias[int(key)] = max(-100.0, min(100.0, real))
    return bias


SAMPLED: Mapping[str, Check] = {
    "temperature": number(0, 2),
    "top_p": number(0, 1, above=True),
    "top_k": number(-1, INT32, whole=True),
    "min_p": number(0, 1),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "repetition_penalty": number(0, math.inf, above=True),
    "seed": lambda value, name: whole_number(value, name, -(2**63), INT64),
    "stop": texts,
    "stop_token_ids": token_ids,
    "bad_words": texts,
    "allowed_token_ids": some_token_ids,
    "logit_bias": bias,
    "min_tokens": lambda value, name: whole_number(value, name, 0),
    "ignore_eos": switch,
    "include_stop_str_in_output": switch,
    "skip_special_tokens": switch,
    "spaces_between_special_tokens": switch,
}
"""What says how to sample, and how each is checked."""
