"""Time per phase from 1,000 to 1,000,000 requests of the 80/20 mix, and how it grows.

    python bench/scale.py [--kv-tokens 400000] [--solver svf] [--sizes 1000,...] [--repeats 3]

Phases: read a CSV, order, kernel, verify, write a plan file; the medians of the repeats, in
seconds. `growth` is the exponent b of time ~ n^b between the last two sizes. Memory is the peak of
the whole process so far. The kernel is compiled before anything is timed.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.orders import ORDERS
from sortedf.solvers.in_order import schedule_in_order

T = TypeVar("T")
PHASES = ["read", "order", "kernel", "verify", "write"]


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}

    def time(self, phase: str, action: Callable[[], T]) -> T:
        """Run an action and book its wall time."""
        begin = time.perf_counter()
        result = action()
        self.seconds[phase].append(time.perf_counter() - begin)
        return result


def measure(path: Path, kv_tokens: int, order: str, repeats: int) -> dict[str, float]:
    """Median seconds of each phase for the backlog in a CSV file."""
    clock = Clock()
    for _ in range(repeats):
        backlog = clock.time("read", lambda: sortedf.read_backlog(path, kv_tokens=kv_tokens))
        rank = clock.time("order", lambda: ORDERS[order](backlog))  # noqa: B023
        schedule = clock.time("kernel", lambda: schedule_in_order(backlog, rank))  # noqa: B023
        lengths = backlog.prompt_tokens.tolist(), backlog.output_tokens.tolist()
        starts = schedule.starts.tolist()
        report = clock.time(
            "verify",
            lambda: sortedf.verify.verify(*lengths, None, kv_tokens, starts),  # noqa: B023
        )
        assert report.ok
        assert report.total_latency == schedule.total_latency(backlog)
        result = sortedf.Result(backlog, schedule, order, 0.0, sortedf.__version__, verified=True)
        clock.time(
            "write",
            lambda: sortedf.write_plan(result, path.with_suffix(".plan.json")),  # noqa: B023
        )
    return {phase: median(seconds) for phase, seconds in clock.seconds.items()}


def main() -> None:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kv-tokens", type=int, default=400_000)
    parser.add_argument("--solver", choices=list(ORDERS), default="svf", dest="order")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    sortedf.solve(sortedf.example(), solver=arguments.order)  # compile
    table = Table(box=SIMPLE_HEAD, title=f"{arguments.order}, M = {arguments.kv_tokens:,}")
    for heading in ["n", *PHASES, "all", "peak MiB"]:
        table.add_column(heading, justify="right")
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            print(f"measuring n = {n:,}", file=sys.stderr)
            path = Path(folder) / f"{n}.csv"
            sortedf.write_backlog(
                sortedf.generate("mix", n, seed=0, kv_tokens=arguments.kv_tokens), path
            )
            seconds = measure(path, arguments.kv_tokens, arguments.order, arguments.repeats)
            seconds["all"] = sum(seconds.values())
            rows.append(seconds)
            mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            table.add_row(
                f"{n:,}", *(f"{value:.4f}" for value in seconds.values()), f"{mebibytes:,.0f}"
            )
    if len(sizes) > 1:
        last, before = rows[-1], rows[-2]
        span = math.log(sizes[-1] / sizes[-2])
        growth = [math.log(last[phase] / before[phase]) / span for phase in last]
        table.add_section()
        table.add_row("growth", *(f"{exponent:.2f}" for exponent in growth), "")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
