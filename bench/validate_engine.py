"""Plans on the real engine: predicted before the run against realized, and against other orders.

    python bench/validate_engine.py [--repeats 5] [--requests 300] [--backlogs A,B] [--keep DIR]

Needs vLLM for the CPU with sortedf's dependencies: ``make vllm``, or its Python in
SORTEDF_VLLM_PYTHON. For each backlog, the 80/20 mix and a sample of the Azure conversation trace,
lengths are divided so that the largest prompt and output have 512 tokens together, and the KV cache
holds a tenth of all (in blocks). The plan is made by `improve` on blocks of 32. A repetition, of
which medians are told: step times are calibrated on a run of another draw; the plan is predicted
and run; so are arrival order (fcfs), shortest output (mcsf) and volume order (svf), which the
engine's own scheduler is handed. Each repetition calibrates anew because the speed of a shared
machine drifts within minutes, by more than what is to be seen here. Then the same with outputs that
are 30 % longer or shorter than predicted. Tables to stdout, progress to stderr. Everything is done
by the command line; the run folders are left in DIR.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import sortedf

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engine" / "drivers"))

from tiny_model import LARGER, write_model  # noqa: E402

SHARED = Path(os.environ.get("SORTEDF_SHARED", ROOT.parent / "shared"))
MIX = SHARED / "instances" / "mix8020-2000-s0.csv"
AZURE = SHARED / "traces" / "azure_2023_conversation.csv"

LARGEST = 512
"""Tokens of prompt and output of the largest request."""

OTHERS = ("fcfs", "mcsf", "svf")

HEADINGS = (
    "order",
    "predicted mean s",
    "realized mean s",
    "error",
    "ratio to the plan, predicted",
    "realized",
    "P99 s",
    "makespan s",
    "preemptions",
    "recomputed tokens",
)
"""Counts are realized of predicted."""


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where the engine is, and what `sortedf run` starts it with.

    Parameters
    ----------
    python
        Interpreter of the environment that has the engine.
    arguments
        Of `sortedf run`, beside those that follow from a backlog.
    block_size
        Tokens in a block.
    environment
        Variables that its processes get.
    deadline
        Of the monotonic clock, in seconds; commands are ended then.
    """

    python: str
    arguments: Sequence[str]
    block_size: int
    environment: dict[str, str]
    deadline: float | None = None

    def sortedf(self, *arguments: object) -> str:
        """Run a command line in its environment; gives what it prints."""
        told = [self.python, "-m", "sortedf", *map(str, arguments)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | self.environment
        left = None if self.deadline is None else max(1.0, self.deadline - time.monotonic())
        try:
            done = subprocess.run(
                told, stdout=subprocess.PIPE, text=True, check=False, env=environment, timeout=left
            )
        except subprocess.TimeoutExpired:
            sys.exit(f"the time was over in `sortedf {arguments[0]} {arguments[1]} ...`")
        if done.returncode:
            sys.exit(f"sortedf {' '.join(map(str, arguments))}: exit code {done.returncode}")
        return done.stdout


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A backlog on the engine: the documents of `sortedf validate`, one for each repetition.

    ``erred``, with outputs that are not as predicted, is empty where that was not asked for.
    """

    name: str
    n: int
    blocks: int
    held: Sequence[dict[str, Any]]
    erred: Sequence[dict[str, Any]]


def cpu_engine(model: Path) -> Engine:
    """Give vLLM on the CPU, with a model of random weights."""
    python = os.environ.get("SORTEDF_VLLM_PYTHON", str(ROOT / ".venv-vllm" / "bin" / "python"))
    if not Path(python).exists():
        sys.exit(f"{python}: vLLM is not installed; make vllm, or set SORTEDF_VLLM_PYTHON")
    write_model(model, context=2048, vocabulary=1024, **LARGER)
    arguments = (
        *("--engine", "vllm", "--model", str(model), "--load-format", "dummy"),
        *("--dtype", "float32", "--enforce-eager", "--in-process"),
        *("--kv-cache-memory-bytes", str(1 << 29)),
        *(
            "--max-model-len",
            str(2 * LARGEST),  # outputs may be longer than predicted
            "--max-num-batched-tokens",
            "512",
            "--max-num-seqs",
            "64",
        ),
    )
    return Engine(
        python=python,
        arguments=arguments,
        block_size=32,
        environment={"OMP_NUM_THREADS": "1"},
    )


def lengths(name: str, n: int, seed: int) -> tuple[list[int], list[int]] | None:
    """Sample prompts and outputs of a backlog; ``None`` where its file is not there."""
    generator = np.random.default_rng(seed)
    if name == "mix" and not MIX.exists():
        drawn = sortedf.generate("mix", n, seed=seed, kv_tokens=1 << 20)
        return drawn.prompt_tokens.tolist(), drawn.output_tokens.tolist()
    path = MIX if name == "mix" else AZURE
    if not path.exists():
        return None
    whole = sortedf.read_backlog(path, kv_tokens=1 << 30)
    chosen = np.sort(generator.choice(len(whole), n, replace=False))
    return whole.prompt_tokens[chosen].tolist(), whole.output_tokens[chosen].tolist()


def write_backlog(
    prompts: Sequence[int], outputs: Sequence[int], largest: int, path: Path
) -> list[tuple[int, int]]:
    """Write lengths, divided so that the largest sum is ``largest`` tokens at most."""
    divisor = max(1.0, max(s + o for s, o in zip(prompts, outputs, strict=True)) / largest)
    rows = [
        (max(1, int(s / divisor)), max(1, int(o / divisor)))
        for s, o in zip(prompts, outputs, strict=True)
    ]
    lines = ["prompt_tokens,output_tokens", *(f"{s},{o}" for s, o in rows)]
    path.write_text("\n".join(lines) + "\n")
    return rows


def blocks_of(rows: Sequence[tuple[int, int]], block_size: int) -> int:
    """Blocks that all requests hold at their ends, together."""
    return sum(-(-(s + o - 1) // block_size) for s, o in rows)


def measure(
    name: str,
    draws: Sequence[tuple[Sequence[int], Sequence[int]]],
    engine: Engine,
    folder: Path,
    *,
    largest: int = LARGEST,
    share: float = 0.1,
    repeats: int = 5,
    plan_seconds: float = 10.0,
    error: float | None = 0.3,
    others: Sequence[str] = OTHERS,
) -> Measured:
    """Calibrate on the second draw; predict and run a plan of the first, and other orders.

    Parameters
    ----------
    draws
        Prompts and outputs, twice.
    share
        Of all requests, in blocks, that the KV cache holds.
    repeats
        Repetitions; half as many in the second part.
    plan_seconds
        That `improve` searches.
    error
        Share by which outputs are longer or shorter in the second part; ``None`` for no such part.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"backlog-{k}.csv" for k in range(2)]
    rows, _ = (write_backlog(*draw, largest, file) for draw, file in zip(draws, files, strict=True))
    blocks = int(blocks_of(rows, engine.block_size) * share)
    budget = ("--kv-tokens", blocks * engine.block_size, "--block-size", engine.block_size)
    cache = ("--num-gpu-blocks", blocks + 1, "--engine-block-size", engine.block_size)
    started = (*engine.arguments, *cache, "--random-prompts", "-q")

    def solve(file: Path, plan: Path, *options: object) -> None:
        engine.sortedf("solve", file, *budget, "--no-bound", "-o", plan, "-q", *options)

    def say(text: str) -> None:
        print(f"{name}: {text}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)

    known, plan = folder / "known.json", folder / "plan.json"
    say(f"{len(rows)} requests, {blocks} blocks of {engine.block_size}; planning")
    solve(files[1], known, "--solver", "svf")
    solve(files[0], plan, "--solver", "improve", "--time-limit", plan_seconds)
    parts: list[tuple[str, tuple[str, ...]]] = [("held", ())]
    if error is not None:
        parts.append(("erred", ("--output-error", str(error))))
    found: dict[str, list[dict[str, Any]]] = {"held": [], "erred": []}
    for part, options in parts:
        times = repeats if part == "held" else (repeats + 1) // 2  # who is best there is plain
        for number in range(1, times + 1):
            say(f"{'other outputs, ' if options else ''}repetition {number} of {times}")
            place = folder / f"{part}-{number}"
            step_times, run = place / "steptime.json", place / "run"
            place.mkdir()
            engine.sortedf("run", known, *started, "-o", place / "known", "--warm-up")
            engine.sortedf("calibrate", place / "known" / "attempts" / "1", "-o", step_times, "-q")
            engine.sortedf("run", plan, *started, *options, "--steptime", step_times, "-o", run)
            told = ("--against", ",".join(others), "-o", place / "page.html", "--json", "-q")
            found[part].append(json.loads(engine.sortedf("validate", run, *told)))
    return Measured(name=name, n=len(rows), blocks=blocks, **found)


def print_figures(measured: Sequence[Measured]) -> None:
    """Print a table for each part of each backlog."""
    for each in measured:
        for title, documents in (
            ("outputs as predicted", each.held),
            ("outputs longer or shorter than predicted", each.erred),
        ):
            if documents:
                runs = f"{len(documents)} repetitions"
                print(f"\n{each.name}, {each.n} requests, {each.blocks} blocks, {title}, {runs}\n")
                _print_orders([document["against"]["rows"] for document in documents])


def _print_orders(repetitions: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Print what became of the orders, the plan first, and how they rank: medians."""
    orders = list(zip(*repetitions, strict=True))
    print(f"| {' | '.join(HEADINGS)} |")
    print("|---" * len(HEADINGS) + "|")
    for rows in orders:
        cells = [
            rows[0]["order"],
            f"{_median(rows, 'predicted', 'mean_latency'):.3f}",
            f"{_median(rows, 'realized', 'mean_latency'):.3f}",
            f"{median(row['error'] for row in rows):+.1%}",
            f"{median(row['ratio']['predicted'] for row in rows):.3f}",
            f"{median(row['ratio']['realized'] for row in rows):.3f}",
            f"{_median(rows, 'realized', 'p99_latency'):.3f}",
            f"{_median(rows, 'realized', 'makespan'):.3f}",
            *(
                f"{_median(rows, 'realized', key):g} of {_median(rows, 'predicted', key):g}"
                for key in ("preemptions", "recomputed_tokens")
            ),
        ]
        print(f"| {' | '.join(cells)} |")
    errors = ", ".join(f"{row['error']:+.1%}" for row in orders[0])
    in_order = all(row["in_order"] for row in orders[0])
    print(f"\nThe plan: errors {errors}; admitted in its order: {'yes' if in_order else 'no'}.")
    for one, other in combinations(orders, 2):
        # Of one repetition: what slows the machine down slows both.
        predicted, realized = (
            median(
                b[side]["mean_latency"] / a[side]["mean_latency"]
                for a, b in zip(one, other, strict=True)
            )
            for side in ("predicted", "realized")
        )
        said = "as predicted" if (predicted > 1) == (realized > 1) else "not as predicted"
        near = "" if abs(realized - 1) > 0.05 else ", within 5 %"
        print(
            f"{other[0]['order']} over {one[0]['order']}: predicted {predicted:.3f}, "
            f"realized {realized:.3f}: {said}{near}"
        )


def _median(rows: Sequence[dict[str, Any]], side: str, figure: str) -> float:
    return float(median(row[side][figure] for row in rows))


def main() -> None:
    """Print tables, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--backlogs", default="mix,azure", help="of mix and azure")
    parser.add_argument("--plan-seconds", type=float, default=10.0, help="that improve searches")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the run folders here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        engine = cpu_engine(folder / "model")
        found = []
        for name in options.backlogs.split(","):
            draws = [lengths(name, options.requests, seed) for seed in range(2)]
            if None in draws:
                print(f"{name}: {AZURE} is not there; left out", file=sys.stderr)
                continue
            told = [draw for draw in draws if draw is not None]
            found.append(
                measure(
                    name,
                    told,
                    engine,
                    folder / name,
                    repeats=options.repeats,
                    plan_seconds=options.plan_seconds,
                )
            )
        print_figures(found)


if __name__ == "__main__":
    main()
