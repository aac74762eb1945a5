"""What it takes to check a certificate: pieces, size of the file, seconds of processor time.

    python bench/certificates.py [FOLDER] [--seconds 30]

FOLDER holds backlogs NAME.csv. Prices of the 2,000 requests of the mix on grids of 200 and of 4,000
linear pieces (those without a price are left out), of 10,000 and 100,000 requests with the default
grid, and the tree of 50 requests, grown for `--seconds` at most from a plan of `improve`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf import Instance
from sortedf.certificate import check
from sortedf.instances import new_certificate
from sortedf.lp import Bound, Prices, ascend, price_bound
from sortedf.lp.ascent import quadratic_nodes
from sortedf.lp.bounds import branching_bound, prices_bound
from sortedf.lp.prices import rounded
from sortedf.solvers import MaxSeconds


def on_grid(instance: Instance, pieces: int) -> Bound:
    """Prices of the default ascent, laid on so many linear pieces."""
    prices, _ = ascend(instance)
    per_step = prices.per_step()
    per_step[0] = per_step[1]
    nodes = quadratic_nodes(prices.horizon, pieces)
    at_nodes = per_step[nodes]
    slope = np.diff(at_nodes) / np.diff(nodes)
    laid: Prices = rounded(instance, nodes, at_nodes[:-1] + slope, slope)
    return Bound(price_bound(instance, laid), "prices", laid)


def row(name: str, instance: Instance, bound: Bound) -> list[str]:
    """Check a bound; cells of the table."""
    certificate = new_certificate(instance, bound)
    columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
    s, o, a = (column.tolist() for column in columns)
    begin = time.process_time()
    report = check(s, o, a, certificate, kv_tokens=instance.kv_tokens, ids=instance.ids)
    seconds = time.process_time() - begin
    if not report.ok:
        raise SystemExit(f"{name}: {report.violations[0]}")
    megabytes = len(msgspec.json.encode(certificate)) / 2**20
    return [
        name,
        f"{instance.kv_tokens:,}",
        f"{float(bound.value):,.1f}",
        f"{report.pieces:,}",
        f"{report.leaves:,}",
        f"{megabytes:.2f}",
        f"{seconds:.1f}",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "instances"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()

    def read(name: str) -> Instance:
        return sortedf.read_backlog(options.folder / f"{name}.csv", kv_tokens=16_492)

    table = Table("instance", box=SIMPLE_HEAD)
    for title in ("M", "bound", "pieces", "leaves", "MB", "s"):
        table.add_column(title, justify="right")
    small, middle, large = read("mix8020-50-s0"), read("mix8020-2000-s0"), read("mix8020-10000-s0")
    for pieces in (200, 4000):
        table.add_row(*row("mix8020-2000-s0", middle, on_grid(middle, pieces)))
    table.add_row(*row("mix8020-10000-s0", large, prices_bound(large)))
    many = sortedf.generate("mix", 100_000, seed=1, kv_tokens=100_000)
    table.add_row(*row("100,000 of the mix", many, prices_bound(many)))
    plan = sortedf.solve(small, solver="improve", stop=MaxSeconds(options.seconds / 5))
    stop = MaxSeconds(options.seconds)
    tree = branching_bound(small, start=plan.schedule, stop=stop)
    table.add_row(*row("mix8020-50-s0, tree", small, tree))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
