"""Which thresholds `quantile-greedy` should try: total latency by sample size and quantiles.

    python bench/quantile_sweep.py [--draws 5] [--requests 2000]

Each cell is the mean, over draws of several workloads, of the total latency divided by that of
`local-swap` on the same backlog; then the time of phase 1 in milliseconds. Seeded: the same table
every time, but for the times. Means differ by some 0.003 from draw to draw. More quantiles than 16
double the time for no more than that. The size of the sample does not matter for these means; on
the workloads of `bench/sorted_f.py` 256 is up to 1 % better than 16, for a tenth more time. So 16
and 256 were chosen: `QUANTILES` and `SAMPLE` in `sortedf/solvers/sorted_f.py`. A schedule that does
not verify is an error.
"""

from __future__ import annotations

import argparse
import time
from statistics import mean

import numpy as np
from rich.console import Console
from rich.table import Table

from sortedf import Instance
from sortedf.model.instance import IntArray
from sortedf.solvers.front import verified_latency
from sortedf.solvers.in_order import schedule_in_order
from sortedf.solvers.sorted_f import quantile_batch, sorted_f_order, swap_batch

SAMPLES = (16, 64, 256, 1024)
QUANTILES = (1, 2, 4, 8, 16, 32)


def draw(kind: str, n: int, seed: int) -> Instance:
    """Draw a backlog of a kind: a fifth of long prompts, or one family of lengths."""
    rng = np.random.default_rng([seed, n])
    if kind == "mixed":
        paper = rng.random(n) < 0.2
        prompt = np.where(paper, rng.integers(1500, 4000, n), rng.geometric(1 / 40, n))
        output = np.where(paper, rng.geometric(1 / 200, n), rng.geometric(1 / 85, n))
    elif kind == "log-normal":
        prompt = rng.lognormal(6.5, 1.1, n).astype(np.int64) + 1
        output = rng.lognormal(5.0, 0.9, n).astype(np.int64) + 1
    elif kind == "uniform":
        prompt, output = rng.integers(1, 2000, n), rng.integers(1, 2000, n)
    else:
        prompt = rng.integers(1, 4000, n)
        output = np.maximum(1, (4000 - prompt) // 8 + rng.integers(-100, 100, n))
    return Instance(np.minimum(prompt, 8000), np.minimum(output, 8000), 16_492)


KINDS = ("mixed", "log-normal", "uniform", "opposed")


def total_latency(instance: Instance, order: IntArray) -> int:
    """Total latency of strict list scheduling by an order, verified."""
    return verified_latency(instance, schedule_in_order(instance, order))


def main() -> None:
    """Sweep and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000)
    arguments = parser.parse_args()
    backlogs = {
        kind: [draw(kind, arguments.requests, seed) for seed in range(arguments.draws)]
        for kind in KINDS
    }
    reference = {
        kind: [total_latency(b, sorted_f_order(b, swap_batch)) for b in some]
        for kind, some in backlogs.items()
    }
    sorted_f_order(backlogs[KINDS[0]][0], quantile_batch)
    table = Table("sample", "quantiles", *KINDS, "all", "ms")
    for sample in SAMPLES:
        for quantiles in QUANTILES:

            def select(
                prompt: IntArray,
                output: IntArray,
                left: IntArray,
                kv_tokens: int,
                sample: int = sample,
                quantiles: int = quantiles,
            ) -> IntArray:
                return quantile_batch(prompt, output, left, kv_tokens, sample, quantiles)

            ratios: dict[str, list[float]] = {}
            seconds = []
            for kind, some in backlogs.items():
                ratios[kind] = []
                for backlog, best in zip(some, reference[kind], strict=True):
                    begin = time.process_time()
                    order = sorted_f_order(backlog, select)
                    seconds.append(time.process_time() - begin)
                    ratios[kind].append(total_latency(backlog, order) / best)
            table.add_row(
                str(sample),
                str(quantiles),
                *(f"{mean(ratios[kind]):.4f}" for kind in KINDS),
                f"{mean(mean(some) for some in ratios.values()):.4f}",
                f"{1000 * mean(seconds):.1f}",
            )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
