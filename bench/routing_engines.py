"""Two real engines behind the router: estimated TTFT against realised, and rules beside each other.

    python bench/routing_engines.py [--repeats 3] [--requests 240] [--load 1.0] [--clock processor]

Needs vLLM for the CPU: ``make vllm``, or its Python in SORTEDF_VLLM_PYTHON. Two engines run at the
same time, each in a process of its own on one thread: a small model with much KV cache and many
seats, and one of several times the work with less of both. Bursts through both warm them up and say
how much they serve; so many requests a second, times ``--load``, come in all that follows
(Poisson), first once by shortest queue. A repetition is one workload by the router, priced, and by
each rule that it is compared with; before each of these runs the engines are calibrated from the
steps of the run before. Lengths of outputs are known exactly, so that errors of estimates are the
estimator's: what `Router.estimates` says at the moment of routing, against the first token, at the
engine that the request was sent to; requests that the router held back have no estimate.

By the clock of the processor each engine has a core to itself, whatever else the machine does; by
that of the wall (``--clock wall``) all run freely. Tables to stdout: medians over repetitions, and
what they range over. Progress, with the load of the machine, to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "routing"))

from served_engines import CLOCKS, Engines, engine_processes  # noqa: E402
from served_runs import Served, decisions_again, engine_counts, serve  # noqa: E402

from sortedf.engine import EngineSettings, StepTimeModel, calibrate_from_steps  # noqa: E402
from sortedf.routing.instances import EngineInstance  # noqa: E402
from sortedf.routing.lengths import as_predicted  # noqa: E402
from sortedf.routing.metrics import relative_errors  # noqa: E402
from sortedf.routing.router import Router  # noqa: E402
from sortedf.routing.workload import RoutedWorkload, utilities  # noqa: E402
from sortedf.serving.arrivals import poisson  # noqa: E402

RULES = ("priced", "round-robin", "shortest-queue")
OURS = "priced"

COMMON: dict[str, Any] = {
    "block_size": 32,
    "max_model_len": 1024,
    "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False,
    "enable_chunked_prefill": True,
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "policy": "fcfs",
    "async_scheduling": False,
    "enable_prefix_caching": False,
    "shared_blocks": 0,
}
SMALL = COMMON | {"num_gpu_blocks": 200, "max_num_batched_tokens": 512, "max_num_seqs": 24}
LARGE = COMMON | {"num_gpu_blocks": 90, "max_num_batched_tokens": 256, "max_num_seqs": 12}
SMALL_MODEL = {
    "hidden_size": 384,
    "intermediate_size": 1536,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
}
LARGE_MODEL = SMALL_MODEL | {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 6,
                             "num_attention_heads": 8, "num_key_value_heads": 8}  # fmt: skip
"""Of random weights, large enough that a step is more than what the engine's own Python takes."""

TASKS = {"talk": ((10, 120), (10, 80)), "summary": ((150, 500), (5, 40))}
"""Least and greatest prompt and output (tokens)."""

QUALITY = {"small": {"talk": 60.0, "summary": 50.0}, "large": {"talk": 80.0, "summary": 90.0}}
PRICES = {"small": (0.05, 0.2), "large": (0.3, 0.6)}

LIMIT, LIMIT_TOKEN = 0.5, 1e-3
"""Seconds to the first token: for all, and for each prompt token."""

LONGEST = 80

FIGURES = {
    "median error, %": 100,
    "P95 error, %": 100,
    "on time, %": 100,
    "on-time utility": 1,
    "median TTFT, s": 1,
    "P95 TTFT, s": 1,
    "held back, %": 100,
    "to large, %": 100,
    "twins agree, %": 100,
}
"""Figures of a run, and by what they are multiplied for the table."""


def instances(models: Sequence[StepTimeModel]) -> tuple[EngineInstance, ...]:
    """Describe both engines by their step times."""
    return tuple(
        EngineInstance(
            name=name,
            step_time=model,
            settings=EngineSettings(**settings),
            prompt_price=PRICES[name][0],
            output_price=PRICES[name][1],
            quality=QUALITY[name],
        )
        for name, settings, model in zip(QUALITY, (SMALL, LARGE), models, strict=True)
    )


def drawn(n: int, rate: float, seed: int) -> RoutedWorkload:
    """Draw requests of both tasks; ``rate`` inf for all at once. Outputs are known exactly."""
    generator = np.random.default_rng([seed, 22])
    tasks = [list(TASKS)[k] for k in generator.integers(0, 2, n)]
    lengths = np.array([[generator.integers(*ends) for ends in TASKS[task]] for task in tasks])
    prompt, output = lengths[:, 0], np.repeat(lengths[:, 1:], 2, axis=1)
    return RoutedWorkload(
        arrivals=np.zeros(n) if rate == np.inf else poisson(n, rate, seed=seed),
        task=tuple(tasks),
        prompt_tokens=prompt,
        output_tokens=output,
        predicted=output.astype(np.float64),
        limit=LIMIT + LIMIT_TOKEN * prompt,
        name=f"{rate:.3g}/s",
    )


def router(models: Sequence[StepTimeModel], rule: str) -> Router:
    """Give a router that knows all lengths."""
    return Router(
        instances(models), rule, lengths=as_predicted(), longest_output=LONGEST, every_step=True
    )


def rehearsed(engines: Engines, n: int, load: float, seed: int) -> tuple[float, Served]:
    """Warm the engines up by what comes later; requests a second to be sent, and the last run.

    A burst, twice; the second one says how much they serve. Then a workload by shortest queue.
    """
    plain = [StepTimeModel(fixed=0.02)] * 2
    for _ in range(2):
        burst = serve(engines, router(plain, "round-robin"), drawn(n, np.inf, seed))
        rates = []
        for place in range(2):
            ends = burst.completion[burst.instance == place]
            rates.append(len(ends) / ends.max())
        say(f"a burst is served at {rates[0]:.2f} and {rates[1]:.2f} requests/s")
    rate = load * sum(rates)
    return rate, serve(engines, router(plain, "shortest-queue"), drawn(n, rate, seed))


def calibrated(served: Served) -> list[StepTimeModel]:
    """Fit each engine's step times to its steps in a run."""
    models = []
    for place in range(2):
        log = served.step_log(place)
        calibration, fit = calibrate_from_steps(log)
        error = fit.held_out[fit.form].error
        say(f"engine {place}: {len(log.seconds)} steps, {fit.form}, held out {error:.1%}")
        models.append(calibration.model)
    return models


def figures(served: Served, workload: RoutedWorkload) -> dict[str, float]:
    """Give the figures of a run; see FIGURES."""
    errors = relative_errors(served.estimated, served.ttft)
    worth = utilities(workload, instances([StepTimeModel(fixed=1.0)] * 2))
    worth = worth[np.arange(len(workload)), served.instance]
    on_time = served.ttft <= workload.limit
    agree = [served.twins[:, place] == engine_counts(served, place) for place in range(2)]
    values = (
        np.median(errors),
        np.quantile(errors, 0.95),
        on_time.mean(),
        (worth * on_time).mean(),
        np.median(served.ttft),
        np.quantile(served.ttft, 0.95),
        (served.sent > served.arrival).mean(),
        (served.instance == 1).mean(),
        np.mean(agree),
    )
    return {name: float(value) for name, value in zip(FIGURES, values, strict=True)}


def repetition(
    engines: Engines, before: Served, n: int, rate: float, seed: int, rules: Sequence[str]
) -> tuple[dict[str, dict[str, float]], Served]:
    """Send one workload by every rule, each calibrated from the run before; the last run too."""
    workload = drawn(n, rate, seed)
    found = {}
    for rule in rules:
        models = calibrated(before)
        before = served = serve(engines, router(models, rule), workload)
        if not (served.answers == 1).all():
            sys.exit(f"{rule}: not every request was answered once")
        if not decisions_again(served, router(models, rule)):
            sys.exit(f"{rule}: the same events led to other decisions")
        found[rule] = figures(served, workload)
        say(f"{rule}: " + ", ".join(f"{name} {value:.3g}" for name, value in found[rule].items()))
    return found, before


def say(text: str) -> None:
    """Tell how it goes."""
    print(f"{text}; load {os.getloadavg()[0]:.1f}", file=sys.stderr)


def table(title: str, repetitions: Sequence[Mapping[str, Mapping[str, float]]]) -> Table:
    """Show medians over repetitions by rule, and what they range over."""
    result = Table(title=title, box=SIMPLE_HEAD)
    for name in ("rule", *FIGURES):
        result.add_column(name, justify="right")
    for rule in repetitions[0]:
        cells = []
        for name, factor in FIGURES.items():
            values = [factor * found[rule][name] for found in repetitions]
            form = ".1f" if factor == 100 else ".3f"
            ends = f"{min(values):{form}}..{max(values):{form}}"
            cells.append(f"{np.median(values):{form}}\n{ends}")
        result.add_row(rule, *cells)
    return result


def main() -> None:
    """Print tables, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0, help="of the first repetition")
    parser.add_argument(
        "--load", type=float, default=1.0, help="share of what a burst is served at"
    )
    parser.add_argument("--clock", choices=list(CLOCKS), default="processor")
    parser.add_argument("--rules", default=",".join(RULES))
    options = parser.parse_args()
    python = Path(os.environ.get("SORTEDF_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        sys.exit(f"{python}: vLLM is not installed; make vllm, or set SORTEDF_VLLM_PYTHON")
    n, rules = options.requests, options.rules.split(",")
    loads = [os.getloadavg()[0]]
    with engine_processes(python, (SMALL, LARGE), (SMALL_MODEL, LARGE_MODEL)) as processes:
        engines: Engines = CLOCKS[options.clock](processes)
        rate, before = rehearsed(engines, n, options.load, 1000 + options.seed)
        found = []
        for seed in range(options.seed, options.seed + options.repeats):
            rows, before = repetition(engines, before, n, rate, seed, rules)
            found.append(rows)
            loads.append(os.getloadavg()[0])
    title = (
        f"{options.clock} clock, {n} requests at {rate:.2f}/s, {options.repeats} repetitions, "
        f"load {min(loads):.1f}..{max(loads):.1f} on {os.cpu_count()} cores"
    )
    console = Console(width=170)
    console.print(table(title, found))
    for other in rules:
        if other != OURS and OURS in rules:
            ratios = [one[OURS]["on-time utility"] / one[other]["on-time utility"] for one in found]
            console.print(
                f"on-time utility, {OURS} over {other}: {np.median(ratios):.2f} "
                f"({min(ratios):.2f}..{max(ratios):.2f})"
            )


if __name__ == "__main__":
    main()
