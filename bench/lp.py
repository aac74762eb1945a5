"""The linear program's value by HiGHS, side by side with the ascent and the cutting planes.

    python bench/lp.py [--sizes 50,100,200,300,400,500,600] [--limit 300] [--share 0.9999]
                       [--kv-tokens 16492] [--seed 0] [--repeats 3]

Backlogs of the 80/20 mix, one after the other, until the interior point method of HiGHS reaches its
limit: the last row before is the largest that it solves. All in one process, on one thread, in
seconds of processor time, list schedule and set-up included, compilation not. `ascent` is the
fewest iterations, doubled from 25 on, whose certified bound is that share of the value; the median
of the repeats. Where 25,600 do not reach it, there is a `>`, and what they reach is said. `planes`
is the whole way to the value. The ratios are to the interior point method.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import NamedTuple

from prices import timed
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.lp import LpStatus, ascend, relax, relax_by_planes
from sortedf.lp.distinct import distinct
from sortedf.lp.program import all_starts

MOST_ITERATIONS = 25 * 2**10


class Ascent(NamedTuple):
    """The ascent at so many iterations: its certified bound, and seconds."""

    iterations: int
    bound: float
    seconds: float


def ascent_to(instance: sortedf.Instance, goal: float, repeats: int) -> Ascent:
    """Give that of the fewest iterations that reach the goal; of the most if none do."""
    iterations = 25
    while True:
        (_, bound), seconds = timed(partial(ascend, instance, iterations=iterations), repeats)
        if bound >= goal or iterations == MOST_ITERATIONS:
            return Ascent(iterations, float(bound), seconds)
        iterations *= 2


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="50,100,200,300,400,500,600")
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--share", type=float, default=0.9999)
    parser.add_argument("--kv-tokens", type=int, default=16_492)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    console = Console(width=140)
    ascend(sortedf.example(), iterations=300)
    relax_by_planes(sortedf.generate("mix", 10, seed=0, kv_tokens=options.kv_tokens))
    table = Table(box=SIMPLE_HEAD, title=f"80/20 mix, M = {options.kv_tokens:,}")
    for title in (
        "n",
        "starts",
        "LP value",
        "ipm s",
        "iterations",
        "ascent s",
        "ratio",
        "planes s",
        "ratio",
    ):
        table.add_column(title, justify="right")
    for n in map(int, options.sizes.split(",")):
        backlog = sortedf.generate("mix", n, seed=options.seed, kv_tokens=options.kv_tokens)
        begin = time.process_time()
        whole = relax(backlog, seconds=options.limit)
        ipm = time.process_time() - begin
        if whole.status != LpStatus.OPTIMAL:
            console.print(f"n = {n}: {whole.status} after {ipm:.0f} s")
            break
        starts = len(all_starts(distinct(backlog), whole.horizon).kind)
        goal = options.share * whole.value
        found = ascent_to(backlog, goal, options.repeats)
        reached = found.bound >= goal
        planes, by_planes = timed(partial(relax_by_planes, backlog), 1)
        assert abs(planes.value - whole.value) < 1e-5 * whole.value
        table.add_row(
            f"{n:,}",
            f"{starts:,}",
            f"{whole.value:,.2f}",
            f"{ipm:.1f}",
            f"{'' if reached else '> '}{found.iterations:,}",
            f"{'' if reached else '> '}{found.seconds:.2f}",
            f"{ipm / found.seconds:,.0f}" if reached else "-",
            f"{by_planes:.1f}",
            f"{ipm / by_planes:,.1f}",
        )
        told = f"{found.seconds:.2f} s"
        if not reached:
            share = found.bound / whole.value
            told += f" for {found.iterations:,} iterations, which reach {share:.6f} of the value"
        console.print(f"n = {n}: {ipm:.1f} s, the ascent {told}")
    console.print(table)


if __name__ == "__main__":
    main()
