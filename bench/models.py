"""Planning as users of HiGHS and CP-SAT would model it: builders and runs, for the peers' benches.

Two models of a backlog without releases:

- *time-indexed*: binaries x[i, p], one start for each request, one memory row for each bucket;
- *stairs*: start variables; a request is a stack of intervals that end together, the lowest of
  demand s + the first rise, one more for each further rise, all in one cumulative constraint.

On a :class:`Grid` coarser than the steps both are restrictions: what is a schedule there is one of
the backlog, but their bounds and proofs hold on the grid only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import highspy
import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from sortedf import Instance
from sortedf.model.instance import IntArray


class Grid(NamedTuple):
    """Time and memory rounded up: what fits here fits the backlog.

    Starts are multiples of ``width`` steps, and a request occupies whole buckets of that length.
    Its memory rises ahead of time, every ``tread`` steps, to what it holds at the end of these.
    """

    width: int = 1
    tread: int = 1

    def buckets(self, output_tokens: IntArray) -> IntArray:
        """Count the buckets that requests of these outputs occupy."""
        return -(-output_tokens // self.width)

    def held(self, prompt: IntArray, output: IntArray, bucket: IntArray) -> IntArray:
        """Tokens held in a bucket of a request, which count from 1; arrays of one shape."""
        rises = -(-bucket * self.width // self.tread)
        return prompt + np.minimum(output, rises * self.tread)


STEPS = Grid()
"""No rounding."""


class Found(NamedTuple):
    """What a run came to: starts (steps, shape (n,)) if any, and the solver's word for the rest."""

    starts: IntArray | None
    proved: bool
    value: float
    bound: float


Model: TypeAlias = Callable[[float, int], Found]
"""A model as its solver has it: call it to run that for so many seconds on so many threads."""


class TimeIndexed(NamedTuple):
    """The time-indexed program by columns: row i < n chooses a start, row n + b is bucket b.

    Column ``first[i] + p`` starts request i at bucket p. ``begin``, ``row`` and ``value`` are its
    nonzeros, as in compressed sparse columns.
    """

    first: IntArray
    cost: npt.NDArray[np.float64]
    begin: IntArray
    row: IntArray
    value: IntArray
    buckets: int

    def starts(self, chosen: IntArray, width: int) -> IntArray:
        """Start steps out of the chosen columns, one for each request, ascending."""
        return (chosen - self.first[:-1]) * width


def count_nonzeros(instance: Instance, horizon: int, grid: Grid) -> int:
    """Size of the time-indexed program without building it."""
    buckets = grid.buckets(instance.output_tokens)
    columns = -(-horizon // grid.width) - buckets + 1
    return int((columns * (buckets + 1)).sum())


def count_intervals(instance: Instance, grid: Grid) -> int:
    """Size of the stairs model."""
    return int((-(-instance.output_tokens // grid.tread)).sum())


def list_on_grid(instance: Instance, order: IntArray, grid: Grid) -> IntArray:
    """List-schedule strictly on the grid: a start (steps) that every model here accepts."""
    length = grid.buckets(instance.output_tokens)
    used = np.zeros(int(length.sum()), np.int64)
    starts = np.zeros(len(instance), np.int64)
    at = 0
    for i in order.tolist():
        held = grid.held(
            instance.prompt_tokens[i], instance.output_tokens[i], np.arange(1, length[i] + 1)
        )
        while (used[at : at + len(held)] + held > instance.kv_tokens).any():
            at += 1
        used[at : at + len(held)] += held
        starts[i] = at * grid.width
    return starts


def time_indexed(instance: Instance, horizon: int, grid: Grid = STEPS) -> TimeIndexed:
    """Build the program whose schedules end by ``horizon`` (steps): O(nonzeros)."""
    n = len(instance)
    last = -(-horizon // grid.width)
    length = grid.buckets(instance.output_tokens)
    columns = last - length + 1
    first = np.concatenate([[0], columns.cumsum()])
    request = np.repeat(np.arange(n), columns)
    bucket = np.arange(first[-1]) - first[request]
    begin = np.concatenate([[0], (length[request] + 1).cumsum()])
    # By nonzero: its column, and its place there: 0 in the row of the request, then the buckets.
    column = np.repeat(np.arange(first[-1]), np.diff(begin))
    place = np.arange(begin[-1]) - begin[column]
    of = request[column]
    held = grid.held(instance.prompt_tokens[of], instance.output_tokens[of], place)
    return TimeIndexed(
        first,
        (bucket * grid.width + instance.output_tokens[request]).astype(float),
        begin,
        np.where(place == 0, of, n + bucket[column] + place - 1),
        np.where(place == 0, 1, held),
        last,
    )


def highs(
    instance: Instance, horizon: int, grid: Grid = STEPS, start: IntArray | None = None
) -> Model:
    """HiGHS on the time-indexed program; ``start`` (steps) is a schedule on the grid.

    To build or to run it raises MemoryError where there is too little.
    """
    program = time_indexed(instance, horizon, grid)
    n, columns = len(instance), len(program.cost)
    lp = highspy.Highs()  # type: ignore[no-untyped-call]
    lp.setOptionValue("output_flag", False)
    budget = np.full(program.buckets, float(instance.kv_tokens))
    lp.passModel(
        columns,
        n + program.buckets,
        len(program.row),
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        program.cost,
        np.zeros(columns),
        np.ones(columns),
        np.concatenate([np.ones(n), np.full(program.buckets, -highspy.kHighsInf)]),
        np.concatenate([np.ones(n), budget]),
        program.begin[:-1].astype(np.int32),
        program.row.astype(np.int32),
        program.value.astype(float),
        np.full(columns, int(highspy.HighsVarType.kInteger), np.int32),
    )
    if start is not None:
        chosen = np.zeros(columns)
        chosen[program.first[:-1] + start // grid.width] = 1.0
        lp.setSolution(columns, np.arange(columns, dtype=np.int32), chosen)

    def run(seconds: float, threads: int) -> Found:
        lp.setOptionValue("threads", threads)
        lp.setOptionValue("time_limit", seconds)
        lp.run()
        if lp.getModelStatus() == highspy.HighsModelStatus.kMemoryLimit:
            raise MemoryError
        info = lp.getInfo()
        starts = None
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            solution = np.array(lp.getSolution().col_value)
            starts = program.starts(np.flatnonzero(solution > 0.5), grid.width)
        proved = lp.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return Found(starts, proved, info.objective_function_value, info.mip_dual_bound)

    return run


def cp_sat(
    instance: Instance, horizon: int, grid: Grid = STEPS, start: IntArray | None = None
) -> Model:
    """CP-SAT on the time-indexed program; ``start`` (steps) is a schedule on the grid."""
    program = time_indexed(instance, horizon, grid)
    n, columns = len(instance), len(program.cost)
    model = cp_model.CpModel()
    x = np.array([model.new_bool_var("") for _ in range(columns)], object)
    for begin, end in zip(program.first[:-1].tolist(), program.first[1:].tolist(), strict=True):
        model.add_exactly_one(x[begin:end].tolist())
    by_row = np.argsort(program.row, kind="stable")
    column = np.repeat(np.arange(columns), np.diff(program.begin))[by_row]
    value = program.value[by_row]
    ends = np.searchsorted(program.row[by_row], np.arange(n, n + program.buckets + 1)).tolist()
    for begin, end in pairwise(ends):
        tokens = cp_model.LinearExpr.weighted_sum(
            x[column[begin:end]].tolist(), value[begin:end].tolist()
        )
        model.add(tokens <= instance.kv_tokens)
    cost = program.cost.astype(np.int64).tolist()
    model.minimize(cp_model.LinearExpr.weighted_sum(x.tolist(), cost))
    if start is not None:
        chosen = np.zeros(columns, np.int64)
        chosen[program.first[:-1] + start // grid.width] = 1
        for variable, hint in zip(x.tolist(), chosen.tolist(), strict=True):
            model.add_hint(variable, hint)

    def starts(solution: IntArray) -> IntArray:
        return program.starts(np.flatnonzero(solution), grid.width)

    return lambda seconds, threads: _run(model, seconds, threads, starts)


def cp_sat_stairs(
    instance: Instance, horizon: int, grid: Grid = STEPS, start: IntArray | None = None
) -> Model:
    """CP-SAT with a staircase a request; starts at every step, so the grid's width must be 1."""
    if grid.width != 1:
        raise ValueError(f"the stairs start at every step; the grid's width is {grid.width}")
    model = cp_model.CpModel()
    intervals, demands, begins, ends = [], [], [], []
    lengths = zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True)
    for s, o in lengths:
        begin = model.new_int_var(0, horizon - o, "")
        for rise in range(0, o, grid.tread):
            intervals.append(model.new_fixed_size_interval_var(begin + rise, o - rise, ""))
            demands.append(min(grid.tread, o - rise) + (s if rise == 0 else 0))
        begins.append(begin)
        ends.append(begin + o)
    model.add_cumulative(intervals, demands, instance.kv_tokens)
    model.minimize(sum(ends))
    if start is not None:
        for begin, hint in zip(begins, start.tolist(), strict=True):
            model.add_hint(begin, hint)
    n = len(instance)
    return lambda seconds, threads: _run(model, seconds, threads, lambda found: found[:n])


def _run(
    model: cp_model.CpModel, seconds: float, threads: int, starts: Callable[[IntArray], IntArray]
) -> Found:
    """Run CP-SAT; ``starts`` reads the start steps from the values of all variables."""
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(model)
    proved = status == cp_model.OPTIMAL
    if not proved and status != cp_model.FEASIBLE:
        return Found(None, False, float("inf"), solver.best_objective_bound)
    found = starts(np.array(solver.response_proto.solution, np.int64))
    return Found(found, proved, solver.objective_value, solver.best_objective_bound)
