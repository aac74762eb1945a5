"""Online policies side by side: means and tails in seconds on the replayed engine.

    python bench/policies.py [TRACES] [--loads 0.7,0.95,shift,burst] [--seeds 5] [--verdicts]
        [--json] [--tenth]

Workloads: the Azure conversation trace in the folder TRACES with its own stamps, stretched to the
load (left out where there is none; with more than one seed its requests come as Poisson arrivals);
chats and arXiv summaries (the mix), reasoning-like answers, Pareto answers, Poisson. Loads are
shares of the saturated first-come rate; `shift` goes from 0.7 to 1.1 half-way, `burst` is all at
once. The engine: the packaged coefficients of an 8B model, 2,048 tokens a step, 256 seats.

Tables in Markdown: at each load every policy, what papers report beside it, how far `auto` is from
the best, and how long a policy takes for the whole Azure trace. Variants of UniBoost's steps are
run at 0.95. `--verdicts` leaves the tables out and holds each expectation against what was found.
`--json` prints one document instead: of every figure a 95 % interval (Student's t over the seeds).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from policy_claims import claims, fronts, targets
from policy_entries import BUDGETS, LOAD, REQUESTS, TRACE, Entry, ablation, entries, workloads
from policy_results import Results, Runs, table
from policy_verdicts import verdicts

from sortedf.engine import EngineSettings, StepTimeModel, published
from sortedf.errors import SortedfError
from sortedf.serving.front import simulate
from sortedf.serving.metrics import figures
from sortedf.serving.workloads import Workload, saturated_rate

MODEL = "qwen3-8b-h100"
MOST_SECONDS = 5.0


def run(
    entry: Entry, drawn: list[Workload], engine: EngineSettings, model: StepTimeModel
) -> tuple[Runs, float] | None:
    """Serve each workload; figures, and the longest that one took in seconds of processor time.

    None if one never ends.
    """
    found, longest = [], 0.0
    for seed, workload in enumerate(drawn):
        known = entry.known(workload.instance, seed)
        begin = time.process_time()
        try:
            served = simulate(workload, entry.policy, engine, model, known=known)
        except SortedfError:
            return None
        longest = max(longest, time.process_time() - begin)
        found.append(figures(served))
    return found, longest


def run_all(options: argparse.Namespace, model: StepTimeModel) -> Results:
    """Serve every workload at every load by every policy."""
    results = Results()
    for kind in options.kinds.split(","):
        if kind == "azure" and not (options.traces / TRACE).is_file():
            print("azure: the trace is not here", file=sys.stderr)
            continue
        count = REQUESTS[kind] // 10 if options.tenth else REQUESTS[kind]
        engine = EngineSettings.for_budget(
            BUDGETS[kind], max_num_batched_tokens=2048, max_num_seqs=256
        )
        backlog = next(workloads(kind, "burst", 1.0, 1, count, options.traces)).instance
        rate = saturated_rate(backlog, engine, model)
        # Compiled, and in the processor's caches, before anything is timed.
        few = next(workloads(kind, "0.9", rate, 1, 100, options.traces))
        for entry in [*entries(), *ablation()]:
            run(entry, [few], engine, model)
        for load in options.loads.split(","):
            drawn = list(workloads(kind, load, rate, options.seeds, count, options.traces))
            for entry in [*entries(), *(ablation() if load == LOAD else [])]:
                found = run(entry, drawn, engine, model)
                if found is None:
                    print(f"{kind} at {load}: {entry.label} never ends", file=sys.stderr)
                    continue
                place = kind, load, entry.label
                results.runs[place], results.seconds[place] = found
            print(f"{kind} at {load}, {rate:.2f} requests/s being 1", file=sys.stderr)
    return results


def slowest(results: Results) -> str:
    """Say how long the policies take for the Azure trace, at most."""
    taken = {label: s for (kind, _, label), s in results.seconds.items() if kind == "azure"}
    for (kind, _, label), seconds in results.seconds.items():
        if kind == "azure":
            taken[label] = max(taken[label], seconds)
    if not taken:
        return ""
    last = max(taken, key=taken.__getitem__)
    return (
        f"\nThe Azure trace by a policy, once compiled, at any load: at most {taken[last]:.2f} s "
        f"({last}), median {np.median(list(taken.values())):.2f} s; {MOST_SECONDS:g} s are allowed."
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(__file__).parents[2] / "shared" / "traces"
    parser.add_argument("traces", nargs="?", type=Path, default=default)
    parser.add_argument("--kinds", default="azure,mix,reasoning")
    parser.add_argument("--loads", default="0.7,0.8,0.9,0.95,1.0,1.1,shift,burst")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--verdicts", action="store_true", help="verdicts alone")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--tenth", action="store_true", help="a tenth of the requests, two loads")
    options = parser.parse_args()
    if options.tenth:
        options.loads, options.seeds = f"{LOAD},burst", 2
    results = run_all(options, published()[MODEL])
    if options.json:
        print(results.to_json())
        return
    for kind, load in dict.fromkeys((kind, load) for kind, load, _ in results.runs):
        if not options.verdicts:
            print(table(results, kind, load, f"{kind} at {load}, {options.seeds} seeds"))
        print(claims(results, kind, load))
    for load in options.loads.split(","):
        print(targets(results, load))
    if LOAD in options.loads.split(","):
        print(fronts(results, LOAD))
        print(verdicts(results))
    print(slowest(results))


if __name__ == "__main__":
    main()
