"""Output lengths learnt from a trace: how far off, what that costs, and what it buys.

    python bench/predictor.py [TRACES] [--load 0.95] [--seeds 3] [--tenth]

Of every trace in the folder TRACES the first half trains and calibrates, the second is predicted
and served; of a drawn mix of chats and arXiv summaries, too, where a prompt tells which it is.
First the errors on the second half, then the policies on the replayed engine of bench/policies.py
with outputs known exactly, learnt, and all taken to be the earlier median (alike, which has no
bounds for a-min and a-max); fcfs and uniboost, with a watermark, need to know nothing. Arrivals are
the trace's own, stretched to the load, for the first seed, and Poisson for the others. Last the
time of predictions against the mean end-to-end time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.engine import EngineSettings, published
from sortedf.instances.history import read_requests
from sortedf.instances.traits import FloatArray, History, Traits
from sortedf.model import Instance
from sortedf.serving.arrivals import poisson, stretched
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import Knowledge, exact, nothing, one_bit
from sortedf.serving.metrics import figures, ratio_interval
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import policy
from sortedf.serving.prediction_errors import (
    PAPER_SHARES,
    constant_errors,
    errors_of,
    overhead_of,
)
from sortedf.serving.predictor import PredictedLengths, Predictor, learn, learners
from sortedf.serving.workloads import Workload, saturated_rate

MODEL = "qwen3-8b-h100"
TRACES = (
    ("azure conversation", "azure_2023_conversation.csv", 60_000),
    ("mooncake conversation", "mooncake_conversation.jsonl", 400_000),
    ("arxiv summaries", "arxiv_summarization.csv", 60_000),
    ("sharegpt on vllm", "vllm_runs/RTX4090-llama-3.1-8b/requests.jsonl", 20_000),
)
"""Name, file and KV budget (tokens)."""

MIX, MIX_BUDGET = 16_000, 40_000
WATERMARK = 0.03


def policies() -> list[tuple[str, OnlinePolicy, bool]]:
    """List what is served by: label, policy, and whether it needs to know anything."""
    kept = {"watermark": WATERMARK}
    return [
        ("fcfs, watermark", policy("fcfs", **kept), False),
        ("uniboost, watermark", policy("uniboost", **kept), False),
        *((name, policy(name), True) for name in ("sjf", "svf", "svf-1bit", "boost-volume")),
        ("svf, watermark, no check", policy("svf", future=False, **kept), True),
        *((name, policy(name), True) for name in ("a-min", "a-max")),
    ]


@dataclass(frozen=True)
class Half:
    """What was learnt from the first half of a trace, and the second half to be served."""

    name: str
    earlier: History
    later: History
    instance: Instance
    seconds: FloatArray | None
    predictor: Predictor
    learning: float
    predicted: PredictedLengths


def halves(folder: Path, part: int) -> Iterator[Half]:
    """Learn from the first half of every trace; ``part``: only one in so many requests."""
    for name, file, budget in TRACES:
        if not (folder / file).is_file():
            continue
        found = read_requests(folder / file, finished=True, note=lambda text: None)
        # Those that no plan can serve are none of an engine's.
        fit = np.flatnonzero(found.instance.prompt_tokens + found.instance.output_tokens <= budget)
        seconds = np.asarray(found.seconds, np.float64)
        order = fit[np.argsort(seconds[fit], kind="stable")]
        order = order[: max(len(order) // part, 200)]
        instance = found.instance.select(order).replace(kv_tokens=budget)
        yield _learnt(name, instance, seconds[order] if seconds.any() else None)
    mix = sortedf.generate("mix", MIX // part, seed=0, kv_tokens=MIX_BUDGET)
    yield _learnt("drawn mix", mix, None)


def _learnt(name: str, instance: Instance, seconds: FloatArray | None) -> Half:
    traits = Traits(prompt_tokens=instance.prompt_tokens)
    history = History(traits=traits, output_tokens=instance.output_tokens, source=name)
    earlier, later = history.split(0.5)
    begin = time.process_time()
    predictor = learn(earlier)
    learning = time.process_time() - begin
    return Half(
        name,
        earlier,
        later,
        instance.select(np.arange(len(earlier), len(history))),
        None if seconds is None else seconds[len(earlier) :],
        predictor,
        learning,
        predictor.predict(later.traits),
    )


def error_table(found: list[Half]) -> Table:
    """Print errors on the second halves."""
    table = Table("second half of", box=SIMPLE_HEAD, title="errors")
    for column in ("n", "median", "mean", "alike: median", "mean", "rank", "90 % holds"):
        table.add_column(column, justify="right")
    for column in ("width / prediction", "bit right", "guess", "learning s", "us, many", "us, one"):
        table.add_column(column, justify="right")
    for half in found:
        errors = errors_of(half.predicted, half.later)
        mean, median = constant_errors(half.earlier, half.later)
        cost = overhead_of(half.predictor, half.later.traits, half.learning)
        table.add_row(
            half.name,
            f"{errors.n:,}",
            f"{errors.median_relative:.0%}",
            f"{errors.mean_relative:.0%}",
            f"{median:.0%}",
            f"{mean:.0%}",
            f"{errors.rank_correlation:.2f}",
            f"{errors.coverage:.1%}",
            f"{errors.relative_width:.0%}",
            f"{errors.bit_accuracy:.0%}",
            f"{errors.bit_guess:.0%}",
            f"{cost.learning:.2f}",
            f"{1e6 * cost.together:.0f}",
            f"{1e6 * cost.alone:,.0f}",
        )
    return table


def _known(half: Half, name: str, how: str) -> Knowledge:
    if how == "exact":
        return one_bit(half.instance) if name == "svf-1bit" else exact(half.instance)
    if how == "learnt":
        bit = name == "svf-1bit"
        return half.predicted.known_bit() if bit else half.predicted.known(half.instance)
    if how == "nothing":
        return nothing(half.instance)
    n, middle = len(half.instance), float(np.median(half.earlier.output_tokens))
    return Knowledge(kind="alike", predicted=np.full(n, middle))


def served_table(half: Half, load: float, seeds: int, console: Console) -> None:
    """Serve the second half under every policy by what is known; print what that buys."""
    settings = {"max_num_batched_tokens": 2048, "max_num_seqs": 256}
    engine = EngineSettings.for_budget(half.instance.kv_tokens, **settings)
    model = published()[MODEL]
    rate = load * saturated_rate(half.instance, engine, model)
    n = len(half.instance)
    drawn = [
        Workload(
            half.instance,
            poisson(n, rate, seed=seed)
            if seed or half.seconds is None
            else stretched(half.seconds, rate),
        )
        for seed in range(seeds)
    ]
    title = f"{half.name}, {n:,} requests, {load:g} of {rate / load:.2f}/s, {seeds} seeds"
    table = Table("policy", "lengths", box=SIMPLE_HEAD, title=title)
    for column in (
        "mean s",
        "P99 s",
        "P99 first s",
        "mean x exact",
        "mean x alike",
        "95 % of that",
    ):
        table.add_column(column, justify="right")
    rows: dict[tuple[str, str], list[dict[str, float]]] = {}
    for label, chosen, asks in policies():
        for how in ("exact", "learnt", "alike") if asks else ("nothing",):
            if how == "alike" and chosen.name.startswith("a-"):
                continue
            known = _known(half, chosen.name, how)
            rows[label, how] = [
                figures(simulate(workload, chosen, engine, model, known=known))
                for workload in drawn
            ]
    for (name, how), runs in rows.items():
        means = [run["mean_ttlt"] for run in runs]
        against = ["", "", ""]
        if how == "learnt":
            for place, other in enumerate(("exact", "alike")):
                if (name, other) not in rows:
                    continue
                theirs = [run["mean_ttlt"] for run in rows[name, other]]
                ratio = ratio_interval(means, theirs)
                against[place] = f"{ratio.mean:.2f}"
                if other == "alike" and seeds > 1:
                    against[2] = f"{ratio.low:.2f}-{ratio.high:.2f}"
        table.add_row(
            name,
            how,
            *(
                f"{np.mean([run[figure] for run in runs]):.2f}"
                for figure in ("mean_ttlt", "p99_ttlt", "p99_ttft")
            ),
            *against,
        )
    console.print(table)
    latency = float(np.mean([run["mean_ttlt"] for run in rows["svf", "learnt"]]))
    cost = overhead_of(half.predictor, half.later.traits, half.learning)
    many, one = cost.shares(latency)
    first, second = PAPER_SHARES
    console.print(
        f"a prediction against the mean end-to-end time of svf, {latency:.2f} s: {one:.4%} alone, "
        f"{many:.6%} among many (papers: {first:.2%} and {second:.2%})\n"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "traces"
    parser.add_argument("traces", nargs="?", type=Path, default=default)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tenth", action="store_true", help="a tenth of the requests, two seeds")
    options = parser.parse_args()
    learners()  # importing is not learning
    console = Console(width=170)
    found = list(halves(options.traces, 10 if options.tenth else 1))
    console.print(error_table(found))
    for half in found:
        served_table(half, options.load, 2 if options.tenth else options.seeds, console)


if __name__ == "__main__":
    main()
