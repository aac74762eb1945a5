"""Sorted-F by selector: time of phase 1, first batch against the exact one, total latency.

    python bench/sorted_f.py [FOLDER] [--draws 300]

FOLDER: see backlogs.py. Times are process seconds with the kernels compiled. Two more tables: the
mean latencies of first come and of shortest output over that of Sorted-F with local swap, beside
the figures of arXiv 2508.06133; and local swap against the exact batches on random backlogs. The
exit code is 1 if any first batch has a lower F than the exact one; a schedule that does not verify
is an error at once.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import mean

import numpy as np
from backlogs import NAMED, folder_or_none, load
from quantile_sweep import KINDS, draw, total_latency
from rich.console import Console
from rich.table import Table

from sortedf import Instance
from sortedf.model.instance import IntArray
from sortedf.solvers.front import verified_latency
from sortedf.solvers.in_order import schedule_by
from sortedf.solvers.sorted_f import (
    EXACT_REQUESTS,
    SWAP_REQUESTS,
    Selector,
    exact_batch,
    quantile_batch,
    sorted_f_order,
    swap_batch,
)

SELECTORS: dict[str, tuple[Selector, int]] = {
    "exact-dp": (exact_batch, EXACT_REQUESTS),
    "local-swap": (swap_batch, SWAP_REQUESTS),
    "quantile-greedy": (quantile_batch, 10**9),
}
PAPER = {"fcfs": 4.87, "mcsf": 2.09}


class Watched:
    """A selector that remembers the F of each batch and the process seconds it took."""

    def __init__(self, select: Selector) -> None:
        self.select = select
        self.values: list[float] = []
        self.seconds: list[float] = []

    def __call__(
        self, prompt: IntArray, output: IntArray, left: IntArray, kv_tokens: int
    ) -> IntArray:
        """Select, and book it."""
        begin = time.process_time()
        batch = self.select(prompt, output, left, kv_tokens)
        self.seconds.append(time.process_time() - begin)
        self.values.append(int(output[batch].sum()) / len(batch) ** 2)
        return batch


def by_instance(folder: Path | None) -> Table:
    """Each selector on each instance."""
    table = Table(
        "instance", "M", "selector", "phase 1 s", "worst batch s", "batches", "first F", "latency"
    )
    for name, kv_tokens in NAMED:
        backlog = load(folder, name, kv_tokens)
        for solver, (select, most) in SELECTORS.items():
            if len(backlog) > most:
                continue
            watched = Watched(select)
            begin = time.process_time()
            order = sorted_f_order(backlog, watched)
            seconds = time.process_time() - begin
            latency = total_latency(backlog, order)
            table.add_row(
                name,
                f"{kv_tokens:,}",
                solver,
                f"{seconds:.3f}",
                f"{max(watched.seconds):.3f}",
                str(len(watched.values)),
                f"{watched.values[0]:.5f}",
                f"{latency:,}",
            )
    return table


def against_the_paper(folder: Path | None) -> Table:
    """First come and shortest output over local swap, 2,000 requests, 80 % chat, 20 % papers."""
    backlog = load(folder, "mix8020-2000-s0", 16_492)
    latency = total_latency(backlog, sorted_f_order(backlog, swap_batch))
    table = Table("order", "mean latency / local-swap's", "in the paper")
    for name, figure in PAPER.items():
        ratio = verified_latency(backlog, schedule_by(name, backlog)) / latency
        table.add_row(name, f"{ratio:.2f}", f"{figure:.2f}")
    return table


def against_exact(draws: int) -> tuple[Table, bool]:
    """First batches of local swap and quantile greedy, and their latencies, over exact-dp's.

    And whether none was better.
    """
    sound = True
    table = Table("lengths", "n", "selector", "equal F", "mean F excess", "worst", "mean latency")
    for kind in KINDS:
        for n, some in ((100, draws), (500, max(draws // 15, 1))):
            excess: dict[str, list[float]] = {name: [] for name in SELECTORS}
            latency: dict[str, list[float]] = {name: [] for name in SELECTORS}
            for seed in range(some):
                backlog: Instance = draw(kind, n, seed)
                best, shortest = 0.0, 0
                for name, (select, _) in SELECTORS.items():
                    watched = Watched(select)
                    order = sorted_f_order(backlog, watched)
                    total = total_latency(backlog, order)
                    if name == "exact-dp":
                        best, shortest = watched.values[0], total
                    sound &= watched.values[0] > best * (1 - 1e-12)
                    excess[name].append(watched.values[0] / best - 1)
                    latency[name].append(total / shortest)
            for name in list(SELECTORS)[1:]:
                table.add_row(
                    kind,
                    str(n),
                    name,
                    f"{np.mean(np.array(excess[name]) < 1e-12):.0%}",
                    f"{mean(excess[name]):.3%}",
                    f"{max(excess[name]):.2%}",
                    f"{mean(latency[name]):.4f}",
                )
    return table, sound


def main() -> None:
    """Compile, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=300)
    arguments = parser.parse_args()
    for select, _ in SELECTORS.values():
        sorted_f_order(draw("mixed", 100, 0), select)
    console = Console(width=110)
    folder = folder_or_none(arguments.folder)
    console.print(by_instance(folder))
    console.print(against_the_paper(folder))
    table, sound = against_exact(arguments.draws)
    console.print(table)
    sys.exit(None if sound else "a first batch has a lower F than the exact one")


if __name__ == "__main__":
    main()
