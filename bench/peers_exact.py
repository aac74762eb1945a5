"""Proof of the optimum: ours beside HiGHS and CP-SAT alone, modelled as their users would.

    python bench/peers_exact.py -n 11 --draws 20 --seconds 60

Each gets the same instances of the synthetic family, one thread and the same limit. The peers get
no schedule to start from, and for a horizon the makespan of the best list schedule plus the longest
output, which a user would take for long enough; ours takes only what it can prove.

The models are those of models.py, without rounding: HiGHS and CP-SAT on the time-indexed program,
and CP-SAT with stairs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from models import Model, cp_sat, cp_sat_stairs, highs

import sortedf
from sortedf import Instance
from sortedf.model import Status
from sortedf.solvers import MaxSeconds

Answer = tuple[bool, float, float]
"""Proved, value, seconds of CPU time."""


def horizon_of(instance: Instance) -> int:
    """Makespan of the best list schedule plus the longest output."""
    best = sortedf.solve(instance, solver="auto", bound=False)
    return best.makespan + int(instance.output_tokens.max())


def ours(instance: Instance, seconds: float) -> Answer:
    """`exact` of this package."""
    begin = time.process_time()
    result = sortedf.solve(instance, solver="exact", stop=MaxSeconds(seconds))
    return (
        result.status is Status.OPTIMAL,
        result.total_latency,
        time.process_time() - begin,
    )


def alone(model: Callable[..., Model], instance: Instance, seconds: float) -> Answer:
    """Answer of a peer; building its model counts, but not against its limit."""
    begin = time.process_time()
    found = model(instance, horizon_of(instance))(seconds, 1)
    return found.proved, found.value, time.process_time() - begin


SOLVERS: dict[str, Callable[[Instance, float], Answer]] = {
    "exact": ours,
    "highs": partial(alone, highs),
    "cp-sat": partial(alone, cp_sat),
    "cp-sat stairs": partial(alone, cp_sat_stairs),
}


def main() -> None:
    """Print proofs, time to proof (the limit where there is none), and the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=11)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sortedf.solve(sortedf.generate("synthetic", 5), solver="exact", stop=MaxSeconds(1))
    times: dict[str, list[float]] = {name: [] for name in SOLVERS}
    proofs = dict.fromkeys(SOLVERS, 0)
    agree = True
    for seed in range(arguments.seed, arguments.seed + arguments.draws):
        instance = sortedf.generate("synthetic", arguments.n, seed=seed)
        line = f"seed {seed:3}"
        optimal = set()
        for name, solve in SOLVERS.items():
            proved, value, seconds = solve(instance, arguments.seconds)
            proofs[name] += proved
            times[name].append(seconds)
            line += f"   {name} {value:.0f}{'*' if proved else ' '} {seconds:.2f} s"
            if proved:
                optimal.add(round(value))
        agree &= len(optimal) < 2
        print(line + ("" if len(optimal) < 2 else "   THE PROOFS DIFFER"), flush=True)
    print("\n* proved optimal")
    for name in SOLVERS:
        print(
            f"{name:14} proved {proofs[name]:3} of {arguments.draws}, "
            f"median {statistics.median(times[name]):7.2f} s"
        )
    sys.exit(None if agree else "proofs differ")


if __name__ == "__main__":
    main()
