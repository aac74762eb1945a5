"""Sorted-F by selector: time of phase 1, first batch against the exact one, total latency.

    python bench/sorted_f.py FOLDER [--draws 300]

FOLDER holds the instances as `NAME.csv`. Times are process seconds with the kernels compiled. Two
more tables: the mean latencies of first come and of shortest output over that of Sorted-F with
local swap, beside the figures of arXiv 2508.06133; and local swap against the exact batches on
random backlogs.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean

import numpy as np
from quantile_sweep import KINDS, draw
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf import Instance
from sortedf.model.instance import IntArray
from sortedf.solvers.in_order import schedule_by, schedule_in_order
from sortedf.solvers.sorted_f import (
    EXACT_REQUESTS,
    SWAP_REQUESTS,
    Selector,
    exact_batch,
    quantile_batch,
    sorted_f_order,
    swap_batch,
)

INSTANCES = (
    ("mix8020-50-s0", 16_492),
    ("mix8020-200-s0", 16_492),
    ("mix8020-500-s0", 16_492),
    ("mix8020-2000-s0", 16_492),
    ("mix8020-2000-s0", 100_000),
    ("azure-1000-s0", 100_000),
    ("azure-5000-s0", 100_000),
    ("mix8020-10000-s0", 16_492),
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


def by_instance(folder: Path) -> Table:
    """Each selector on each instance."""
    table = Table(
        "instance", "M", "selector", "phase 1 s", "worst batch s", "batches", "first F", "latency"
    )
    for name, kv_tokens in INSTANCES:
        backlog = sortedf.read_backlog(folder / f"{name}.csv", kv_tokens=kv_tokens)
        for solver, (select, most) in SELECTORS.items():
            if len(backlog) > most:
                continue
            watched = Watched(select)
            begin = time.process_time()
            order = sorted_f_order(backlog, watched)
            seconds = time.process_time() - begin
            latency = schedule_in_order(backlog, order).total_latency(backlog)
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


def against_the_paper(folder: Path) -> Table:
    """First come and shortest output over local swap, 2,000 requests, 80 % chat, 20 % papers."""
    backlog = sortedf.read_backlog(folder / "mix8020-2000-s0.csv", kv_tokens=16_492)
    order = sorted_f_order(backlog, swap_batch)
    latency = schedule_in_order(backlog, order).total_latency(backlog)
    table = Table("order", "mean latency / local-swap's", "in the paper")
    for name, figure in PAPER.items():
        ratio = schedule_by(name, backlog).total_latency(backlog) / latency
        table.add_row(name, f"{ratio:.2f}", f"{figure:.2f}")
    return table


def against_exact(draws: int) -> Table:
    """First batches of local swap and quantile greedy, and their latencies, over exact-dp's."""
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
                    total = schedule_in_order(backlog, order).total_latency(backlog)
                    if name == "exact-dp":
                        best, shortest = watched.values[0], total
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
    return table


def main() -> None:
    """Compile, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=300)
    arguments = parser.parse_args()
    for select, _ in SELECTORS.values():
        sorted_f_order(draw("mixed", 100, 0), select)
    console = Console(width=110)
    console.print(by_instance(arguments.folder))
    console.print(against_the_paper(arguments.folder))
    console.print(against_exact(arguments.draws))


if __name__ == "__main__":
    main()
