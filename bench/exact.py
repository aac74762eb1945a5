"""The synthetic family of [3]: optima proved, the gap of the rest, and MC-SF beside the best.

    python bench/exact.py [--trials 200] [--seconds 60] [--tenth]

The instances are those of the paper's hindsight experiment: M uniform on 30..50, s on 1..5, o on
1..M - s, n on 40..60, all released at 0. The paper reports MC-SF / optimum 1.005 on average, 1.074
at worst, equal in 114 of 200 trials; here the ratio is to the best schedule found, which is the
optimum where proved, and below it nowhere. `--tenth` takes a tenth of the trials, a thirtieth of
the seconds. The exit code is 1 if a bound is above the value of any schedule, the one by MC-SF too;
a plan that does not verify is an error at once.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys

import sortedf
from sortedf.model import Status
from sortedf.solvers import MaxSeconds

PAPER = (1.005, 1.074, 114 / 200)
LEAST, MOST = 40, 60


def main() -> None:
    """Run the trials, print a line each and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each trial")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial")
    parser.add_argument("-n", type=int, default=0, help="requests; 40..60 if left out")
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    trials = -(-arguments.trials // (10 if arguments.tenth else 1))
    limit = arguments.seconds / (30 if arguments.tenth else 1)
    sortedf.solve(sortedf.generate("synthetic", 5), solver="exact", stop=MaxSeconds(1))
    proved, gaps, ratios, seconds, faults = 0, [], [], [], []
    print(f"{'seed':>5} {'n':>3} {'M':>3} {'mcsf':>7} {'best':>7} {'bound':>9} {'gap':>7} {'s':>6}")
    for seed in range(arguments.seed, arguments.seed + trials):
        n = arguments.n or random.Random(seed).randint(LEAST, MOST)
        instance = sortedf.generate("synthetic", n, seed=seed)
        mcsf = sortedf.solve(instance, solver="mcsf", bound=False).total_latency
        result = sortedf.solve(instance, solver="exact", stop=MaxSeconds(limit))
        if (result.lower_bound or 0) > mcsf or mcsf < result.total_latency:
            faults.append(f"seed {seed}: MC-SF is better than what is bounded or found")
        bound = float(result.lower_bound_exact or 0)
        gap = result.total_latency / bound - 1 if bound else float("inf")
        if result.status is Status.OPTIMAL:
            proved += 1
            seconds.append(result.seconds)
        else:
            gaps.append(gap)
        ratios.append(mcsf / result.total_latency)
        print(
            f"{seed:5} {n:3} {instance.kv_tokens:3} {mcsf:7} {result.total_latency:7} "
            f"{bound:9.1f} {gap:7.2%} {result.seconds:6.1f}",
            flush=True,
        )
    report(proved, gaps, ratios, seconds)
    sys.exit("\n".join(faults) or None)


def report(proved: int, gaps: list[float], ratios: list[float], seconds: list[float]) -> None:
    """Print the table; the error of the mean is the standard one."""
    trials = len(ratios)
    print(f"\nproved optimal: {proved} of {trials}", end="")
    print(f", median {statistics.median(seconds):.1f} s" if seconds else "")
    if gaps:
        print(f"gap of the rest: median {statistics.median(gaps):.2%}, worst {max(gaps):.2%}")
    error = statistics.stdev(ratios) / trials**0.5 if trials > 1 else float("nan")
    equal = sum(ratio == 1 for ratio in ratios) / trials
    equal_error = (equal * (1 - equal) / trials) ** 0.5
    print(f"{'MC-SF / best found':20} {'mean':>16} {'worst':>7} {'equal':>14}")
    print(f"{'here':20} {statistics.mean(ratios):7.3f} +- {error:.3f} ", end="")
    print(f"{max(ratios):8.3f} {equal:6.0%} +- {equal_error:.0%}")
    print(f"{'paper [3], 200 trials':20} {PAPER[0]:7.3f} {'':9} {PAPER[1]:7.3f} {PAPER[2]:6.0%}")


if __name__ == "__main__":
    main()
