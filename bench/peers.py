"""HiGHS and CP-SAT on the backlogs of quality.py, modelled as their users would, beside ours.

    python bench/peers.py [FOLDER] [--seconds 60] [--only mix8020-500-s0,...] [--tenth] [--json]
                          [--peers highs,cp-sat,cp-sat-stairs]

FOLDER holds CSV backlogs and `known.csv` (instance, kv_tokens, best_total_latency, lower_bound);
without it two small generated backlogs are taken. One run each, in a process of its own, the same
seconds and threads; building the model counts. Ours is `exact` where it can, else `improve`.

The peers start from the schedule by smallest volume. Where a model has more than `--nonzeros` or
`--intervals`, the user is taken to go to a coarser grid (models.py): starts at multiples of g steps
for the time-indexed program, memory that rises every g steps for the stairs. The defaults, 250,000
and 5,000 or, if more, 1,000 and 4 for each request, served the peers about as well as any in 30 s:
finer models are not solved, and a grid as long as the requests rounds away what there is to gain.

`found` is the total latency of what the peer answers, `listed` that of list scheduling in the order
of its starts, both verified; the gap is that of the better one to the best certified bound (known
or ours). `bound` is the peer's claim; on a coarser grid it has none for the backlog. `--tenth`
takes a tenth of the seconds. The exit code is 1 if the verifier refuses a schedule, a claim is
above a verified schedule, or anything but a limit ends a run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from backlogs import known, load
from guard import Send, run_guarded
from models import (
    Grid,
    Model,
    count_intervals,
    count_nonzeros,
    cp_sat,
    cp_sat_stairs,
    highs,
    list_on_grid,
)
from peers_table import table_of
from rich.console import Console

import sortedf
from sortedf import Instance
from sortedf.model.instance import IntArray
from sortedf.orders import ORDERS
from sortedf.solvers import MaxIterations, MaxSeconds, find_solver
from sortedf.solvers.in_order import schedule_by, schedule_in_order

PEERS: dict[str, Callable[..., Model]] = {
    "highs": highs,
    "cp-sat": cp_sat,
    "cp-sat-stairs": cp_sat_stairs,
}
STAIRS = "cp-sat-stairs"
NONZEROS, NONZEROS_EACH = 250_000, 1_000
INTERVALS, INTERVALS_EACH = 5_000, 4
"""Default size of a model: so much, or so much for each request if that is more."""
OVERTIME = 30.0
"""Seconds after its limit at which a peer that does not stop is killed."""
SLACK = 1e-6
"""Relative error of a peer's claim that is put down to floats."""

Lengths: TypeAlias = tuple[IntArray, IntArray, int]
"""Prompt and output tokens and KV budget: an instance on its way to another process.

Pickled it would come out with arrays that can be written to, for which kernels are compiled anew.
"""


class Limits(NamedTuple):
    """What everyone gets: seconds, threads, bytes, and the sizes of models (0: the default)."""

    seconds: float
    threads: int
    memory: int
    nonzeros: int
    intervals: int


class Case(NamedTuple):
    """A named backlog, and what is known: the least certified bound (0: none)."""

    name: str
    instance: Instance
    lower_bound: float


def backlogs(folder: Path | None) -> Iterator[Case]:
    """Those of the folder, or two small ones: one that is modelled exactly, one on a grid."""
    if folder is None:
        yield Case("synthetic-10-s0", sortedf.generate("synthetic", 10, seed=0), 0)
        mix = sortedf.generate("mix", 80, seed=0, kv_tokens=16_492)
        yield Case("mix-80-s0", mix, 0)
        return
    for name, kv_tokens, _, bound in known(folder):
        yield Case(name, load(folder, name, kv_tokens), bound)


def warm_up(solver: str) -> None:
    """Have all kernels of ours compiled or loaded, by a backlog that takes it everywhere."""
    backlog = sortedf.generate("synthetic", 8, seed=1)
    sortedf.solve(backlog, solver=solver, stop=MaxIterations(200))


def ours(send: Send, lengths: Lengths, solver: str, limits: Limits) -> dict[str, Any]:
    """Run `exact` or `improve`; called in a process of its own."""
    del send
    instance = Instance(*lengths)
    options: dict[str, Any] = {}
    if "threads" in find_solver(solver).options:
        options["threads"] = limits.threads
    warm_up(solver)
    begin = time.process_time()
    result = sortedf.solve(instance, solver=solver, stop=MaxSeconds(limits.seconds), **options)
    return {
        "starts": result.schedule.starts,
        "bound": result.lower_bound,
        "proved": result.status == "optimal",
        "wall_seconds": result.seconds,
        "cpu_seconds": time.process_time() - begin,
    }


def peer(send: Send, lengths: Lengths, name: str, limits: Limits) -> dict[str, Any]:
    """Build a peer's model and run it; called in a process of its own."""
    instance = Instance(*lengths)
    begin = time.perf_counter()
    grid, start, horizon, size = choose_grid(instance, name, limits)
    what = "intervals" if name == STAIRS else "nonzeros"
    send({"grid": max(grid), "size": f"{size:,} {what}"})
    model = PEERS[name](instance, horizon, grid, start)
    built = time.perf_counter() - begin
    send({"build_seconds": built})
    if built >= limits.seconds:
        return {"failure": f"{built:.0f} s to build the model"}
    found = model(limits.seconds - built, limits.threads)
    exact = max(grid) == 1
    return {
        "starts": found.starts,
        "proved": found.proved and exact,
        "grid_proved": found.proved,
        "grid_bound": found.bound if isfinite(found.bound) else None,
        "bound": found.bound if exact and isfinite(found.bound) else None,
    }


def choose_grid(instance: Instance, name: str, limits: Limits) -> tuple[Grid, IntArray, int, int]:
    """Finest grid within the limits; on it a start (steps), a horizon, and the model's size.

    The horizon is the makespan of the start plus the longest output, as in peers_exact.py.
    """
    order = ORDERS["svf"](instance)
    longest = int(instance.output_tokens.max())
    step = 1
    while True:
        grid = Grid(1, step) if name == STAIRS else Grid(step, step)
        start = list_on_grid(instance, order, grid)
        horizon = int((start + instance.output_tokens).max()) + longest
        if name == STAIRS:
            size = count_intervals(instance, grid)
            most = limits.intervals or max(INTERVALS, INTERVALS_EACH * len(instance))
        else:
            size = count_nonzeros(instance, horizon, grid)
            most = limits.nonzeros or max(NONZEROS, NONZEROS_EACH * len(instance))
        if size <= most or step >= longest:
            return grid, start, horizon, size
        # A size falls at most with the square of the step.
        step = max(step + 1, int(step * (size / most) ** 0.5))


def total_of(instance: Instance, starts: IntArray) -> int | None:
    """Total latency of a schedule as the verifier finds it; ``None`` if it refuses."""
    report = sortedf.verify.verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        None,
        instance.kv_tokens,
        starts.tolist(),
    )
    return report.total_latency if report.ok else None


def evaluate(instance: Instance, row: dict[str, Any]) -> dict[str, Any]:
    """Replace the starts in a row by their total latency; for peers also that of their order."""
    starts = row.pop("starts", None)
    totals: dict[str, int | None] = {"found": None, "listed": None}
    if starts is not None:
        totals["found"] = total_of(instance, starts)
        if row["solver"] in PEERS:
            # Equal starts, of which a coarse grid has many, by volume.
            order = np.lexsort((instance.volume, starts))
            totals["listed"] = total_of(instance, schedule_in_order(instance, order).starts)
    valid = [total for total in totals.values() if total is not None]
    refused = starts is not None and totals["found"] is None
    return row | totals | {"total_latency": min(valid, default=None), "refused": refused}


def run_case(case: Case, peers: list[str], limits: Limits) -> list[dict[str, Any]]:
    """Rows of one backlog: the start, ours, and the peers; gaps to the best certified bound."""
    instance = case.instance
    solver = "exact" if find_solver("exact").supports(instance) else "improve"
    warm_up(solver)  # its kernels are compiled into the cache on disk, before its clock starts
    lengths = instance.prompt_tokens, instance.output_tokens, instance.kv_tokens
    rows: list[dict[str, Any]] = [{"solver": "svf", "starts": schedule_by("svf", instance).starts}]
    for name in [solver, *peers]:
        print(f"{case.name} {instance.kv_tokens} {name}", file=sys.stderr)
        said = run_guarded(
            peer if name in PEERS else ours,
            lengths,
            name,
            limits,
            seconds=limits.seconds + OVERTIME,
            memory=limits.memory,
        )
        rows.append({"solver": name, **said})
    rows = [evaluate(instance, row) for row in rows]
    certified = max(case.lower_bound, rows[1].get("bound") or 0)
    best = min(row["total_latency"] for row in rows if row["total_latency"] is not None)
    for row in rows:
        total, bound = row["total_latency"], row.get("bound")
        row["gap"] = total / certified - 1 if total and certified else None
        row["false_claim"] = bound is not None and bound > best * (1 + SLACK)
    return [
        {"instance": case.name, "n": len(instance), "kv_tokens": instance.kv_tokens} | row
        for row in rows
    ]


def main() -> None:
    """Run what is asked for and print the table, or the JSON document."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--peers", default=",".join(PEERS), help="names with commas between")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help="parts of instance names, commas between")
    parser.add_argument("--tenth", action="store_true", help="a tenth of the seconds")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", type=float, default=8.0, help="GiB for each process")
    parser.add_argument("--nonzeros", type=int, default=0, help="0: by size")
    parser.add_argument("--intervals", type=int, default=0, help="0: by size")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    if unknown := [name for name in peers if name not in PEERS]:
        parser.error(f"there is no peer {unknown[0]!r}; choose from {', '.join(PEERS)}")
    if arguments.folder and not (arguments.folder / "known.csv").is_file():
        parser.error(f"{arguments.folder} holds no known.csv; give a folder like quality.py's")
    limits = Limits(
        arguments.seconds / (10 if arguments.tenth else 1),
        arguments.threads,
        int(arguments.memory * 2**30),
        arguments.nonzeros,
        arguments.intervals,
    )
    rows = []
    for case in backlogs(arguments.folder):
        label = f"{case.name} {case.instance.kv_tokens}"
        if any(part in label for part in arguments.only.split(",")):
            rows += run_case(case, peers, limits)
    if not rows:
        parser.error(f"no backlog is named like {arguments.only!r}")
    if arguments.json:
        print(json.dumps({**limits._asdict(), "rows": rows}, indent=2))
    else:
        title = f"{limits.seconds:g} s, {limits.threads} threads, {arguments.memory:g} GiB each"
        Console(width=180).print(table_of(rows, title))
    sys.exit(any(row["refused"] or row["false_claim"] or "error" in row for row in rows))


if __name__ == "__main__":
    main()
