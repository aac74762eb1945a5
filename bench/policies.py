"""Online policies side by side: means and tails in seconds on the replayed engine.

    python bench/policies.py [TRACES] [--loads 0.7,0.95,shift,burst] [--seeds 5] [--tenth]

Workloads: the Azure conversation trace in the folder TRACES with its own stamps, stretched to the
load (left out where there is none; with more than one seed its requests come as Poisson arrivals);
chats and arXiv summaries (the mix), reasoning-like answers, Pareto answers, Poisson. Loads are
shares of the saturated first-come rate; `shift` goes from 0.7 to 1.1 half-way, `burst` is all at
once. The engine: the packaged coefficients of an 8B model, 2,048
tokens a step, 256 seats. For each figure the mean over the seeds; the last column is the half width
of the 95 % interval of P99. Then what papers report, and what is found here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sortedf.engine import EngineSettings, StepTimeModel, published
from sortedf.errors import SortedfError
from sortedf.model import Instance
from sortedf.serving.arrivals import burst, poisson, shifted, stretched
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import Knowledge, exact, interval, noisy, one_bit
from sortedf.serving.metrics import figures, ratio_interval
from sortedf.serving.metrics import interval as interval_over_seeds
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import policy
from sortedf.serving.workloads import LENGTHS, Workload, of_trace, saturated_rate

MODEL = "qwen3-8b-h100"
BUDGETS = {"azure": 60_000, "mix": 40_000, "reasoning": 60_000, "pareto": 60_000}
REQUESTS = {"azure": 19_366, "mix": 8_000, "reasoning": 4_000, "pareto": 6_000}


@dataclass(frozen=True)
class Entry:
    """A line of the table; ``known`` makes what is known of a workload's lengths, by its seed."""

    label: str
    policy: OnlinePolicy
    known: Callable[[Instance, int], Knowledge] = lambda instance, seed: exact(instance)


def entries() -> list[Entry]:
    """List the policies: published ones, variants of their engine's side, derived ones."""
    named: list[tuple[str, str, dict[str, Any]]] = [
        ("fcfs", "fcfs", {}),
        ("fcfs, watermark 3 %", "fcfs", {"watermark": 0.03}),
        ("sjf", "sjf", {}),
        ("sjf, watermark 3 %", "sjf", {"watermark": 0.03}),
        ("mcsf", "mcsf", {}),
        ("svf", "svf", {}),
        ("svf-1bit", "svf-1bit", {}),
        ("svf-2", "svf-2", {}),
        ("sorted-f horizon", "sorted-f", {}),
        ("srpt", "srpt", {}),
        ("srpt, free swap", "srpt", {"eviction": "swap"}),
        ("srpt, waiting evicts nobody", "srpt", {"displaces": False}),
        ("srpt-repaired", "srpt-repaired", {}),
        ("srpt-repaired, evicts nobody", "srpt-repaired", {"displaces": False}),
        ("ltr", "ltr", {}),
        ("ltr, free swap", "ltr", {"eviction": "swap"}),
        ("trail", "trail", {}),
        ("uniboost-dist", "uniboost-dist", {}),
        ("uniboost-dist, watermark 3 %", "uniboost-dist", {"watermark": 0.03}),
        ("uniboost-space, hysteresis 0", "uniboost-space", {"hysteresis": 0.0}),
        ("uniboost-space", "uniboost-space", {}),
        ("uniboost-guard, k 64", "uniboost-guard", {"guard": 64}),
        ("uniboost-guard", "uniboost-guard", {}),
        ("uniboost-guard, no reserve", "uniboost-guard", {"reserve": False}),
        ("uniboost", "uniboost", {}),
        ("uniboost, watermark 3 %", "uniboost", {"watermark": 0.03}),
        ("uniboost, free swap", "uniboost", {"eviction": "swap"}),
        ("boost-volume", "boost-volume", {}),
    ]
    exactly = [Entry(label, policy(name, **options)) for label, name, options in named]
    less = [
        Entry(f"{name}, {title}", policy(name), known)
        for name in ("svf", "srpt-repaired", "boost-volume")
        for title, known in (("noise 0.7", _noise), ("one bit", _bit))
    ]
    bounded = [Entry(f"{name}, bounds", policy(name), _bounds) for name in ("a-min", "a-max")]
    return exactly + less + bounded


def _noise(instance: Instance, seed: int) -> Knowledge:
    return noisy(instance, 0.7, longest=int(instance.output_tokens.max()), seed=seed)


def _bit(instance: Instance, seed: int) -> Knowledge:
    return one_bit(instance)


def _bounds(instance: Instance, seed: int) -> Knowledge:
    return interval(instance, 0.7, seed=seed)


def workloads(
    kind: str, load: str, rate: float, seeds: int, count: int, traces: Path
) -> Iterator[Workload]:
    """Give the workload of each seed: at a load, as a burst, or from 0.7 to 1.1 half-way."""
    budget = BUDGETS[kind]
    for seed in range(seeds):
        if kind == "azure":
            whole = of_trace(traces / "azure_2023_conversation.csv", kv_tokens=budget)
            first = Workload(whole.instance.select(np.arange(count)), whole.arrivals[:count])
        else:
            instance = LENGTHS[kind](count, seed=seed, kv_tokens=budget)
            first = Workload(instance, burst(count))
        if load == "burst":
            yield first.arriving(burst(count))
        elif load == "shift":
            times = poisson(count, 0.7 * rate, seed=seed)
            yield first.arriving(shifted(times, at=times[count // 2], factor=1.1 / 0.7))
        elif kind == "azure" and seed == 0:
            yield first.arriving(stretched(first.arrivals, float(load) * rate))
        else:
            yield first.arriving(poisson(count, float(load) * rate, seed=seed))


def runs(
    entry: Entry, drawn: list[Workload], engine: EngineSettings, model: StepTimeModel
) -> list[dict[str, float]] | None:
    """Serve each workload; None if one never ends."""
    try:
        return [
            figures(
                simulate(
                    workload,
                    entry.policy,
                    engine,
                    model,
                    known=entry.known(workload.instance, seed),
                )
            )
            for seed, workload in enumerate(drawn)
        ]
    except SortedfError:
        return None


def table_of(
    title: str, drawn: list[Workload], engine: EngineSettings, model: StepTimeModel
) -> tuple[Table, dict[str, list[dict[str, float]]]]:
    """Serve workloads of some seeds by every policy."""
    table = Table(title, box=SIMPLE_HEAD)
    for column in ("mean", "P50", "P99", "P99.9", "TTFT", "P99", "s/token", "longest wait"):
        table.add_column(column, justify="right")
    for column in ("preempted", "recomputed", "tokens/s", "s", "P99 +-"):
        table.add_column(column, justify="right")
    found: dict[str, list[dict[str, float]]] = {}
    for entry in entries():
        begin = time.process_time()
        results = runs(entry, drawn, engine, model)
        taken = (time.process_time() - begin) / len(drawn)
        if results is None:
            table.add_row(entry.label, "never ends")
            continue
        found[entry.label] = results

        def mean(name: str, results: list[dict[str, float]] = results) -> float:
            return float(np.mean([run[name] for run in results]))

        names = ("mean_ttlt", "p50_ttlt", "p99_ttlt", "p99.9_ttlt", "mean_ttft", "p99_ttft")
        table.add_row(
            entry.label,
            *(f"{mean(name):.2f}" for name in names),
            f"{mean('mean_seconds_per_token'):.4f}",
            f"{mean('longest_wait'):.1f}",
            f"{mean('preemptions'):,.0f}",
            f"{100 * mean('recomputed_share'):.1f} %",
            f"{mean('throughput'):,.0f}",
            f"{taken:.2f}",
            f"{interval_over_seeds([run['p99_ttlt'] for run in results]).half_width:.2f}",
        )
    return table, found


CLAIMS = (
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt, free swap", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt-repaired", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost, watermark 3 %", "fcfs, watermark 3 %", "-"),
    ("mean to last token", "mean_ttlt", "uniboost, watermark 3 %", "fcfs, watermark 3 %", "-"),
    ("mean to last token", "mean_ttlt", "boost-volume", "fcfs, watermark 3 %", "-"),
    ("P99 to last token", "p99_ttlt", "boost-volume", "fcfs, watermark 3 %", "-"),
    ("P99 to first token", "p99_ttft", "uniboost", "srpt", "0.53-0.66 (UniBoost)"),
    ("throughput", "throughput", "uniboost", "fcfs", "1.01-1.12 in bursts (UniBoost)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "fcfs", "0.36-0.62 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "sjf", "0.66-0.88 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf-1bit", "sjf", "0.68-1.55 in bursts (SVF)"),
)
"""Measure, figure, policy, held against, and the ratio that the papers' figures give."""


def claims_of(found: dict[str, list[dict[str, float]]]) -> Table:
    """Hold the ratios of policies against those of the papers."""
    table = Table("measure", "policy", "against", box=SIMPLE_HEAD)
    for column in ("ratio", "95 % interval", "the papers'"):
        table.add_column(column, justify="right")
    for measure, figure, ours, theirs, paper in CLAIMS:
        if ours not in found or theirs not in found:
            table.add_row(measure, ours, theirs, "never ends", "", paper)
            continue
        ratio = ratio_interval(
            [run[figure] for run in found[ours]], [run[figure] for run in found[theirs]]
        )
        table.add_row(
            measure, ours, theirs, f"{ratio.mean:.2f}", f"{ratio.low:.2f}-{ratio.high:.2f}", paper
        )
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "traces"
    parser.add_argument("traces", nargs="?", type=Path, default=default)
    parser.add_argument("--kinds", default="azure,mix,reasoning,pareto")
    parser.add_argument("--loads", default="0.7,0.9,0.95,1.0,1.1,shift,burst")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tenth", action="store_true", help="a tenth of the requests, two loads")
    options = parser.parse_args()
    console = Console(width=190)
    model = published()[MODEL]
    loads = "0.9,burst" if options.tenth else options.loads
    seeds = 2 if options.tenth else options.seeds
    for kind in options.kinds.split(","):
        if kind == "azure" and not (options.traces / "azure_2023_conversation.csv").is_file():
            console.print("azure: the trace is not here")
            continue
        count = REQUESTS[kind] // 10 if options.tenth else REQUESTS[kind]
        settings = {"max_num_batched_tokens": 2048, "max_num_seqs": 256}
        engine = EngineSettings.for_budget(BUDGETS[kind], **settings)
        backlog = next(workloads(kind, "burst", 1.0, 1, count, options.traces)).instance
        rate = saturated_rate(backlog, engine, model)
        for load in loads.split(","):
            drawn = list(workloads(kind, load, rate, seeds, count, options.traces))
            title = f"{kind}, {count:,} requests, {load} of {rate:.2f}/s, {seeds} seeds"
            table, found = table_of(title, drawn, engine, model)
            console.print(table)
            console.print(claims_of(found))


if __name__ == "__main__":
    main()
