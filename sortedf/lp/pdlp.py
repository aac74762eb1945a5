"""The time-indexed linear program by PDLP, the first-order method of OR-tools.

It needs matrix products only, and has usable prices at any time: slow to the last digit, quick to
something.

PDLP cannot be interrupted from Python. It runs in slices, each from the point where the last one
ended; between them Ctrl-C and stop criteria are heard.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.ascent import Stop, best_in_order, check_sizes
from sortedf.lp.highs import LpStatus, Solution
from sortedf.lp.prices import Prices, price_bound, rounded
from sortedf.lp.program import Program, by_steps
from sortedf.lp.time_indexed import Relaxation, relaxation
from sortedf.model import Instance

SLICE = (64, 4096)
"""Least and most iterations of a slice."""

SLICE_WORK = 1_000_000_000
"""Nonzeros times iterations of a slice: about two seconds."""


def relax_by_pdlp(
    instance: Instance,
    *,
    horizon: int | None = None,
    iterations: int = 100_000,
    tolerance: float = 1e-6,
    prices: Prices | None = None,
    stop: Stop | None = None,
) -> Relaxation:
    """Solve the linear program of an instance as far as it is let.

    Parameters
    ----------
    horizon
        Last step T with a memory row, at least 1; by default the makespan of a list schedule.
    iterations
        Most iterations.
    tolerance
        Relative and absolute, of the optimality conditions.
    prices
        Where to start; at zero when left out.
    stop
        Asked between slices, with the iterations so far, the total latency of a list schedule and
        the best bound.

    Returns
    -------
    Relaxation
        ``optimal`` within the tolerance, or ``stopped``, without a value then. Its prices are the
        best of the slices' ends.

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    OptionError
        For an option out of its range, or too large a program.

    Notes
    -----
    An iteration takes O(nonzeros), which are o + 1 for each start of each kind of request.
    """
    check_sizes(instance)
    if iterations < 1:
        raise OptionError(f"the number of iterations is {iterations}; it must be at least 1")
    if not tolerance > 0:
        raise OptionError(f"the tolerance is {tolerance}; it must be above 0")
    begin = time.perf_counter()
    schedule = best_in_order(instance)
    T = schedule.makespan(instance) if horizon is None else horizon
    latency = schedule.total_latency(instance)
    program = by_steps(instance, T)
    slices = _Slices(program, tolerance)
    none = np.zeros(0, np.int64)
    best = Prices(none, none, none, none, 1) if prices is None else prices
    if prices is not None:
        by_step = np.zeros(T)
        given = prices.per_step()[1 : T + 1]
        by_step[: len(given)] = given
        slices.dual[len(program.kinds.weight) :] = -by_step * program.unit
    bound = price_bound(instance, best)
    each = int(np.clip(SLICE_WORK // len(program.value), *SLICE))
    while slices.done < iterations and not slices.optimal:
        if stop is not None and stop(slices.done, latency, bound):
            break
        slices.go_on(min(each, iterations - slices.done))
        found = program.prices(slices.dual, slices.dual)
        exact = rounded(instance, np.arange(T + 1), found, np.zeros(T))
        value = price_bound(instance, exact)
        if value > bound:
            best, bound = exact, value
    status = LpStatus.OPTIMAL if slices.optimal else LpStatus.STOPPED
    reached = float(program.cost @ slices.primal)
    last = Solution(status, reached, reached, slices.primal, slices.dual, slices.dual)
    solved = (program, last) if slices.optimal else None
    return relaxation(instance, status, best, solved, time.perf_counter() - begin)


class _Slices:
    """PDLP at one program: where it stands, and more iterations from there."""

    def __init__(self, program: Program, tolerance: float) -> None:
        from ortools.pdlp import solvers_pb2
        from ortools.pdlp.python import pdlp
        from scipy.sparse import csc_matrix

        rows, columns = len(program.row_lower), len(program.cost)
        self.pdlp = pdlp
        self.problem = pdlp.QuadraticProgram()
        self.problem.resize_and_initialize(columns, rows)
        self.problem.objective_vector = program.cost
        self.problem.variable_lower_bounds = np.zeros(columns)
        self.problem.variable_upper_bounds = program.upper
        self.problem.constraint_lower_bounds = program.row_lower
        self.problem.constraint_upper_bounds = program.row_upper
        self.problem.constraint_matrix = csc_matrix(
            (program.value, program.row, program.begin), (rows, columns)
        )
        self.parameters: Any = solvers_pb2.PrimalDualHybridGradientParams()
        criteria = self.parameters.termination_criteria.simple_optimality_criteria
        criteria.eps_optimal_relative = tolerance
        criteria.eps_optimal_absolute = tolerance
        # The balance of the primal against the dual step is handed on from slice to slice.
        self.parameters.record_iteration_stats = True
        self.primal: FloatArray = np.zeros(columns)
        self.dual: FloatArray = np.zeros(rows)
        self.done = 0
        self.optimal = False

    def go_on(self, iterations: int) -> None:
        """Run so many iterations, or fewer if the optimum is found."""
        from ortools.pdlp import solve_log_pb2

        self.parameters.termination_criteria.iteration_limit = iterations
        begin = self.pdlp.PrimalAndDualSolution()
        begin.primal_solution = self.primal
        begin.dual_solution = self.dual
        found = self.pdlp.primal_dual_hybrid_gradient(self.problem, self.parameters, begin)
        self.primal = np.array(found.primal_solution)
        self.dual = np.array(found.dual_solution)
        log: Any = found.solve_log
        self.done += max(log.iteration_count, 1)
        if log.iteration_stats and log.iteration_stats[-1].primal_weight > 0:
            self.parameters.initial_primal_weight = log.iteration_stats[-1].primal_weight
        self.optimal = log.termination_reason == solve_log_pb2.TERMINATION_REASON_OPTIMAL
