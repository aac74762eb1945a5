"""The 3-Partition reductions on drawn problems: how the four ways to decide them agree.

    python bench/reductions.py [--count 1000] [-m 5] [--long 200] [--seed 0] [--tenth]

`--count` problems with a planted partition, as many without one by construction, as many that were
planted and spoilt; each decided as a clique, as an exact cover, by the least total latency of its
backlog, and by the partition read off that schedule. `--long` of each kind for the reduction to
outputs of many tokens (m up to 2). `--tenth` takes a tenth of both. The exit code is 1 if anything
does not go together; what, and for which problem, is printed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from sortedf.proofs_check.three_partition import Reduction, ThreePartition, reduce_three_partition
from sortedf.proofs_check.three_partition_check import KINDS, decide, draw
from sortedf.proofs_check.three_partition_long import reduce_to_long_outputs


def main() -> None:
    """Run both reductions and print a table for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="problems of each kind")
    parser.add_argument("-m", type=int, default=5, help="most triples")
    parser.add_argument("--long", type=int, default=200, help="of each kind, longer outputs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tenth", action="store_true")
    arguments = parser.parse_args()
    part = 10 if arguments.tenth else 1
    rng = random.Random(arguments.seed)

    def to_long(problem: ThreePartition) -> Reduction:
        # Every other time all outputs the same, otherwise of two lengths: what `exact` can prove.
        most = rng.randint(0, 1)
        beyond = [rng.randint(0, most) for _ in problem.numbers]
        return reduce_to_long_outputs(problem, beyond, least=rng.randint(2, 9))

    count, long, m, seed = arguments.count, arguments.long, arguments.m, arguments.seed
    faults = table("one-token outputs", reduce_three_partition, count // part, m, seed)
    faults += table("outputs of many tokens", to_long, long // part, min(m, 2), seed, optimum=False)
    sys.exit(1 if faults else 0)


def table(
    title: str,
    reduce: Callable[[ThreePartition], Reduction],
    count: int,
    m: int,
    seed: int,
    *,
    optimum: bool = True,
) -> int:
    """Decide ``count`` problems of each kind and print the table; the number of disagreements."""
    begin = time.process_time()
    found: Counter[tuple[str, bool]] = Counter()
    wrong: Counter[str] = Counter()
    short: Counter[str] = Counter()
    for kind, problem in draw(len(KINDS) * count, seed, m):
        verdict = decide(reduce(problem), expected=KINDS[kind], optimum=optimum)
        found[kind, verdict.answer] += 1
        short[kind] += verdict.optimum == verdict.reduction.target_latency + 1
        wrong[kind] += bool(verdict.faults)
        for fault in verdict.faults:
            print(f"{list(problem.numbers)}, target {problem.target}: {fault}", file=sys.stderr)
    print(f"\n{title}, m up to {m}")
    off = f"{'best one off':>14}" if optimum else ""
    print(f"{'kind':14}{'problems':>9}{'yes':>6}{'no':>6}{off}{'disagree':>10}")
    for kind in KINDS:
        yes, no = found[kind, True], found[kind, False]
        off = f"{short[kind]:14}" if optimum else ""
        print(f"{kind:14}{yes + no:9}{yes:6}{no:6}{off}{wrong[kind]:10}")
    print(f"{time.process_time() - begin:.1f} s of processor time", flush=True)
    return wrong.total()


if __name__ == "__main__":
    main()
