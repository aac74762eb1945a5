"""Real engine runs, predicted from a part of them: the table of docs/calibration.md.

Run as ``python bench/calibration.py [DIR...]``; without one, the runs in the folder of traces.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from sortedf.engine import calibrate_from_run, read_run, training_part, validate

RUNS = Path(os.environ.get("SORTEDF_SHARED", Path(__file__).parents[2] / "shared"))
PARTS = ("half", "0.3")

PUBLISHED = {
    "RTX4090-llama-3.1-8b": {"ttft mean": 0.006, "latency mean": 0.005, "latency p99": 0.004},
    "RTXPRO6000-llama-3.1-8b": {"ttft mean": -0.040, "ttft p50": -0.086, "latency mean": -0.018},
}
"""Errors that LLMServingSim published for its own simulation of these runs."""

WORTH_SHOWING = ("ttft", "latency", "makespan")


def main() -> None:
    """Print a table for each run, to stdout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path, metavar="DIR")
    runs = parser.parse_args().runs or sorted((RUNS / "traces" / "vllm_runs").glob("*/"))
    if not runs:
        sys.exit("no run folders here; name some")
    for folder in runs:
        documents = {part: _validated(folder, part) for part in PARTS}
        _print(folder.name, documents)


def _validated(folder: Path, part: str) -> dict[str, Any]:
    run = read_run(folder)
    training = training_part(run, part)
    print(f"{folder.name}: calibrating on {training.name}", file=sys.stderr)
    began = time.process_time()
    calibration, fit = calibrate_from_run(training)
    seconds = time.process_time() - began
    document = validate(run, calibration, training)
    return {**document, "fit": fit, "seconds": seconds}


def _print(name: str, documents: dict[str, dict[str, Any]]) -> None:
    published = PUBLISHED.get(name, {})
    print(f"\n{name}\n")
    print("| | realized (s) | " + " | ".join(PARTS) + " | LLMServingSim |")
    print("|---|---|" + "---|" * (len(PARTS) + 1))
    for rows in zip(*(documents[part]["figures"] for part in PARTS), strict=True):
        row = rows[0]
        if row["measure"] not in WORTH_SHOWING:
            continue
        key = f"{row['measure']} {row['figure']}"
        theirs = f"{published[key]:+.1%}" if key in published else ""
        errors = " | ".join(f"{each['error']:+.2%}" for each in rows)
        print(f"| {key} | {row['realized']:.3f} | {errors} | {theirs} |")
    print()
    for part, document in documents.items():
        fit, coverage = document["fit"], document["coverage"]
        values = ", ".join(
            f"{key} {value:.4g} s" for key, value in fit.model.to_dict()["coefficients"].items()
        )
        held = "none" if coverage is None else f"{coverage['ttft']:.0%} / {coverage['latency']:.0%}"
        print(
            f"{part}: {fit.fitted.form} ({values}), {fit.settings.shared_blocks} shared blocks, "
            f"training error {fit.fitted.error:.4f} s; 90 % interval holds {held} of the first "
            f"and last tokens not trained on; {document['seconds']:.1f} s of processor time"
        )
        for trial in fit.trials:
            ends = " ".join(f"{value:.4g}" for value in trial.fitted.minima)
            print(
                f"    {trial.fitted.form}, {trial.shared_blocks} shared: training error "
                f"{trial.fitted.error:.4f} s; starts ended at {ends}"
            )
        for warning in fit.warnings:
            print(f"    warning: {warning}")


if __name__ == "__main__":
    main()
