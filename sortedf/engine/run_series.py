"""The time series of a run: who runs, who waits, how full the KV cache is."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortedf.engine.unfinished import open_records
from sortedf.instances.reading import FaultLog

FloatArray = npt.NDArray[np.float64]

COLUMNS = ("t", "running", "waiting")


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
        For a column that is missing, a value that is no number of 0 or more, or times that do not
        rise, each with its line.
    """
    source = open_records(path)
    lines = list(source.lines())
    log = FaultLog(source.name)
    if not lines:
        return None
    header, *rows = csv.reader(io.StringIO("\n".join(text.decode() for _, text in lines)))
    names = [name.strip() for name in header]
    if missing := [name for name in COLUMNS if name not in names]:
        raise log.stop(lines[0][0], f"no column {', '.join(missing)}; the header names the columns")
    wanted = [*COLUMNS, *(["kv_cache_pct"] if "kv_cache_pct" in names else [])]
    values: list[list[float]] = []
    for (line, _), row in zip(lines[1:], rows, strict=True):
        try:
            read = [_number(row[names.index(name)]) for name in wanted]
        except (IndexError, ValueError):
            log.add(line, f"{', '.join(wanted)} must be numbers of 0 or more")
            continue
        if values and read[0] <= values[-1][0]:
            log.add(line, f"t is {read[0]:g} after {values[-1][0]:g}; times must rise")
            continue
        values.append(read)
    log.close(lambda note: None)
    if not values:
        return None
    t, running, waiting, *use = np.array(values).T
    recorded = bool(use) and bool(use[0].any())
    return Series(t=t, running=running, waiting=waiting, kv_use=use[0] / 100 if recorded else None)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value
