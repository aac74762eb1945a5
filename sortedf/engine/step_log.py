"""A log of steps: what each was made of, and how long it took."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortedf.errors import Fault, InputError
from sortedf.instances.files import write_whole
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import open_source
from sortedf.kernels.step_terms import TERMS

FloatArray = npt.NDArray[np.float64]

STEPS_FILE = "steps.csv"

COLUMNS = (
    "prefill_tokens",
    "decode_tokens",
    "context",
    "prefill_work",
    "chunk_squared",
    "context_squared",
)
"""Terms of a step, in the order of :mod:`sortedf.kernels.step_terms` after its first, the step
itself."""

assert len(COLUMNS) + 1 == TERMS


@dataclass(frozen=True, kw_only=True)
class StepLog:
    """Steps in the order in which they ran.

    Parameters
    ----------
    work
        Shape (steps, TERMS): see :mod:`sortedf.kernels.step_terms`.
    seconds
        Shape (steps,).
    source
        Where they come from.
    """

    work: FloatArray
    seconds: FloatArray
    source: str


def write_step_log(log: StepLog, path: str | Path) -> None:
    """Write a step log as CSV: ``seconds`` and the terms, a step a line."""

    def lines() -> Iterator[bytes]:
        yield (",".join(("seconds", *COLUMNS)) + "\n").encode()
        for seconds, row in zip(log.seconds.tolist(), log.work.tolist(), strict=True):
            yield (",".join([repr(seconds), *(f"{term:.17g}" for term in row[1:])]) + "\n").encode()

    write_whole(path, lines())


def read_step_log(path: str | Path) -> StepLog:
    """Read a step log; columns are found by name, others are ignored.

    A last line that is torn, without an end and with too few columns, is left out: a process that
    recorded as it went was killed.

    Raises
    ------
    InputError
        For missing columns; for a value that is no number of 0 or more, a step that takes no time
        or is made of nothing, each with its line.
    """
    source = open_source(path)
    lines = list(source.lines())
    log = FaultLog(source.name)
    wanted = ("seconds", *COLUMNS)
    if not lines:
        raise InputError([Fault(source.name, None, f"is empty; columns {', '.join(wanted)}")])
    header, *rows = csv.reader(io.StringIO("\n".join(text.decode() for _, text in lines)))
    names = [name.strip() for name in header]
    if rows and len(rows[-1]) < len(names) and not source.data.endswith(b"\n"):
        rows.pop()
        lines.pop()
    if missing := [name for name in wanted if name not in names]:
        raise log.stop(lines[0][0], f"no column {', '.join(missing)}; the header names the columns")
    places = [names.index(name) for name in wanted]
    values: list[list[float]] = []
    for (line, _), row in zip(lines[1:], rows, strict=True):
        try:
            read = [float(row[place]) for place in places]
        except (IndexError, ValueError):
            log.add(line, f"{', '.join(wanted)} must be numbers")
            continue
        if not all(math.isfinite(value) and value >= 0 for value in read):
            log.add(line, "a negative or infinite number")
        elif read[0] == 0:
            log.add(line, "seconds is 0; a step cannot take no time")
        elif read[1] + read[2] == 0:
            log.add(line, "no prefill and no decode tokens; a step computes something")
        else:
            values.append(read)
    log.close(lambda note: None)
    if not values:
        raise InputError([Fault(source.name, None, "holds no step")])
    table = np.array(values)
    work = np.column_stack([np.ones(len(table)), table[:, 1:]])
    return StepLog(work=work, seconds=table[:, 0], source=str(path))
