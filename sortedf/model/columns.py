"""Columns of an instance: integers and ids, checked one by one and made read-only."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import InvalidRequestError

IntArray: TypeAlias = npt.NDArray[np.int64]

MAX_TOKENS = 2**40
"""Most tokens (prompt and output of all requests together) that an instance may hold."""


def integers(values: npt.ArrayLike, name: str, least: int) -> IntArray:
    """Copy into a read-only int64 array; refuse what is not an integer >= ``least``."""
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"{name} is not a sequence of integers: {error}") from None
    if array.ndim != 1:
        raise InvalidRequestError(f"{name} has {array.ndim} dimensions; it must have one")
    if array.dtype.kind not in "iu":
        array = _from_objects(array, name)
    if array.dtype.kind == "u" and array.size and array.max() > np.uint64(MAX_TOKENS):
        index = int(array.argmax())
        raise InvalidRequestError(f"{name} of request {index} is {array[index]}, over 2^40", index)
    result = array.astype(np.int64)
    if result.size:
        for index, wrong, rule in (
            (int(result.argmin()), result.min() < least, f"below {least}"),
            (int(result.argmax()), result.max() > MAX_TOKENS, "over 2^40"),
        ):
            if wrong:
                raise InvalidRequestError(
                    f"{name} of request {index} is {result[index]}, {rule}", index
                )
    return frozen(result)


def _from_objects(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Integers out of an array of Python objects or floats, each checked on its own."""
    result = np.empty(len(array), np.int64)
    for index, value in enumerate(array.tolist()):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not -MAX_TOKENS <= value <= MAX_TOKENS:
            what = "outside the range up to 2^40" if whole else "not an integer"
            raise InvalidRequestError(f"{name} of request {index} is {value!r}, {what}", index)
        result[index] = value
    return result


def check_ids(ids: tuple[str, ...], n: int) -> None:
    """Refuse ids that are not n distinct, non-empty names that UTF-8 can hold."""
    if len(ids) != n:
        raise InvalidRequestError(f"ids has length {len(ids)}, prompt_tokens {n}")
    if len(set(ids)) < n:
        seen: dict[str, int] = {}
        for index, name in enumerate(ids):
            if (first := seen.setdefault(name, index)) != index:
                raise InvalidRequestError(
                    f"request {index} repeats the id {name!r} of request {first}", index
                )
    for index, name in enumerate(ids):
        if not isinstance(name, str) or not name:
            raise InvalidRequestError(f"id of request {index} is {name!r}, not a name", index)
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise InvalidRequestError(
                    f"id of request {index} is {name!r}, which UTF-8 cannot hold", index
                ) from None


def frozen(array: npt.NDArray[Any]) -> IntArray:
    """Make an array read-only, in place."""
    array.setflags(write=False)
    return array
