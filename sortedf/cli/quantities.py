"""Token counts, byte sizes and shares as a person types them on a command line.

A text that is not exactly one of the forms below is a :class:`ValueError` of one line that says
what to write instead; nothing is guessed. All arithmetic is exact.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

TOKEN_UNITS: Mapping[str, int] = {
    "": 1,
    "k": 1000,
    "K": 1000,
    "M": 1000**2,
    "G": 1000**3,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
}
"""Suffixes of a number of tokens: powers of 1000, with an ``i`` powers of 1024."""

BYTE_UNITS: Mapping[str, int] = {
    "": 1,
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "TB": 1000**4,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "Ti": 1024**4,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "TiB": 1024**4,
}
"""Suffixes of a size: bytes, powers of 1000, with an ``i`` powers of 1024."""

MOST_TOKENS = 2**62
"""A budget stays below this, so that sums stay within 64 bits."""

_AMBIGUOUS = frozenset("kKmMgGtT")
_MOST_CHARACTERS = 32
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)")
_SHARE = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_TOKENS_HINT = "write a number of tokens like 16492, 16k (= 16000), 16Ki (= 16384) or 1.5M"
_BYTES_HINT = "write a size like 80GiB, 141GB, 512MiB or a plain number of bytes"
_SHARE_HINT = "write a decimal number above 0 and up to 1, like 0.9"


def parse_tokens(text: str) -> int:
    """Read a number of tokens: ``16492``, ``16k`` = 16,000, ``16Ki`` = 16,384, ``1.5k`` = 1,500.

    Parameters
    ----------
    text
        Digits, perhaps a decimal fraction, perhaps one of :data:`TOKEN_UNITS`; nothing else, so no
        blanks, signs, separators or exponents.

    Returns
    -------
    int
        Tokens, at least 1.

    Raises
    ------
    ValueError
        When the text is of another form or not a whole number of tokens, at least 1.
    """
    number, unit = _split(text, _TOKENS_HINT)
    if unit not in TOKEN_UNITS:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}: {_TOKENS_HINT}")
    tokens = number * TOKEN_UNITS[unit]
    if tokens.denominator != 1:
        raise ValueError(f"{text!r} is not a whole number of tokens: {_TOKENS_HINT}")
    if tokens < 1:
        raise ValueError(f"{text!r} is no tokens at all: {_TOKENS_HINT}")
    if tokens >= MOST_TOKENS:
        raise ValueError(f"{_shown(text)} is 2^62 tokens or more, beyond any KV cache")
    return int(tokens)


def parse_bytes(text: str, *, minimum: int = 1) -> int:
    """Read a size in bytes: ``80GiB``, ``141GB``, ``512MiB``, ``1073741824``.

    A bare ``80G`` is refused: tools disagree whether it is 80 GB or 80 GiB, 7 % apart.

    Parameters
    ----------
    text
        Digits, perhaps a decimal fraction, perhaps one of :data:`BYTE_UNITS`; nothing else.
    minimum
        The smallest size allowed, in bytes.

    Returns
    -------
    int
        Bytes. What a fraction leaves over a whole byte (``1.1GiB``) is cut off.

    Raises
    ------
    ValueError
        When the text is of another form, or the size is below the minimum.
    """
    number, unit = _split(text, _BYTES_HINT)
    if unit in _AMBIGUOUS:
        prefix = unit.upper()
        raise ValueError(
            f"{text!r} may be powers of 1000 or of 1024: "
            f"write {text[:-1]}{prefix}B or {text[:-1]}{prefix}iB"
        )
    if unit not in BYTE_UNITS:
        raise ValueError(f"{text!r} has the unknown unit {unit!r}: {_BYTES_HINT}")
    size = int(number * BYTE_UNITS[unit])
    if size < minimum:
        raise ValueError(f"{text!r} is {size} bytes, below the least allowed, {minimum}")
    return size


def parse_share(text: str) -> Fraction:
    """Read a share such as a memory utilisation, exactly as written: ``0.9`` is 9/10.

    Returns
    -------
    Fraction
        Above 0, at most 1.

    Raises
    ------
    ValueError
        When the text is not a plain decimal number in that range.
    """
    if len(text) > _MOST_CHARACTERS or not _SHARE.fullmatch(text):
        raise ValueError(f"{_shown(text)} is not a share: {_SHARE_HINT}")
    share = Fraction(text)
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not a share: {_SHARE_HINT}")
    return share


def _split(text: str, hint: str) -> tuple[Fraction, str]:
    """Split into number and unit; the unit is not looked at yet."""
    match = _FORM.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise ValueError(f"{_shown(text)} is not understood: {hint}")
    return Fraction(match[1]), match[2]


def _shown(text: str) -> str:
    """Quote a text for a message of one line, cut when it is long."""
    return repr(text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "...")
