"""Named instances x solvers x seeds: total latency, gap to the best bound, time.

    python bench/quality.py FOLDER [--solvers svf,local-swap,improve] [--seeds 5] [--seconds 60]
                            [--only mix8020-500-s0] [--tenth]

FOLDER holds CSV backlogs and `known.csv` (instance, kv_tokens, best_total_latency, lower_bound).
The gap is to the bound there or to the one that the solver proves, whichever is higher; `to best`
is the distance from the best value there. Solvers that draw at random run once for each seed: the
median and the worst are printed. `--tenth` takes a tenth of the seconds and one seed. At the end
the ratios of mean latency on mix8020-2000-s0 stand beside those of the Sorted-F paper, which has
another draw of 2,000 requests of the same mix.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.solvers import MaxSeconds, Solver, find_solver

PAPER = {("fcfs", "local-swap"): 4.87, ("mcsf", "local-swap"): 2.09}
PAPER_INSTANCE = ("mix8020-2000-s0", 16_492)


def results(
    backlog: sortedf.Instance, solver: Solver, seeds: int, seconds: float
) -> list[sortedf.Result]:
    """Run a solver for each seed, or once if it draws nothing at random."""
    found = []
    for seed in [0] if solver.deterministic else range(seeds):
        stop = MaxSeconds(seconds) if solver.anytime else None
        found.append(sortedf.solve(backlog, solver=solver.name, seed=seed, stop=stop, bound=False))
    return found


def ratios(folder: Path) -> None:
    """Print the paper's ratios of mean latency beside ours."""
    name, kv_tokens = PAPER_INSTANCE
    backlog = sortedf.read_backlog(folder / f"{name}.csv", kv_tokens=kv_tokens)
    for (worse, better), paper in PAPER.items():
        ours = [
            sortedf.solve(backlog, solver=s, bound=False).total_latency for s in (worse, better)
        ]
        print(f"{worse} / {better} on {name}: {ours[0] / ours[1]:.2f} (paper: {paper})")


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description="solvers against the best known values")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--solvers", default="fcfs,mcsf,svf,local-swap,quantile-greedy,improve")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    seeds = 1 if arguments.tenth else arguments.seeds
    seconds = arguments.seconds / (10 if arguments.tenth else 1)
    solvers = [find_solver(name) for name in arguments.solvers.split(",")]
    table = Table(box=SIMPLE_HEAD, title=f"{seeds} seeds, {seconds:g} s each")
    for heading in ("instance", "M", "solver"):
        table.add_column(heading)
    for heading in ("median", "gap", "worst gap", "to best", "seconds", "proved"):
        table.add_column(heading, justify="right")
    with (arguments.folder / "known.csv").open() as file:
        known = [row for row in csv.DictReader(file) if arguments.only in row["instance"]]
    for row in known:
        path = arguments.folder / f"{row['instance']}.csv"
        backlog = sortedf.read_backlog(path, kv_tokens=int(row["kv_tokens"]))
        for solver in solvers:
            if not solver.supports(backlog):
                continue
            print(f"{row['instance']} {row['kv_tokens']} {solver.name}", file=sys.stderr)
            found = results(backlog, solver, seeds, seconds)
            bound = max(int(row["lower_bound"]), *(r.lower_bound or 0 for r in found))
            totals = [r.total_latency for r in found]
            table.add_row(
                row["instance"],
                row["kv_tokens"],
                solver.name,
                f"{median(totals):,.0f}",
                f"{median(totals) / bound - 1:.2%}",
                f"{max(totals) / bound - 1:.2%}",
                f"{median(totals) / int(row['best_total_latency']) - 1:+.2%}",
                f"{median(r.seconds for r in found):.2f}",
                f"{sum(r.status == 'optimal' for r in found)}/{len(found)}",
            )
        table.add_section()
    Console(width=120).print(table)
    ratios(arguments.folder)


if __name__ == "__main__":
    main()
