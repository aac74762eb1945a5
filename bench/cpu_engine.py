"""The real engine on the CPU, predicted from one backlog and held against another.

    python bench/cpu_engine.py [--repeats 5] [--seed 0] [--requests 240] [--keep DIR]

Needs vLLM for the CPU: ``make vllm``, or its Python in SORTEDF_VLLM_PYTHON. A repetition is an
engine of its own: a random backlog is run to warm it up and is thrown away; another is run, its
steps (composition and seconds) are written to steps.csv and calibrated from; a third one, of
another mix and order, is predicted before it is run, then run. A table to stdout: steps, errors of
completion times since the first step began, and whether the error interval covers; under "again",
by how much the engine differs from itself, in a second run of the backlog that was predicted. One
table by the clock of the wall, which the engine stamps with, one by that of the processor, which
leaves out what else ran on it. Progress, with the load of the machine, to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import sortedf
from sortedf.engine import (
    Calibration,
    EngineSettings,
    Prediction,
    Replay,
    StepLog,
    calibrate_from_steps,
    read_step_log,
    write_step_log,
)

ROOT = Path(__file__).parents[1]
DRIVERS = ROOT / "tests" / "engine" / "drivers"
sys.path.insert(0, str(DRIVERS))

from tiny_model import LARGER  # noqa: E402

CLOCKS = ("wall", "processor")

SETTINGS: dict[str, Any] = {
    "num_gpu_blocks": 160,
    "block_size": 32,
    "max_num_batched_tokens": 512,
    "max_num_seqs": 32,
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

TALK = (10, 120), (60, 300)
SUMMARY = (150, 600), (5, 60)
"""Least and greatest prompt and output of two kinds of requests (tokens)."""

MOSTLY, RARELY = 0.7, 0.25
"""Share of the first kind in the backlog that is calibrated from, and in the one predicted."""


class CpuEngine:
    """The real engine in its own process, which is asked group by group."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, works: list[dict[str, Any]], **group: Any) -> list[dict[str, Any]]:
        """Run works on it; what the driver answers."""
        asked, answered = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answered is not None
        asked.write(json.dumps({"works": works, **group}) + "\n")
        asked.flush()
        line = answered.readline()
        if not line:
            sys.exit("the engine ended; what it said is above")
        answers: list[dict[str, Any]] = json.loads(line)
        return answers


@contextmanager
def cpu_engine() -> Iterator[CpuEngine]:
    """Start the driver in the environment of vLLM, and end it."""
    python = os.environ.get("SORTEDF_VLLM_PYTHON", str(ROOT / ".venv-vllm" / "bin" / "python"))
    if not Path(python).exists():
        sys.exit(f"{python}: vLLM is not installed; make vllm, or set SORTEDF_VLLM_PYTHON")
    with subprocess.Popen(
        [python, DRIVERS / "drive_engine.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield CpuEngine(process)


def backlog(generator: np.random.Generator, n: int, talk: float) -> dict[str, Any]:
    """Draw a backlog, all there at once, in random order; a share of it talks."""
    kinds = [TALK if drawn else SUMMARY for drawn in generator.random(n) < talk]
    lengths = [[int(generator.integers(*ends)) for ends in kind] for kind in kinds]
    return {
        "prompt": [prompt for prompt, _ in lengths],
        "output": [output for _, output in lengths],
        "arrivals": [0] * n,
        "priorities": [0] * n,
        "stamps": list(range(n)),
        "aborts": [None] * n,
    }


def step_log(answer: dict[str, Any], clock: str) -> StepLog:
    """Give the steps of a run by one of the clocks."""
    spans = np.array(answer[clock])
    work = np.array(answer["work"], np.float64)
    ones = np.ones((len(work), 1))
    return StepLog(work=np.hstack([ones, work]), seconds=spans[:, 1] - spans[:, 0], source="engine")


def completions(answer: dict[str, Any], clock: str) -> npt.NDArray[np.float64]:
    """Seconds from the begin of the first step to the last token of each request."""
    spans = np.array(answer[clock])
    done: npt.NDArray[np.float64] = spans[np.array(answer["done"]) - 1, 1] - spans[0, 0]
    return done


def predicted(work: dict[str, Any], calibration: Calibration) -> Prediction:
    """Predict a backlog, with a log of the steps."""
    settings = EngineSettings(**SETTINGS)
    instance = sortedf.Instance(work["prompt"], work["output"], settings.kv_tokens)
    replayed = Replay(instance, settings).run(calibration.model, log=True)
    return Prediction(replayed=replayed, settings=settings, interval=calibration.interval)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A predicted backlog and what the engine made of it, by one clock; errors are shares."""

    form: str
    steps: int
    real_steps: int
    same: bool
    preemptions: int
    realized: float
    mean_error: float
    median_error: float
    again: float
    mean_inside: bool
    inside: float


def compare(
    prediction: Prediction, form: str, answers: list[dict[str, Any]], clock: str
) -> Comparison:
    """Hold a prediction against the first run; and this against the second one."""
    answer, again = answers
    replayed = prediction.replayed
    assert replayed.log is not None
    real, ours = completions(answer, clock), replayed.completion
    bounds = prediction.bounds()
    assert bounds is not None, "too few steps for an error interval"
    low, high = bounds["latency"]
    return Comparison(
        form=form,
        steps=replayed.steps,
        real_steps=len(answer["work"]),
        same=np.array_equal(replayed.log.work[:, 1:], np.array(answer["work"])),
        preemptions=int(replayed.preemptions.sum()),
        realized=float(real.mean()),
        mean_error=float(ours.mean() / real.mean() - 1),
        median_error=float(np.median(np.abs(ours - real) / real)),
        again=float(completions(again, clock).mean() / real.mean() - 1),
        mean_inside=bool(low.mean() <= real.mean() <= high.mean()),
        inside=float(np.mean((low <= real) & (real <= high))),
    )


def repetition(seed: int, n: int, folder: Path) -> dict[str, Comparison]:
    """Calibrate on one backlog, predict another, run it."""
    generator = np.random.default_rng(seed)
    warming, known = (backlog(generator, n, MOSTLY) for _ in range(2))
    other = backlog(generator, n, RARELY)
    with cpu_engine() as engine:
        _, answer = engine.run([warming, known], settings=SETTINGS, model=LARGER)
        predictions: dict[str, tuple[Prediction, str]] = {}
        for clock in CLOCKS:
            path = folder / f"{seed}-{clock}" / "steps.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_step_log(step_log(answer, clock), path)
            calibration, fit = calibrate_from_steps(read_step_log(path))
            predictions[clock] = predicted(other, calibration), fit.form
        answers = engine.run([other, other])
    return {clock: compare(*predictions[clock], answers, clock) for clock in CLOCKS}


def table(clock: str, rows: list[Comparison]) -> Table:
    """Show repetitions by one clock, and the medians."""
    result = Table(f"{clock} clock", box=SIMPLE_HEAD)
    for title in (
        "form",
        "steps predicted",
        "real",
        "the same",
        "preempted",
        "mean completion s",
        "error",
        "median error of a request",
        "again",
        "mean inside",
        "requests inside",
    ):
        result.add_column(title, justify="right")
    for number, row in enumerate(rows, 1):
        result.add_row(
            f"{number}",
            row.form,
            f"{row.steps}",
            f"{row.real_steps}",
            "yes" if row.same else "no",
            f"{row.preemptions}",
            f"{row.realized:.3f}",
            f"{row.mean_error:+.1%}",
            f"{row.median_error:.1%}",
            f"{row.again:+.1%}",
            "yes" if row.mean_inside else "no",
            f"{row.inside:.0%}",
        )
    result.add_row(
        "median",
        *[""] * 5,
        f"{np.median([row.realized for row in rows]):.3f}",
        f"{np.median([abs(row.mean_error) for row in rows]):.1%}",
        f"{np.median([row.median_error for row in rows]):.1%}",
        f"{np.median([abs(row.again) for row in rows]):.1%}",
        f"{sum(row.mean_inside for row in rows)} of {len(rows)}",
        f"{np.median([row.inside for row in rows]):.0%}",
    )
    return result


def main() -> None:
    """Print a table for each clock, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first repetition")
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the step logs here")
    options = parser.parse_args()
    found: list[dict[str, Comparison]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        for seed in range(options.seed, options.seed + options.repeats):
            print(f"repetition {seed}, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            found.append(repetition(seed, options.requests, folder))
    console = Console(width=140)
    for clock in CLOCKS:
        console.print(table(clock, [comparisons[clock] for comparisons in found]))


if __name__ == "__main__":
    main()
