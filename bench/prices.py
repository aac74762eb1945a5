"""What the price ascent reaches, and what it takes.

    python bench/prices.py [FOLDER] [--repeats 3] [--first-steps] [--tenth]

A row for each backlog of `bench/backlogs.py`, and for 10 and 100 copies of the largest mix (100,000
and 1,000,000 requests): the bound of the default ascent and of the best closed form, the share of
the long run that the better of the two is (`bench/bounds`), its gap to the best schedule known, and
the seconds of processor time of `ascend` (list schedules included, compilation not; median of the
repeats) and of the exact evaluation; peak memory of the process so far.
`--first-steps` tries the first step of the fine ascent instead: the share reached by factors of the
longest move that does not lower the bound. `--tenth` leaves out the million. The exit code is 1 if
a bound is above the best schedule known.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

from backlogs import folder_or_none, known
from long_bounds import backlogs, kept
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
import sortedf.lp.ascent
from sortedf.lp import ascend, price_bound
from sortedf.lp.bounds import CLOSED_FORMS

T = TypeVar("T")
FACTORS = (100, 200, 400, 700, 1000, 1400, 2000)


def timed(action: Callable[[], T], repeats: int) -> tuple[T, float]:
    """Return the result of an action and the median of its seconds of processor time."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        result = action()
        seconds.append(time.process_time() - begin)
    return result, median(seconds)


def row(name: str, instance: sortedf.Instance, best: float, repeats: int) -> tuple[list[str], bool]:
    """Cells of a row, and whether the bound is at most the best schedule known."""
    (prices, bound), seconds = timed(lambda: ascend(instance), repeats)
    _, exact = timed(lambda: price_bound(instance, prices), repeats)
    closed = {form: bounded(instance) for form, bounded in CLOSED_FORMS.items()}
    form = max(closed, key=closed.__getitem__)
    value, long_run = max(bound, closed[form]), kept(name, instance)
    cells = [
        name,
        f"{instance.kv_tokens:,}",
        f"{len(prices.first):,}",
        f"{float(bound):,.1f}",
        f"{float(closed[form] / bound):.5f} {form}",
        f"{float(value / long_run):.6f}" if long_run else "",
        f"{100 * (best / float(value) - 1):.2f} %" if best < float("inf") else "",
        f"{seconds:.2f}",
        f"{exact:.3f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f}",
    ]
    return cells, value <= best


def first_steps(folder: Path | None) -> None:
    """Print the share of the long run by factors of the longest move."""
    table = Table("instance", "M", *map(str, FACTORS), box=SIMPLE_HEAD)
    for name, instance in backlogs(folder):
        shares = []
        for factor in FACTORS:
            sortedf.lp.ascent.FIRST_STEP = factor
            long_run = kept(name, instance) or 1
            shares.append(f"{float(ascend(instance)[1] / long_run):.6f}")
        table.add_row(name, f"{instance.kv_tokens:,}", *shares)
    Console(width=120).print(table)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first-steps", action="store_true")
    parser.add_argument("--tenth", action="store_true")
    options = parser.parse_args()
    folder = folder_or_none(options.folder)
    ascend(sortedf.example(), iterations=300)
    if options.first_steps:
        first_steps(folder)
        return
    best = {(named.name, named.kv_tokens): named.best for named in known(folder)}
    table = Table("instance", box=SIMPLE_HEAD)
    for title in (
        "M",
        "pieces",
        "bound",
        "closed form",
        "of long run",
        "gap",
        "s",
        "exact s",
        "GiB",
    ):
        table.add_column(title, justify="right")
    faults = []
    for name, instance in backlogs(folder):
        if options.tenth and len(instance) > 100_000:
            continue
        value = best.get((name, instance.kv_tokens), float("inf"))
        cells, holds = row(name, instance, value, 1 if options.tenth else options.repeats)
        table.add_row(*cells)
        if not holds:
            faults.append(f"{name}: the bound is above a known value, {value:,}")
    Console(width=150).print(table)
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
