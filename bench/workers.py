"""Plans over several workers: gap, time, and what each way of planning is worth.

    python bench/workers.py [FOLDER] [--seconds 60] [--backlog mix8020-2000-s0] [--tenth]

On 1, 2, 4 and 8 workers of the same budget, and on mixed ones: total latency by smallest volume and
by `improve`, the bound, both gaps, and the seconds that each takes (bounding included for
`improve`). A bound above a plan, a plan or a certificate that is not accepted, or, on identical
workers, a gap of `improve` more than a percentage point above that of one worker, is a fault: exit
code 1. FOLDER holds the backlogs; see `bench/backlogs.py`. `--tenth` takes 200 requests and a
number of iterations instead of seconds, and leaves that comparison out: of so few requests eight
workers have too few each.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from backlogs import folder_or_none, load

import sortedf
from sortedf import Instance
from sortedf.certificate import check
from sortedf.instances import new_certificate
from sortedf.model.workers import Worker, identical_workers
from sortedf.solvers import MaxIterations, MaxSeconds, Stop

BUDGET = 16_492
NUMBERS = (1, 2, 4, 8)
MIXED = ((16_492, 8_192), (32_768, 8_192, 8_192), (16_492, 3_000, 3_000, 3_000))
ALLOWED = 0.01
ITERATIONS = 6


def main() -> None:
    """Plan on each set of workers, print a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each search")
    parser.add_argument("--backlog", default="mix8020-2000-s0")
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    name = "mix8020-200-s0" if arguments.tenth else arguments.backlog
    backlog = load(folder_or_none(arguments.folder), name, BUDGET)
    faults: list[str] = []
    single = None
    print(f"{name}\n{'workers':26} {'svf':>10} {'gap':>7} {'s':>6}", end="")
    print(f" {'improve':>10} {'gap':>7} {'s':>6} {'bound':>10}")
    for label, workers in sets_of_workers(arguments.tenth):
        stop: Stop = MaxIterations(ITERATIONS)
        if not arguments.tenth:
            stop = MaxSeconds(arguments.seconds)
        gap = measure(label, backlog.on_workers(workers), stop, faults)
        single = gap if single is None else single
        alike = len({worker.kv_tokens for worker in workers}) == 1
        if alike and not arguments.tenth and gap > single + ALLOWED:
            faults.append(f"{label}: a gap of {gap:.2%}, one worker has {single:.2%}")
    sys.exit("\n".join(faults) or None)


def sets_of_workers(tenth: bool) -> Iterator[tuple[str, tuple[Worker, ...]]]:
    """Name the sets of workers, one worker first."""
    for number in NUMBERS[:3] if tenth else NUMBERS:
        yield f"{number} x {BUDGET:,}", identical_workers(number, BUDGET)
    for budgets in MIXED[-1:] if tenth else MIXED:
        label = " + ".join(f"{budget:,}" for budget in budgets)
        yield label, tuple(Worker(str(k), budget) for k, budget in enumerate(budgets))


def measure(label: str, instance: Instance, stop: Stop, faults: list[str]) -> float:
    """Plan by volume and by search, have the bound checked; returns the gap of the search."""
    begin = time.process_time()
    simple = sortedf.solve(instance, solver="svf", bound=False)
    simple_seconds = time.process_time() - begin
    begin = time.perf_counter()
    best = sortedf.solve(instance, solver="improve", stop=stop)
    seconds = time.perf_counter() - begin
    bound = best.lower_bound or 0
    if bound > min(simple.total_latency, best.total_latency):
        faults.append(f"{label}: a bound of {bound} is above a plan")
    if best.proof is not None:
        columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
        s, o, a = (column.tolist() for column in columns)
        certificate = new_certificate(instance, best.proof)
        report = check(s, o, a, certificate, ids=instance.ids)
        if not report.ok:
            faults.append(f"{label}: {report.violations[0]}")
    gap = best.total_latency / bound - 1
    print(
        f"{label:26} {simple.total_latency:10,} {simple.total_latency / bound - 1:7.2%} "
        f"{simple_seconds:6.2f} {best.total_latency:10,} {gap:7.2%} {seconds:6.1f} {bound:10,}",
        flush=True,
    )
    return gap


if __name__ == "__main__":
    main()
