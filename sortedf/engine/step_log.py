"""A log of steps: what each was made of, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sortedf.engine.csv_numbers import Row, read_numbers
from sortedf.engine.step_time import LONGEST_STEP
from sortedf.engine.unfinished import open_records
from sortedf.errors import Fault, InputError
from sortedf.instances.files import write_whole
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
    table = read_numbers(open_records(path), ("seconds", *COLUMNS), check=_check)
    if not len(table["seconds"]):
        raise InputError([Fault(str(path), None, "holds no step")])
    ones = np.ones(len(table["seconds"]))
    work = np.column_stack([ones, *(table[name] for name in COLUMNS)])
    return StepLog(work=work, seconds=table["seconds"], source=str(path))


def _check(row: Row) -> str | None:
    if row["seconds"] == 0:
        return "seconds is 0; a step cannot take no time"
    if row["seconds"] > LONGEST_STEP:
        return f"seconds is {row['seconds']:g}; a step of over {LONGEST_STEP:,.0f} s is none"
    if row["prefill_tokens"] + row["decode_tokens"] == 0:
        return "no prefill and no decode tokens; a step computes something"
    return None
