"""Online policies against theory, in the model in steps: proved bounds, limits, hindsight.

    python bench/online_theory.py [--part ratios|poisson|hindsight] [--seeds 3] [--trials 20]
                                  [--tenth]

`ratios`: total latency of every policy over the lower bound with releases, by workload and load, a
load being the share of the cache that the requests would fill on average. `poisson`: SVF and 1-bit
SVF against their limits under Poisson arrivals. `hindsight`: MC-SF against the best schedule that
knows what comes, in the family of arXiv 2502.07115; short trials against proved optima, those of
the paper's length between the best schedule found and the best bound proved. The exit code is 1 if
a ratio is below 1 or a limit is exceeded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sortedf.errors import OptionError, SortedfError
from sortedf.instances.generators import mix, summaries
from sortedf.lp import lower_bound
from sortedf.model import Instance
from sortedf.serving import simulate
from sortedf.serving.arrivals import poisson
from sortedf.serving.metrics import Interval, interval
from sortedf.serving.theory import (
    MCSF_ONLINE,
    GeometricLoad,
    competitive_ratio,
    mcsf_family,
    total_latency,
)
from sortedf.serving.workloads import Workload, released
from sortedf.solvers import MaxIterations, solve
from sortedf.solvers.exact import supports
from sortedf.solvers.in_order import schedule_by

POLICIES: dict[str, dict[str, Any]] = {
    "fcfs": {},
    "sjf": {},
    "mcsf": {},
    "svf": {},
    "svf-1bit": {},
    "srpt": {},
    "uniboost": {"guard": 16},
    "boost-volume": {},
    "sorted-f": {"period": 50.0},
    "a-min": {},
}
"""Scores that decay in seconds take a step for one. `srpt` and `uniboost` evict, and keep tokens:

the bound is of schedules without preemption, so that they may be below it.
"""

LENGTHS: dict[str, tuple[int, Callable[..., Instance]]] = {
    "mix": (16_492, mix),
    "summaries": (16_492, summaries),
}
LOADS = (0.6, 0.9, 1.2, 2.0)
COUNT = 1000
THRESHOLD = 10
EXACT, SEARCH = 1500, 30
"""Iterations of the exact solver and of the improvement search for a trial."""

faults: list[str] = []


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("ratios", "poisson", "hindsight"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    if arguments.tenth:
        arguments.seeds, arguments.trials = 1, max(1, arguments.trials // 10)
    parts: dict[str, Callable[[], list[Table]]] = {
        "ratios": lambda: ratios(arguments.seeds, LOADS[2:3] if arguments.tenth else LOADS),
        "poisson": lambda: under_poisson(3 * arguments.seeds),
        "hindsight": lambda: hindsight(arguments.trials, EXACT // 3 if arguments.tenth else EXACT),
    }
    console = Console(width=150, highlight=False)
    for name, part in parts.items():
        if arguments.part in (None, name):
            begin = time.process_time()
            for table in part():
                console.print(table)
            print(f"{name}: {time.process_time() - begin:.0f} s of processor time", file=sys.stderr)
    sys.exit("\n".join(faults) or None)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left")
    return table


def _show(found: Interval) -> str:
    return f"{found.mean:.3f}" + ("" if np.isnan(found.low) else f" +- {found.half_width:.3f}")


def ratios(seeds: int, loads: tuple[float, ...]) -> list[Table]:
    """Ratio of each policy to the bound, mean over seeds and half of the interval's width."""
    tables = []
    count = COUNT if seeds > 1 else COUNT // 4
    for kind, (kv_tokens, draw) in LENGTHS.items():
        title = f"total latency over the bound, {kind}, {count:,} requests, M = {kv_tokens:,}"
        table = _table(title, "load", *(f"{load}" for load in loads))
        rows: dict[str, list[str]] = {name: [] for name in POLICIES}
        for load in loads:
            found: dict[str, list[float]] = {name: [] for name in POLICIES}
            for seed in range(seeds):
                instance = draw(count, seed=seed, kv_tokens=kv_tokens)
                rate = load * kv_tokens / float(instance.volume.mean())
                workload = Workload(instance, np.floor(poisson(count, rate, seed=seed)))
                bound = lower_bound(released(workload)).value
                for name, options in POLICIES.items():
                    found[name] += _ratio(workload, name, options, bound)
            for name, values in found.items():
                rows[name].append(_show(interval(values)) if values else "never ends")
        for name, cells in rows.items():
            table.add_row(name, *cells)
        tables.append(table)
    return tables


def _ratio(workload: Workload, name: str, options: dict[str, Any], bound: Fraction) -> list[float]:
    try:
        served = simulate(workload, name, engine="steps", **options)
    except SortedfError:  # requests that evict each other for ever
        return []
    ratio = competitive_ratio(served, bound)
    if ratio < 1 and not (served.preemptions.any() and served.side.eviction == "recompute"):
        faults.append(f"{name} on {workload.name} is below the bound: {ratio}")
    return [ratio]


def under_poisson(seeds: int) -> list[Table]:
    """SVF and 1-bit SVF over the bound, beside the theorem's limits; geometric outputs."""
    table = _table(
        "SVF under Poisson arrivals, geometric outputs of mean 1/mu, ratio to the bound",
        *("1/mu, M, rho", "SVF", "limit", "1-bit SVF", "limit as printed", "by the gap derived"),
    )
    for mean_output, kv_tokens in ((10.0, 100), (40.0, 400)):
        for rho in (0.2, 0.5, 0.8, 0.95, 2.0, 3.6):
            rate = rho / GeometricLoad(1.0, 6, mean_output, kv_tokens).rho
            load = GeometricLoad(rate, 6, mean_output, kv_tokens)
            threshold = int(mean_output)
            svf, one_bit = [], []
            for seed in range(seeds):
                workload = load.draw(COUNT, seed=seed)
                instance = released(workload)
                bound = lower_bound(instance, iterations=300).value
                served = simulate(workload, "svf", engine="steps")
                svf.append(competitive_ratio(served, bound))
                listed = schedule_by("svf-1bit", instance, proxies=load.proxies(threshold))
                one_bit.append(float(listed.total_latency(instance) / bound))
            limits = [
                _limit(load.svf_limit),
                _limit(partial(load.one_bit_limit, threshold)),
                _limit(partial(load.one_bit_limit, threshold, printed=False)),
            ]
            for name, values, limit in (
                ("SVF", svf, limits[0]),
                ("1-bit SVF", one_bit, min(limits[1:])),
            ):
                if np.mean(values) > limit or min(values) < 1:
                    faults.append(f"{name} at rho {rho}: {values} against {limit}")
            cells = ["none" if np.isinf(limit) else f"{limit:.2f}" for limit in limits]
            table.add_row(
                f"{mean_output:g}, {kv_tokens}, {rho}",
                _show(interval(svf)),
                cells[0],
                _show(interval(one_bit)),
                *cells[1:],
            )
    return [table]


def _limit(limit: Callable[[], float]) -> float:
    """Give a limit, infinite where the theorem is silent."""
    try:
        return limit()
    except OptionError:
        return float("inf")


def hindsight(trials: int, iterations: int) -> list[Table]:
    """MC-SF against what a schedule could have done that knew all arrivals."""
    table = _table(
        f"MC-SF over the optimum in hindsight, {trials} trials of each length",
        *("arrivals during", "requests", "against", "mean", "worst", "MC-SF best"),
    )
    for steps, proved in (((8, 12), True), ((40, 60), False)):
        found = []
        for seed in range(trials):
            found.append(_trial(mcsf_family(seed, steps=steps), iterations))
            print(f"trial {seed + 1} of {trials}, {steps} steps: {found[-1]}", file=sys.stderr)
        name = f"{steps[0]}..{steps[1]} steps"
        solved = [trial for trial in found if trial[2] == trial[3]]
        if proved:
            _add(table, name, "optimum, proved", [(n, mcsf, low) for n, mcsf, low, _ in solved])
        else:
            _add(table, name, "best found (at least)", [(n, m, up) for n, m, _, up in found])
            _add(table, name, "bound (at most)", [(n, m, low) for n, m, low, _ in found])
    mean, worst = MCSF_ONLINE
    table.add_row("40..60 steps", "", "optimum, as published", f"{mean}", f"{worst}", "")
    return [table]


def _add(table: Table, name: str, against: str, rows: list[tuple[int, int, int]]) -> None:
    values = [mcsf / other for _, mcsf, other in rows]
    if not values:
        return
    if min(values) < 1 and "found" not in against:
        faults.append(f"MC-SF is below what is proved, {name}")
    mean = f"{np.mean(values):.3f}"
    sizes = [n for n, _, _ in rows]
    table.add_row(
        name,
        f"{min(sizes)}..{max(sizes)}, {len(rows)} trials",
        against,
        mean,
        f"{max(values):.3f}",
        f"{sum(value == 1 for value in values)}",
    )


def _trial(workload: Workload, iterations: int) -> tuple[int, int, int, int]:
    """Give requests, MC-SF's total latency, what is proved of the optimum, the best found."""
    instance = released(workload)
    mcsf = total_latency(simulate(workload, "mcsf", engine="steps"))
    upper, lower = mcsf, lower_bound(instance, iterations=400).value
    if supports(instance):
        exact = solve(instance, solver="exact", stop=MaxIterations(iterations))
        upper = min(upper, exact.total_latency)
        lower = max(lower, exact.lower_bound_exact or lower)
    if lower < upper:
        search = MaxIterations(max(1, SEARCH * iterations // EXACT))
        searched = solve(instance, solver="improve", bound=False, stop=search)
        upper = min(upper, searched.total_latency)
    return len(instance), mcsf, ceil(lower), upper


if __name__ == "__main__":
    main()
