"""Requests that arrive while the real engine runs, on the CPU: policies side by side.

    python bench/online_engine.py [--requests 300] [--load 0.95] [--seeds 1] [--policies A,B,...]

Needs vLLM for the CPU: ``make vllm``, or its Python in SORTEDF_VLLM_PYTHON. The rate at which first
come serves a backlog is measured first; then requests arrive at so much of it (Poisson, 80 % short
talks), the same for all policies, each on an engine of its own whose cache holds about six of the
long ones. Outputs are known; UniBoost's thresholds, hysteresis and window are as small as these
requests are. For each seed a table to stdout: seconds from arrival to last token (mean, P50, P99),
P99 to first token, preemptions, seconds in all (of the processor, so that other work on the
machine does not count), and how many admissions were not of the first that
the policy lets come, which must be none.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "engine"))

from live_engine import SECTIONS, Engine, drawn, figures, live_engine, out_of_order  # noqa: E402

TITLES = ("mean", "P50", "P99", "P99 to first token", "preemptions", "seconds")


def serving_rate(engine: Engine, n: int) -> float:
    """Measure how many requests a second first come serves of a backlog, on a warm engine."""
    answers = engine.serve(SECTIONS["fcfs"], drawn(n, np.inf, 1000), drawn(n, np.inf, 1001))
    return n / float(max(answers[1]["done"]))


def compare(engine: Engine, names: list[str], n: int, rate: float, seed: int) -> Table:
    """Serve the same arrivals under each policy."""
    work = drawn(n, rate, seed)
    table = Table(f"seed {seed}", box=SIMPLE_HEAD)
    for title in (*TITLES, "out of order"):
        table.add_column(title, justify="right")
    for name in names:
        print(f"{name}, load of the machine {os.getloadavg()[0]:.1f}", file=sys.stderr)
        warm = drawn(40, np.inf, 1002)
        answer = engine.serve(SECTIONS[name], warm, work)[1]
        found = figures(work, answer)
        wrong = out_of_order(SECTIONS[name], work, answer)
        values = [f"{found[t]:.0f}" if t == "preemptions" else f"{found[t]:.2f}" for t in TITLES]
        table.add_row(name, *values, str(len(wrong)))
    return table


def main() -> None:
    """Print a table for each seed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--policies", default=",".join(SECTIONS))
    options = parser.parse_args()
    python = Path(os.environ.get("SORTEDF_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
    if not python.exists():
        sys.exit(f"{python}: vLLM is not installed; make vllm, or set SORTEDF_VLLM_PYTHON")
    names = options.policies.split(",")
    console = Console(width=120)
    with live_engine(python) as engine:
        rate = serving_rate(engine, options.requests)
        print(f"first come serves {rate:.1f} requests a second; they arrive at {options.load:g}")
        for seed in range(options.seeds):
            console.print(compare(engine, names, options.requests, options.load * rate, seed))


if __name__ == "__main__":
    main()
