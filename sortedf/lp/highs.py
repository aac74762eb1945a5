"""HiGHS: arrays in, arrays out. It writes nothing on stdout, and Ctrl-C stops it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np

from sortedf.errors import Fault, InputError, OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.program import Program

POLL = 0.05
"""Seconds between two looks at whether to stop."""


class LpStatus(StrEnum):
    """How a solver came to its end: proved, by a limit, or in numerical trouble."""

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"
    FAILED = "failed"


class Solution(NamedTuple):
    """What a solver found; the arrays are those of the program's columns and rows.

    ``bound`` is below the optimum of an integer program as far as the solver's floats can be
    trusted. Arrays that the solver does not have are zero.
    """

    status: LpStatus
    value: float
    bound: float
    columns: FloatArray
    reduced_costs: FloatArray
    row_duals: FloatArray


@contextmanager
def no_banner() -> Iterator[None]:
    """HiGHS greets on file descriptor 1, which is where data goes; let it greet nobody."""
    sys.stdout.flush()
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def new_highs(**options: Any) -> Any:
    """Start a quiet HiGHS on one thread, so that its answers are reproducible."""
    import highspy

    with no_banner():
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        highs.setOptionValue("output_flag", False)
    for name, value in {"threads": 1, **options}.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise OptionError(f"HiGHS does not take {value!r} for {name!r}")
    return highs


def run(highs: Any, stopped: Callable[[], bool] = lambda: False) -> None:
    """Run HiGHS in a thread, so that ``stopped`` and Ctrl-C are heard meanwhile.

    ``stopped`` is asked every ``POLL`` seconds. HiGHS looks up once an iteration. After Ctrl-C it
    has ended when KeyboardInterrupt is raised, unless the key is pressed again.
    """
    highs.HandleUserInterrupt = True
    ended = Event()  # Thread.join, interrupted, takes the thread for ended until Python 3.13

    def work() -> None:
        try:
            highs.run()
        finally:
            ended.set()

    Thread(target=work, daemon=True).start()
    try:
        while not ended.wait(POLL):
            if stopped():
                highs.cancelSolve()
    except BaseException:
        highs.cancelSolve()
        ended.wait()
        raise


# Presolve has nothing to gain here, takes long and does not hear Ctrl-C.
_SIMPLEX = {"solver": "simplex", "presolve": "off"}
_IPM = {"solver": "ipm", "run_crossover": "off", "presolve": "off"}

METHODS: dict[str, tuple[dict[str, Any], ...]] = {
    # The interior point method stumbles over a basis now and then; other scales lead around it.
    "ipm": (_IPM, _IPM | {"user_objective_scale": -8}, _IPM | {"user_bound_scale": 8}, _SIMPLEX),
    "simplex": (_SIMPLEX,),
}
"""Options of HiGHS, tried in turn until one brings it to its end."""


def solve_program(
    program: Program,
    method: str = "ipm",
    *,
    integer: bool = False,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Solution:
    """Solve a program.

    Parameters
    ----------
    method
        ``ipm`` (interior point, no crossover: prices from the middle of the best ones; where it
        fails, the simplex method) or ``simplex`` (a vertex).
    integer
        Take the start variables as integers; the method is HiGHS's own then.
    seconds
        Time limit.
    stopped
        Asked now and then; ends the solver.

    Raises
    ------
    OptionError
        If there is no such method, or the time limit is not above 0.
    KeyboardInterrupt
        On Ctrl-C, once HiGHS has stopped.
    """
    if method not in METHODS:
        raise OptionError(f"there is no method {method!r}; choose from {', '.join(METHODS)}")
    if seconds is not None and not seconds > 0:
        raise OptionError(f"the time limit is {seconds} seconds; it must be above 0")
    end = np.inf if seconds is None else time.monotonic() + seconds
    for settings in ({},) if integer else METHODS[method]:
        limit = max(end - time.monotonic(), 1e-3)
        found = _solve(program, integer, stopped, settings | {"time_limit": limit})
        if found.status in (LpStatus.OPTIMAL, LpStatus.STOPPED):
            break
    return found


def _solve(
    program: Program, integer: bool, stopped: Callable[[], bool], settings: dict[str, Any]
) -> Solution:
    import highspy

    highs = new_highs(**settings)
    model = highspy.HighsLp()
    model.num_col_ = len(program.cost)
    model.num_row_ = len(program.row_lower)
    model.col_cost_ = program.cost
    model.col_lower_ = np.zeros(len(program.cost))
    model.col_upper_ = program.upper
    model.row_lower_ = program.row_lower
    model.row_upper_ = program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.begin.astype(np.int32)
    model.a_matrix_.index_ = program.row
    model.a_matrix_.value_ = program.value
    if integer:
        starts = len(program.starts.kind)
        memory = len(program.cost) - starts
        types = highspy.HighsVarType
        model.integrality_ = [types.kInteger] * starts + [types.kContinuous] * memory
    highs.passModel(model)
    run(highs, stopped)
    found = highs.getSolution()
    info = highs.getInfo()
    value = float(info.objective_function_value)
    return Solution(
        _status(highs),
        value,
        float(info.mip_dual_bound) if integer else value,
        _filled(found.col_value, len(program.cost)),
        _filled(found.col_dual, len(program.cost)),
        _filled(found.row_dual, len(program.row_lower)),
    )


class FileSolution(NamedTuple):
    """Status and value of a model file, and the dual of each row by its name."""

    status: LpStatus
    value: float
    duals: dict[str, float]


def solve_file(path: str | Path) -> FileSolution:
    """Solve an ``.lp`` or ``.mps`` file.

    Raises
    ------
    InputError
        If HiGHS cannot read it.
    """
    import highspy

    highs = new_highs()
    if highs.readModel(str(path)) == highspy.HighsStatus.kError:
        raise InputError([Fault(str(path), None, "HiGHS cannot read it as a model")])
    run(highs)
    names = [highs.getRowName(row)[1] for row in range(highs.getNumRow())]
    duals = _filled(highs.getSolution().row_dual, len(names))
    return FileSolution(
        _status(highs),
        float(highs.getInfo().objective_function_value),
        dict(zip(names, duals.tolist(), strict=True)),
    )


def _status(highs: Any) -> LpStatus:
    import highspy

    statuses = highspy.HighsModelStatus
    return {
        statuses.kOptimal: LpStatus.OPTIMAL,
        statuses.kInfeasible: LpStatus.INFEASIBLE,
        statuses.kTimeLimit: LpStatus.STOPPED,
        statuses.kIterationLimit: LpStatus.STOPPED,
        statuses.kInterrupt: LpStatus.STOPPED,
    }.get(highs.getModelStatus(), LpStatus.FAILED)


def _filled(values: Any, length: int) -> FloatArray:
    array = np.array(values, np.float64)
    return array if len(array) == length else np.zeros(length)
