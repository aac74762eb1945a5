"""What the price ascent reaches, and what it takes.

    python bench/prices.py [FOLDER] [--repeats 3] [--first-steps]

FOLDER holds backlogs NAME.csv and `known.csv` with the columns instance, kv_tokens,
best_total_latency and lower_bound. A row each: the bound of the default ascent, its share of the
lower bound known, its gap to the best schedule known, the best closed form, and the seconds of
processor time of `ascend` (list schedules included, compilation not; median of the repeats) and
of the exact evaluation. At the end copies of the largest mix: 100,000 and 1,000,000 requests.
`--first-steps` tries the first step of the fine ascent instead: the share reached by factors of the
longest move that does not lower the bound. The exit code is 1 if a bound is above the value known.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
import sortedf.lp.ascent
from sortedf.lp import ascend, price_bound
from sortedf.lp.bounds import CLOSED_FORMS

T = TypeVar("T")
LARGEST = "mix8020-10000-s0"
FACTORS = (100, 200, 400, 700, 1000, 1400, 2000)


def timed(action: Callable[[], T], repeats: int) -> tuple[T, float]:
    """Return the result of an action and the median of its seconds of processor time."""
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        result = action()
        seconds.append(time.process_time() - begin)
    return result, median(seconds)


def read_known(folder: Path) -> list[tuple[str, int, int, int]]:
    """Rows of known.csv: instance, KV budget, best total latency, lower bound."""
    rows = (line.split(",") for line in (folder / "known.csv").read_text().split()[1:])
    return [(name, int(budget), int(best), int(bound)) for name, budget, best, bound in rows]


def row(name: str, instance: sortedf.Instance, repeats: int) -> tuple[list[str], float]:
    """First cells of a row, and the bound."""
    (prices, bound), seconds = timed(lambda: ascend(instance), repeats)
    _, exact = timed(lambda: price_bound(instance, prices), repeats)
    closed = {form: float(bounded(instance)) for form, bounded in CLOSED_FORMS.items()}
    best = max(closed, key=closed.__getitem__)
    cells = [
        name,
        f"{instance.kv_tokens:,}",
        f"{len(prices.first):,}",
        f"{float(bound):,.1f}",
        f"{seconds:.2f}",
        f"{exact:.3f}",
        f"{closed[best] / float(bound):.5f} {best}",
    ]
    return cells, float(bound)


def first_steps(folder: Path) -> None:
    """Print the share of the known bound by factors of the longest move."""
    table = Table("instance", "M", *map(str, FACTORS), box=SIMPLE_HEAD)
    for name, kv_tokens, _, known in read_known(folder):
        instance = sortedf.read_backlog(folder / f"{name}.csv", kv_tokens=kv_tokens)
        shares = []
        for factor in FACTORS:
            sortedf.lp.ascent.FIRST_STEP = factor
            shares.append(f"{float(ascend(instance)[1]) / known:.6f}")
        table.add_row(name, f"{kv_tokens:,}", *shares)
    Console(width=120).print(table)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "instances"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first-steps", action="store_true")
    options = parser.parse_args()
    ascend(sortedf.example(), iterations=300)
    if options.first_steps:
        first_steps(options.folder)
        return
    faults: list[str] = []
    right = {"justify": "right"}
    table = Table("instance", box=SIMPLE_HEAD)
    for title in ("M", "pieces", "bound", "s", "exact s", "closed form", "of known", "gap"):
        table.add_column(title, **right)  # type: ignore[arg-type]
    for name, kv_tokens, best, known in read_known(options.folder):
        instance = sortedf.read_backlog(options.folder / f"{name}.csv", kv_tokens=kv_tokens)
        cells, bound = row(name, instance, options.repeats)
        if bound > best:
            faults.append(f"{name}: the bound {bound:,.1f} is above a known value, {best:,}")
        table.add_row(*cells, f"{bound / known:.6f}", f"{100 * (best / bound - 1):.2f} %")
    base = sortedf.read_backlog(options.folder / f"{LARGEST}.csv", kv_tokens=1)
    for copies in (10, 100):
        for kv_tokens in (16492, 100000):
            lengths = np.tile(base.prompt_tokens, copies), np.tile(base.output_tokens, copies)
            instance = sortedf.Instance(*lengths, kv_tokens)
            table.add_row(*row(f"{LARGEST} x {copies}", instance, 1)[0], "", "")
    Console(width=140).print(table)
    sys.exit("\n".join(faults) or None)


if __name__ == "__main__":
    main()
