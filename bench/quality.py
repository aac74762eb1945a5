"""Named instances x solvers x seeds: total latency, gap to the best bound, time.

    python bench/quality.py [FOLDER] [--solvers svf,local-swap,improve] [--seeds 5] [--seconds 60]
                            [--only mix8020-500-s0] [--tenth]

FOLDER: see backlogs.py. The gap is to the highest bound, the one known or that of any run; `to
best` is the distance from the best value known. Solvers that draw at random run once for each seed:
the median and the worst are printed. `--tenth` takes a tenth of the seconds and one seed. At the
end the ratios of mean latency on mix8020-2000-s0 stand beside those of the Sorted-F paper, which
has another draw of 2,000 requests of the same mix. The exit code is 1 if any bound is above any
value of the same backlog; a plan that does not verify is an error at once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from backlogs import Known, folder_or_none, known, load
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


def ratios(folder: Path | None) -> None:
    """Print the paper's ratios of mean latency beside ours."""
    backlog = load(folder, *PAPER_INSTANCE)
    for (worse, better), paper in PAPER.items():
        pair = [sortedf.solve(backlog, solver=s, bound=False) for s in (worse, better)]
        ours = [result.total_latency for result in pair]
        ratio = ours[0] / ours[1]
        print(f"{worse} / {better} on {PAPER_INSTANCE[0]}: {ratio:.2f} (paper: {paper})")


def rows(
    about: Known, runs: dict[str, list[sortedf.Result]]
) -> tuple[list[tuple[str, ...]], str | None]:
    """Lines of the table for one backlog; and what is wrong with its bounds, if anything is."""
    every = [result for found in runs.values() for result in found]
    bound = max([about.bound, *(r.lower_bound or 0 for r in every)])
    best = min([about.best, *(r.total_latency for r in every)])
    lines: list[tuple[str, ...]] = []
    for solver, found in runs.items():
        totals = [r.total_latency for r in found]
        lines.append(
            (
                about.name,
                f"{about.kv_tokens:,}",
                solver,
                f"{median(totals):,.0f}",
                f"{median(totals) / bound - 1:.2%}" if bound else "",
                f"{max(totals) / bound - 1:.2%}" if bound else "",
                f"{median(totals) / about.best - 1:+.2%}" if about.bound else "",
                f"{median(r.seconds for r in found):.2f}",
                f"{sum(r.status == 'optimal' for r in found)}/{len(found)}",
            )
        )
    fault = f"{about.name}: a bound of {bound:,.0f} is above a value of {best:,.0f}"
    return lines, fault if bound > best else None


def main() -> None:
    """Run what is asked for and print the table."""
    parser = argparse.ArgumentParser(description="solvers against the best known values")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--solvers", default="fcfs,mcsf,svf,local-swap,quantile-greedy,improve")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    folder = folder_or_none(arguments.folder)
    seeds = 1 if arguments.tenth else arguments.seeds
    seconds = arguments.seconds / (10 if arguments.tenth else 1)
    solvers = [find_solver(name) for name in arguments.solvers.split(",")]
    table = Table(box=SIMPLE_HEAD, title=f"{seeds} seeds, {seconds:g} s each")
    for heading in ("instance", "M", "solver"):
        table.add_column(heading)
    for heading in ("median", "gap", "worst gap", "to best", "seconds", "proved"):
        table.add_column(heading, justify="right")
    faults = []
    for about in known(folder):
        if arguments.only not in about.name:
            continue
        backlog = load(folder, about.name, about.kv_tokens)
        runs = {}
        for solver in solvers:
            if solver.supports(backlog):
                print(f"{about.name} {about.kv_tokens} {solver.name}", file=sys.stderr)
                runs[solver.name] = results(backlog, solver, seeds, seconds)
        lines, fault = rows(about, runs)
        for line in lines:
            table.add_row(*line)
        table.add_section()
        if fault:
            faults.append(fault)
    Console(width=120).print(table)
    ratios(folder)
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
