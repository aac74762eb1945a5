"""Tables of numbers in CSV files that an engine left: its time series, its log of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.instances.csv_rows import bad_cell, csv_rows
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source

FloatArray: TypeAlias = npt.NDArray[np.float64]
Row: TypeAlias = dict[str, float]

MOST = 1e30
"""No count or number of seconds is larger, nor is a square of one."""


def read_numbers(
    source: Source,
    columns: Sequence[str],
    optional: Sequence[str] = (),
    check: Callable[[Row], str | None] = lambda row: None,
) -> dict[str, FloatArray]:
    """Read columns of numbers of 0 or more, found by name; others are ignored.

    A last line that is torn, without its end and some of its cells, is left out: who recorded it as
    it went was killed.

    Parameters
    ----------
    source
        The file, opened by :func:`sortedf.engine.unfinished.open_records`.
    columns, optional
        Those that must be there, and those that may.
    check
        Says what is wrong with a row, if anything.

    Returns
    -------
    table : dict
        Each column that is there, shape (rows,).

    Raises
    ------
    InputError
        For a column that is missing or named twice, a row of another length, a value that is no
        number of 0 or more, or what ``check`` says, each with its line.
    """
    log = FaultLog(source.name)
    rows = csv_rows(source, log)
    line, header = next(rows, (None, []))
    if fault := bad_cell(header):
        raise log.stop(line, fault)
    names = [name.strip() for name in header]
    if missing := [name for name in columns if name not in names]:
        raise log.stop(
            line, f"no column {', '.join(missing)}; the header names {', '.join(columns)}"
        )
    wanted = [name for name in (*columns, *optional) if name in names]
    if twice := [name for name in wanted if names.count(name) > 1]:
        raise log.stop(line, f"column {', '.join(twice)} stands there twice")
    body = list(rows)
    if body and len(body[-1][1]) < len(names) and not source.data.endswith(b"\n"):
        body.pop()
    values: list[list[float]] = []
    for line, row in body:
        if len(row) != len(names):
            fewer = "few" if len(row) < len(names) else "many"
            log.add(line, f"too {fewer} cells: {len(row)}, the header has {len(names)}")
            continue
        read = {name: _number(row[names.index(name)]) for name in wanted}
        if bad := [name for name, value in read.items() if math.isnan(value)]:
            log.add(line, f"{', '.join(bad)}: a number from 0 to {MOST:g} is expected")
        elif fault := check(read):
            log.add(line, fault)
        else:
            values.append(list(read.values()))
    log.close(lambda note: None)
    table = np.array(values).reshape(-1, len(wanted))
    return {name: table[:, k] for k, name in enumerate(wanted)}


def _number(cell: str) -> float:
    """Give a number in range, nan for all else."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if 0 <= value <= MOST else math.nan
