"""The values that a policy's own parameters can have."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from sortedf.errors import OptionError, whole_number
from sortedf.serving.horizon import SELECTORS

_MOST = 2**40

_WHOLE = {
    "quantum": (1, _MOST),
    "guard": (1, _MOST),
    "window": (1, 10**7),
    "every": (1, _MOST),
    "lookahead": (1, _MOST),
}
"""Least and most of whole numbers."""

_NUMBERS = {
    "gamma": (0.0, inf),
    "weight": (0.0, 1e9),
    "patience": (0.0, inf),
    "share": (0.0, inf),
    "exempt": (0.0, 1.0),
    "smoothing": (0.0, 1.0),
    "least_gamma": (1e-9, 1e9),
    "most_gamma": (1e-9, 1e9),
    "period": (0.0, 1e12),
    "hysteresis": (0.0, 1e12),
    "swap_seconds": (0.0, 1e6),
}
"""The same of numbers."""


def check_ranges(options: Mapping[str, Any]) -> None:
    """Refuse a value that is out of its range.

    Raises
    ------
    OptionError
        Naming the parameter, the value and the range.
    """
    for name, value in options.items():
        if name in _WHOLE:
            whole_number(name, value, *_WHOLE[name])
        elif name in _NUMBERS:
            least, most = _NUMBERS[name]
            if not _is_number(value) or not least <= value <= most:
                above = f"to {most:g}" if most < inf else "upward"
                raise OptionError(
                    f"{name} is {value!r}; it must be a number from {least:g} {above}"
                )
        elif name in ("displaces", "future", "reserve") and not isinstance(value, bool):
            raise OptionError(f"{name} is {value!r}; it must be true or false")
        elif name == "watermark" and not (_is_number(value) and 0 <= value < 1):
            raise OptionError(f"watermark is {value!r}; it must be in [0, 1)")
        elif name == "select" and value not in SELECTORS:
            raise OptionError(f"select is {value!r}; it must be one of {', '.join(SELECTORS)}")
    least, most = options.get("least_gamma", 0.0), options.get("most_gamma", inf)
    if least > most:
        raise OptionError(f"least_gamma ({least:g}) is above most_gamma ({most:g})")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
