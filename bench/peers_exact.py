"""Proof of the optimum: ours beside HiGHS and CP-SAT alone, modelled as their users would.

    python bench/peers_exact.py -n 11 --draws 20 --seconds 60

Each gets the same instances of the synthetic family, one thread and the same limit. The peers get
no schedule to start from, and for a horizon the makespan of the best list schedule plus the longest
output, which a user would take for long enough; ours takes only what it can prove.

- ``highs``: time-indexed binaries x[i, p], one start each, a memory row a step.
- ``cp-sat``: the same model in CP-SAT.
- ``cp-sat stairs``: start variables; a request is a stack of o intervals of demand s + 1, 1, 1, ...
  that all end together, in one cumulative constraint.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import highspy
import numpy as np
from ortools.sat.python import cp_model

import sortedf
from sortedf import Instance
from sortedf.model import Status
from sortedf.solvers import MaxSeconds

Answer = tuple[bool, float, float]
"""Proved, value, seconds of CPU time."""


def horizon_of(instance: Instance) -> int:
    """Makespan of the best list schedule plus the longest output."""
    best = sortedf.solve(instance, solver="auto", bound=False)
    return best.makespan + int(instance.output_tokens.max())


def ours(instance: Instance, seconds: float) -> Answer:
    """`exact` of this package."""
    begin = time.process_time()
    result = sortedf.solve(instance, solver="exact", stop=MaxSeconds(seconds))
    return (
        result.status is Status.OPTIMAL,
        result.total_latency,
        time.process_time() - begin,
    )


def highs(instance: Instance, seconds: float) -> Answer:
    """HiGHS on the time-indexed program."""
    begin = time.process_time()
    horizon = horizon_of(instance)
    lp = highspy.Highs()  # type: ignore[no-untyped-call]
    lp.setOptionValue("output_flag", False)
    lp.setOptionValue("threads", 1)
    lp.setOptionValue("time_limit", seconds)
    n = len(instance)
    rows = n + horizon
    model = highspy.HighsLp()
    cost, starts, index, value = [], [0], [], []
    lengths = zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True)
    for i, (s, o) in enumerate(lengths):
        for p in range(horizon - o + 1):
            cost.append(p + o)
            index += [i, *range(n + p, n + p + o)]
            value += [1, *range(s + 1, s + o + 1)]
            starts.append(len(index))
    model.num_col_ = len(cost)
    model.num_row_ = rows
    model.col_cost_ = np.array(cost, float)
    model.col_lower_ = np.zeros(len(cost))
    model.col_upper_ = np.ones(len(cost))
    model.row_lower_ = np.array([1.0] * n + [-highspy.kHighsInf] * horizon)
    model.row_upper_ = np.array([1.0] * n + [float(instance.kv_tokens)] * horizon)
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(cost)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = np.array(starts)
    model.a_matrix_.index_ = np.array(index)
    model.a_matrix_.value_ = np.array(value, float)
    lp.passModel(model)
    lp.run()
    proved = lp.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return proved, lp.getInfo().objective_function_value, time.process_time() - begin


def cp_sat(instance: Instance, seconds: float) -> Answer:
    """CP-SAT on the time-indexed program."""
    begin = time.process_time()
    horizon = horizon_of(instance)
    model = cp_model.CpModel()
    held: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in range(horizon + 1)]
    terms = []
    lengths = zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True)
    for s, o in lengths:
        x = [model.new_bool_var("") for _ in range(horizon - o + 1)]
        model.add_exactly_one(x)
        for p, chosen in enumerate(x):
            terms.append((p + o) * chosen)
            for k in range(1, o + 1):
                held[p + k].append((s + k, chosen))
    for step in held[1:]:
        model.add(sum(tokens * chosen for tokens, chosen in step) <= instance.kv_tokens)
    model.minimize(sum(terms))
    return _run(model, seconds, begin)


def cp_sat_stairs(instance: Instance, seconds: float) -> Answer:
    """CP-SAT with interval variables, a staircase a request, in one cumulative constraint."""
    begin = time.process_time()
    horizon = horizon_of(instance)
    model = cp_model.CpModel()
    intervals, demands, ends = [], [], []
    lengths = zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True)
    for s, o in lengths:
        start = model.new_int_var(0, horizon - o, "")
        for k in range(o):
            intervals.append(model.new_fixed_size_interval_var(start + k, o - k, ""))
            demands.append(s + 1 if k == 0 else 1)
        ends.append(start + o)
    model.add_cumulative(intervals, demands, instance.kv_tokens)
    model.minimize(sum(ends))
    return _run(model, seconds, begin)


def _run(model: cp_model.CpModel, seconds: float, begin: float) -> Answer:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    value = solver.objective_value if found else float("inf")
    return status == cp_model.OPTIMAL, value, time.process_time() - begin


SOLVERS: dict[str, Callable[[Instance, float], Answer]] = {
    "exact": ours,
    "highs": highs,
    "cp-sat": cp_sat,
    "cp-sat stairs": cp_sat_stairs,
}


def main() -> None:
    """Print proofs, time to proof (the limit where there is none), and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=11)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sortedf.solve(sortedf.generate("synthetic", 5), solver="exact", stop=MaxSeconds(1))
    times: dict[str, list[float]] = {name: [] for name in SOLVERS}
    proofs = dict.fromkeys(SOLVERS, 0)
    for seed in range(arguments.seed, arguments.seed + arguments.draws):
        instance = sortedf.generate("synthetic", arguments.n, seed=seed)
        line = f"seed {seed:3}"
        optimal = set()
        for name, solve in SOLVERS.items():
            proved, value, seconds = solve(instance, arguments.seconds)
            proofs[name] += proved
            times[name].append(seconds)
            line += f"   {name} {value:.0f}{'*' if proved else ' '} {seconds:.2f} s"
            if proved:
                optimal.add(round(value))
        print(line + ("" if len(optimal) < 2 else "   THE PROOFS DIFFER"), flush=True)
    print("\n* proved optimal")
    for name in SOLVERS:
        print(
            f"{name:14} proved {proofs[name]:3} of {arguments.draws}, "
            f"median {statistics.median(times[name]):7.2f} s"
        )


if __name__ == "__main__":
    main()
