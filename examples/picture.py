"""Draw the picture of the README: every simple order on the packaged example.

Run ``python examples/picture.py docs/pictures/orders.png``.
"""

from __future__ import annotations

import sys

import sortedf
from sortedf.report.pictures import answers_over_time

ORDERS = ["svf", "svf-1bit", "size", "mcsf", "random", "fcfs", "longest"]


def main(path: str) -> None:
    """Plan the packaged example by each order and save the picture."""
    backlog = sortedf.example()
    completions = {}
    for name in ORDERS:
        result = sortedf.solve(backlog, solver=name, bound=False)
        completions[name] = result.schedule.starts + backlog.output_tokens
    title = f"{len(backlog)} requests, KV budget {backlog.kv_tokens:,} tokens"
    answers_over_time(completions, title).savefig(path, dpi=150)


if __name__ == "__main__":
    main(*sys.argv[1:])
