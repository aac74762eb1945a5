"""The time series of a run: who runs, who waits, how full the KV cache is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortedf.engine.csv_numbers import Row, read_numbers
from sortedf.engine.unfinished import open_records

FloatArray = npt.NDArray[np.float64]

COLUMNS = ("t", "running", "waiting")
KV_USE = "kv_cache_pct"

LONGEST_RUN = 30 * 24 * 3600.0
"""Seconds; what is longer is no run but a mixture of clocks."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """State of the engine at the end of each tick; arrays of shape (ticks,).

    Parameters
    ----------
    t
        Seconds since the engine's logger began, some time before the first request.
    running, waiting
        Requests.
    kv_use
        Share of the KV cache in use, in [0, 1]; ``None`` where it was not recorded (all zero).
    """

    t: FloatArray
    running: FloatArray
    waiting: FloatArray
    kv_use: FloatArray | None


def read_series(path: str | Path) -> Series | None:
    """Read ``timeseries.csv``; columns are found by name, others are ignored.

    ``None`` for a file without a row.

    Raises
    ------
    InputError
        For a column that is missing, a value that is no number of 0 or more, times that do not
        rise, or a share above 100 %, each with its line.
    """
    source = open_records(path)
    if not source.data.strip():
        return None
    last = -1.0

    def check(row: Row) -> str | None:
        nonlocal last
        before, last = last, row["t"]
        if last <= before:
            return f"t is {last:g} after {before:g}; times must rise"
        if last > LONGEST_RUN:
            return f"t is {last:g}; seconds since the engine's logger began are expected"
        if row.get(KV_USE, 0.0) > 100:
            return f"{KV_USE} is {row[KV_USE]:g}; it can be 100 at most"
        return None

    table = read_numbers(source, COLUMNS, [KV_USE], check)
    if not len(table["t"]):
        return None
    use = table.get(KV_USE)
    return Series(
        t=table["t"],
        running=table["running"],
        waiting=table["waiting"],
        kv_use=use / 100 if use is not None and use.any() else None,
    )
