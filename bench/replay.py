"""How fast the engine is replayed.

    python bench/replay.py [RUNS] [--repeats 25]

Three tables. Backlogs of 2,000 requests without preemption: million steps a second by each driver.
The runs in the folder RUNS (`requests.jsonl` and `meta.json` each; left out where there are none),
under made-up coefficients, with one block shared by all prompts where prefix caching was on:
milliseconds of a replay, and how many times faster than the run itself. The estimate of the time to
first token, with 256 running and 200 waiting requests, memory ample to tight: microseconds.
Seconds of processor time, compilation not included, medians; the estimates by the clock.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.engine import VLLM_0_19, EngineSettings, Replay, StepTimeModel
from sortedf.engine.estimate import EngineState

# About an 8B model on a card with 24 GB.
MODEL = StepTimeModel(fixed=1.3e-2, prefill_token=8e-5, decode_token=3e-5, context=1.5e-7)
AMPLE = 10**6  # blocks
UNRECORDED = {"num_gpu_blocks": AMPLE, "block_size": 16, "enable_prefix_caching": False}


def seconds(action: Callable[[], object], repeats: int) -> float:
    """Median of the seconds of processor time, after one call that compiles."""
    action()
    taken = []
    for _ in range(repeats):
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return float(np.median(taken))


def columns(*titles: str) -> Table:
    """Table whose first column is text, the others numbers."""
    table = Table(titles[0], box=SIMPLE_HEAD)
    for title in titles[1:]:
        table.add_column(title, justify="right")
    return table


def backlogs(repeats: int) -> Table:
    """Time both drivers on backlogs without preemption."""
    table = columns(
        "2,000 requests", "steps", "by events ms", "M steps/s", "by steps ms", "M steps/s"
    )
    rng = np.random.default_rng(20261204)
    for longest, seats, ahead in (
        (1000, 256, True),
        (1000, 256, False),
        (2000, 256, True),
        (1000, 64, True),
    ):
        lengths = rng.integers(1, 1000, 2000), rng.integers(1, longest, 2000)
        backlog = sortedf.Instance(*lengths, AMPLE)
        engine = EngineSettings(num_gpu_blocks=AMPLE, max_num_seqs=seats, async_scheduling=ahead)
        replay = Replay(backlog, engine)
        found = replay.run(MODEL)
        assert not found.preemptions.any()
        cells = []
        for driver, times in (("events", repeats), ("steps", max(repeats // 5, 3))):
            taken = seconds(partial(replay.run, MODEL, by=driver), times)
            cells += [f"{1000 * taken:.2f}", f"{found.steps / taken / 1e6:.1f}"]
        mode = "asynchronous" if ahead else "synchronous"
        name = f"outputs below {longest:,}, {seats} seats, {mode}"
        table.add_row(name, f"{found.steps:,}", *cells)
    return table


def real_runs(folder: Path, repeats: int) -> Table:
    """Time the replay of real runs; with prefix caching step by step, without by events."""
    table = columns("run", "requests", "steps", "preempted", "run s", "replay ms", "times faster")
    for run in sorted(folder.iterdir()):
        if not (run / "requests.jsonl").exists():
            continue
        rows = [json.loads(line) for line in (run / "requests.jsonl").read_text().splitlines()]
        meta = json.loads((run / "meta.json").read_text())
        cache, options = meta.get("kv_cache", UNRECORDED), meta["engine_kwargs"]
        engine = EngineSettings(
            num_gpu_blocks=cache["num_gpu_blocks"],
            block_size=cache["block_size"],
            max_num_seqs=options["max_num_seqs"],
            max_num_batched_tokens=options["max_num_batched_tokens"],
            max_model_len=options["max_model_len"],
            enable_prefix_caching=cache["enable_prefix_caching"],
            shared_blocks=1 if cache["enable_prefix_caching"] else 0,
            version=VLLM_0_19,
        )
        prompts, outputs = ([row[name] for row in rows] for name in ("input_toks", "output_toks"))
        backlog = sortedf.Instance(prompts, outputs, engine.kv_tokens)
        queued = np.array([row["queued_ts"] for row in rows])
        replay = Replay(backlog, engine, arrivals=queued - queued.min())
        found = replay.run(MODEL)
        taken = seconds(partial(replay.run, MODEL), repeats)
        lasted = max(row["last_token_ts"] for row in rows) - queued.min()
        table.add_row(
            run.name,
            f"{len(rows)}",
            f"{found.steps:,}",
            f"{found.preemptions.sum()}",
            f"{lasted:.1f}",
            f"{1000 * taken:.2f}",
            f"{lasted / taken:,.0f}",
        )
    return table


def live_state(rng: np.random.Generator, spare: int, *, ahead: bool) -> EngineState:
    """Draw 256 requests in the middle of their outputs, and 200 that wait."""
    prompt, output = rng.integers(1, 1000, 456), rng.integers(2, 800, 456)
    sampled = rng.integers(1, output[:256])
    computed = prompt[:256] + sampled - 1
    engine = EngineSettings(num_gpu_blocks=100, async_scheduling=ahead)
    held = int((-(-computed // engine.block_size)).sum())
    return EngineState(
        engine.replace(num_gpu_blocks=1 + held + spare),
        MODEL,
        np.stack([prompt[:256], output[:256], sampled, computed], axis=1),
        np.stack([prompt[256:], output[256:], np.zeros(200, np.int64)], axis=1),
    )


def estimates(repeats: int) -> Table:
    """Time the estimate for a request behind 256 running and 200 waiting ones."""
    table = columns("blocks to spare", "preempted", "median us", "P95 us", "estimates")
    rng = np.random.default_rng(20261205)
    newcomer = sortedf.Request("new", 300, 200)
    for spare in (AMPLE, 1000, 100, 10):
        taken, preempted = [], []
        for number in range(40):
            state = live_state(rng, spare, ahead=bool(number % 2))
            preempted.append(state.first_token(newcomer)[1])
            for _ in range(repeats):
                begin = time.perf_counter()
                state.first_token(newcomer)
                taken.append(1e6 * (time.perf_counter() - begin))
        table.add_row(
            f"{spare:,}",
            f"{min(preempted)}-{max(preempted)}",
            f"{np.median(taken):.1f}",
            f"{np.percentile(taken, 95):.1f}",
            f"{len(taken):,}",
        )
    return table


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "traces" / "vllm_runs"
    parser.add_argument("runs", nargs="?", type=Path, default=default)
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    console = Console(width=120)
    console.print(backlogs(options.repeats))
    if options.runs.is_dir():
        console.print(real_runs(options.runs, options.repeats))
    console.print(estimates(options.repeats))


if __name__ == "__main__":
    main()
