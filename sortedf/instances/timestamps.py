"""Time stamps of traces, in exact integers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from sortedf.instances.json_values import BadLine

SECOND = 10**9
"""Ticks in a second: stamps are kept in nanoseconds, finer digits are cut off."""

_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?"
    r" ?(?:Z|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_NUMBER = re.compile(r"(-?\d{1,20})(?:\.(\d{0,30}))?(?:[eE]([+-]?\d{1,2}))?", re.ASCII)


class Clock:
    """Reads one column of time stamps and turns it into releases.

    Dates are ``2023-11-16 18:17:03.9799600`` with any number of decimals, ``T`` for the blank, and
    ``Z`` or an offset such as ``+00:00``; without one they are taken as UTC. Numbers count seconds
    (or milliseconds). One column holds one of the two. Neither passes through a float: seconds
    since 1970 in 64-bit floats lose the seventh decimal.

    Parameters
    ----------
    milliseconds
        Whether numbers count milliseconds, as in Mooncake's traces.
    """

    def __init__(self, milliseconds: bool = False) -> None:
        self._decimals = 6 if milliseconds else 9
        self._dates: bool | None = None

    def read(self, stamp: Any) -> int:
        """Ticks (nanoseconds) of one stamp; only differences between them mean anything.

        Raises
        ------
        BadLine
            Saying what is wrong with it, without its column's name.
        """
        # repr() of a float is the shortest text that means it: for up to 15 digits, the file's own.
        text = repr(stamp) if type(stamp) in (int, float) else stamp
        if not isinstance(text, str):
            raise BadLine("is missing or not a time stamp")
        text = text.strip()
        if match := _DATE.fullmatch(text):
            ticks = _date_ticks(match)
        elif match := _NUMBER.fullmatch(text):
            ticks = self._number_ticks(match)
        else:
            raise BadLine(f"is {text[:40]!r}, neither YYYY-MM-DD hh:mm:ss nor a number")
        is_date = match.re is _DATE
        if self._dates is None:
            self._dates = is_date
        elif self._dates != is_date:
            raise BadLine(f"is {text[:40]!r}; dates and numbers are mixed in one column")
        return ticks

    def releases(self, ticks: Sequence[int], step: int = SECOND) -> list[int]:
        """Whole steps of ``step`` ticks since the earliest stamp, rounded down."""
        first = min(ticks, default=0)
        return [(tick - first) // step for tick in ticks]

    def seconds(self, ticks: Sequence[int]) -> list[float]:
        """Seconds since the earliest stamp, with all their decimals."""
        first = min(ticks, default=0)
        return [(tick - first) / SECOND for tick in ticks]

    def _number_ticks(self, match: re.Match[str]) -> int:
        whole, fraction, exponent = match.groups()
        fraction = fraction or ""
        shift = self._decimals - len(fraction) + int(exponent or 0)
        digits, power = int(whole + fraction), int(10 ** abs(shift))
        return digits * power if shift >= 0 else digits // power


def _date_ticks(match: re.Match[str]) -> int:
    *fields, fraction, sign, zone_hours, zone_minutes = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    try:
        days = date(year, month, day).toordinal()
    except ValueError:
        days = 0
    offset = int(zone_hours or 0) * 60 + int(zone_minutes or 0)
    if not days or hour > 23 or minute > 59 or second > 59 or offset >= 24 * 60:
        raise BadLine(f"is {match.string!r}, which is no date and time")
    minutes = (days * 24 + hour) * 60 + minute - (-offset if sign == "-" else offset)
    return (minutes * 60 + second) * SECOND + int((fraction or "")[:9].ljust(9, "0"))
