"""The counterexamples by budget, and the search for worst cases.

    python bench/counterexamples.py [--tenth] [--picture FILE] [--hall FOLDER]

First, for each family, the ratio of each of its policies to the best verified schedule found, over
doublings of M, with the power of M that fits and the ratio that holds by hand. Then, for each
policy, the search from generic random backlogs at M = 64, the best of some seeds, bracketed from
above by a certificate; `--hall` writes these as folders. `--tenth` takes smaller budgets and a
tenth of the iterations of few policies. The exit code is 1 if a ratio falls short of what is
derived, does not grow where it should, or, for MC-SF, the search stays below the given family.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from sortedf.proofs_check.families import FAMILIES, families_of
from sortedf.proofs_check.finder import find_worst
from sortedf.proofs_check.growth import Growth, judge, measure
from sortedf.proofs_check.worst_case import check_case, worst_case, write_case
from sortedf.solvers import MaxIterations

BUDGETS = [64 * 2**k for k in range(11)]
TARGETS = {
    ("mcsf", "large-first"): {64: 2.78, 256: 5.56, 1024: 11.15},
    ("fcfs", "large-first"): {64: 2.78, 256: 5.56, 1024: 11.15},
    ("size", "long-first"): {256: 2.89, 1024: 3.89, 4096: 5.22},
}
SEARCHES = {
    "fcfs": (100, 20_000),
    "mcsf": (100, 40_000),
    "size": (100, 20_000),
    "svf": (80, 40_000),
    "svf-1bit": (80, 20_000),
    "exact-dp": (60, 10_000),
    "local-swap": (60, 15_000),
    "quantile-greedy": (60, 30_000),
}
"""Most requests and iterations for each seed."""

SEEDS = range(3)


def main() -> None:
    """Print the tables; the faults at the end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tenth", action="store_true")
    parser.add_argument("--picture", type=Path, help="write the picture of the growth here")
    parser.add_argument("--hall", type=Path, help="write the worst cases found into this folder")
    parser.add_argument("--policies", help="search for these alone, commas between")
    arguments = parser.parse_args()
    faults = growths(BUDGETS[: 7 if arguments.tenth else None], arguments.picture)
    chosen = arguments.policies.split(",") if arguments.policies else list(SEARCHES)
    if arguments.tenth and not arguments.policies:
        chosen = ["mcsf", "svf", "quantile-greedy"]
    for policy in chosen:
        faults += search(policy, arguments.tenth, arguments.hall)
    sys.exit("\n".join(faults) or None)


def growths(budgets: list[int], picture: Path | None) -> list[str]:
    """Measure every policy on every family of its own; return what is not as derived."""
    faults = []
    measured: list[Growth] = []
    print(f"{'policy':15} {'family':18} {'M':>6} {'n':>6} {'policy':>13} {'best':>11} {'ratio':>9}")
    for family in FAMILIES.values():
        used = [kv_tokens for kv_tokens in budgets if kv_tokens >= family.least]
        for policy in family.policies:
            growth = measure(policy, family, used)
            measured.append(growth)
            for point in growth.points:
                by_hand = "" if point.proven is None else f"  by hand {float(point.proven):9.3f}"
                print(
                    f"{policy:15} {family.name:18} {point.kv_tokens:6} {point.n:6} "
                    f"{point.policy_latency:13} {point.best_latency:11} "
                    f"{float(point.ratio):9.3f}{by_hand}  {point.best_by}",
                    flush=True,
                )
                least = TARGETS.get((policy, family.name), {}).get(point.kv_tokens, 0)
                if point.ratio < least:
                    faults.append(f"{policy} on {family.name}: below {least} at {point.kv_tokens}")
            print(f"{'':15} exponent {growth.exponent:.3f}, derived {family.exponent:g}")
            finding = judge(growth)
            faults += [f"{finding.claim}: not at M = {i.kv_tokens}" for i in finding.violations]
    if picture is not None:
        from sortedf.report.growth import growth_picture

        growth_picture([growth.to_dict() for growth in measured]).savefig(picture, dpi=110)
    return faults


def search(policy: str, tenth: bool, hall: Path | None, kv_tokens: int = 64) -> list[str]:
    """Search for the worst case of one policy, bracket it, and write it."""
    most, iterations = SEARCHES[policy]
    begin = time.process_time()
    found = [
        find_worst(
            policy,
            kv_tokens,
            seed=seed,
            stop=MaxIterations(iterations // (10 if tenth else 1)),
            most_requests=most,
        )
        for seed in (SEEDS[:2] if tenth else SEEDS)
    ]
    best = max(found, key=lambda one: one.ratio)
    ratios = ", ".join(f"{one.ratio:.3f}" for one in found)
    line = f"{policy:15} M = {kv_tokens}, n = {len(best.instance)}: {ratios}"
    if not tenth:
        case = worst_case(best.instance, policy)
        if hall is not None:
            write_case(case, hall / f"{policy}-{kv_tokens}")
            bracket = check_case(hall / f"{policy}-{kv_tokens}")
            line += f"; {float(bracket.at_least):.3f} .. {float(bracket.at_most):.3f}"
        else:
            line += f"; best plan {case.policy.total_latency / case.best.total_latency:.3f}"
    print(f"{line}, {time.process_time() - begin:.0f} s", flush=True)
    if policy in ("mcsf",):
        (given, *_) = families_of(policy)
        target = measure(policy, given, [kv_tokens]).points[0].ratio
        least = 2.78 if tenth else float(target)
        if best.ratio < least:
            return [f"{policy}: the search reaches {best.ratio:.3f}, the family {least:.3f}"]
    return []


if __name__ == "__main__":
    main()
