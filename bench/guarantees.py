"""The guarantees of the papers on many instances: the largest ratios seen, and any violation.

    python bench/guarantees.py [--instances 200000] [--larger 1000] [--seed 0] [--tenth] [-o FOLDER]

Instances of up to eight requests, half of them random and half structured or adversarial, are held
against their optimum, found by a full search; larger ones against certified bounds. `--tenth` takes
a tenth of both. The exit code is 1 if a claim is violated; its instances are written to FOLDER.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

import sortedf
from sortedf.proofs_check.guarantees import check_guarantees
from sortedf.proofs_check.trials import Trial
from sortedf.report.claims import table


def main() -> None:
    """Check all claims, print the table and the seconds of processor time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=200_000)
    parser.add_argument("--larger", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tenth", action="store_true")
    parser.add_argument("-o", "--output", type=Path, help="folder for violating instances")
    arguments = parser.parse_args()
    part = 10 if arguments.tenth else 1
    check_guarantees(instances=2, larger=1)  # compiles
    begin = time.process_time()
    findings = check_guarantees(
        instances=arguments.instances // part,
        larger=arguments.larger // part,
        seed=arguments.seed,
        watch=_watch,
    )
    seconds = time.process_time() - begin
    rows = [finding.to_dict() for finding in findings]
    Console(width=160, highlight=False).print(table(rows, f"Seed {arguments.seed}"))
    for row in rows:
        worst = row["worst"]
        if row["against"] == "optimum" and row["largest"] > 1:
            pairs = zip(worst["prompt_tokens"], worst["output_tokens"], strict=True)
            lengths = ", ".join(map(str, pairs))
            print(f"{row['claim']}: {row['largest']:.4f} at M = {worst['kv_tokens']}: {lengths}")
    print(f"{seconds:.0f} s of processor time")
    violated = [finding for finding in findings if not finding.holds]
    if arguments.output and violated:
        arguments.output.mkdir(parents=True, exist_ok=True)
        for place, finding in enumerate(violated):
            for number, instance in enumerate(finding.violations):
                name = f"{place}-{number}-M{instance.kv_tokens}.csv"
                sortedf.write_backlog(instance, arguments.output / name)
    sys.exit("\n".join(f"violated: {finding.claim}" for finding in violated) or None)


def _watch(items: Iterable[Trial], text: str, total: int) -> Iterable[Trial]:
    for number, trial in enumerate(items, 1):
        yield trial
        if number % max(1, total // 10) == 0:
            print(f"{number:,} of {total:,} {text}", file=sys.stderr)


if __name__ == "__main__":
    main()
