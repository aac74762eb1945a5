"""How far a policy falls behind on a family of backlogs, budget by budget.

Every ratio is proven from below: the policy's total latency over that of a schedule which the
independent verifier accepts. The optimum is at most that schedule, the true ratio at least this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sortedf.model import Instance, Schedule
from sortedf.proofs_check.curves import Curves, Points, fitted_power
from sortedf.proofs_check.families import FAMILIES, Family
from sortedf.proofs_check.finding import Finding
from sortedf.solvers import MaxIterations, solve
from sortedf.solvers.front import verified_latency
from sortedf.solvers.in_order import shortest_of_orders

QUICK = (64, 256, 1024)
"""Budgets of the quick form of the check; a second for all families."""

LOOKAHEADS = (1, 8)
"""With which the simple orders are tried for a good schedule."""

MOST_TO_IMPROVE = 300
"""Requests up to which a good schedule is improved, if asked."""


@dataclass(frozen=True)
class Best:
    """The best verified schedule found, its total latency (steps), and what found it."""

    by: str
    schedule: Schedule
    total_latency: int


@dataclass(frozen=True)
class Point:
    """What was measured at one budget; latencies in steps.

    ``proven`` is the ratio that holds by hand, at most ``ratio`` if the best schedule found is no
    worse than the one of the derivation; ``None`` where there is no derivation.
    """

    kv_tokens: int
    n: int
    policy_latency: int
    best_latency: int
    best_by: str
    proven: Fraction | None

    @property
    def ratio(self) -> Fraction:
        """The policy's total latency over the best verified one."""
        return Fraction(self.policy_latency, self.best_latency)


@dataclass(frozen=True)
class Growth:
    """The points of a policy on a family, by budget ascending."""

    policy: str
    family: Family
    points: tuple[Point, ...]

    @property
    def exponent(self) -> float | None:
        """Power of M that fits the ratios, least squares on logarithms; ``None`` for one point."""
        return fitted_power(self.pairs)

    @property
    def pairs(self) -> Points:
        """Budget and ratio of each point."""
        return tuple((float(point.kv_tokens), float(point.ratio)) for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Give plain data: what ``sortedf prove counterexample --json`` prints of it."""
        return {
            "policy": self.policy,
            "family": self.family.name,
            "source": self.family.source,
            "exponent": self.exponent,
            "derived_exponent": self.family.exponent,
            "points": [
                {
                    "kv_tokens": point.kv_tokens,
                    "n": point.n,
                    "policy_latency": point.policy_latency,
                    "best_latency": point.best_latency,
                    "best_by": point.best_by,
                    "ratio": float(point.ratio),
                    "proven": None if point.proven is None else float(point.proven),
                }
                for point in self.points
            ],
        }


def best_found(instance: Instance, steps: int = 0) -> Best:
    """Find a good schedule: the best simple order with some lookaheads, improved by a search.

    Parameters
    ----------
    instance
        A backlog whose requests each fit the budget.
    steps
        Iterations of ``improve`` for at most ``MOST_TO_IMPROVE`` requests; 0 is none.

    Raises
    ------
    VerificationError
        If the verifier refuses it.
    """
    tried = [(w, *shortest_of_orders(instance, w)) for w in LOOKAHEADS]
    w, name, schedule = min(tried, key=lambda found: found[2].total_latency(instance))
    best = Best(
        name if w == 1 else f"{name}, lookahead {w}",
        schedule,
        verified_latency(instance, schedule),
    )
    if steps and len(instance) <= MOST_TO_IMPROVE:
        found = solve(instance, solver="improve", stop=MaxIterations(steps), bound=False)
        if found.total_latency < best.total_latency:
            return Best("improve", found.schedule, found.total_latency)
    return best


def measure(
    policy: str,
    family: Family,
    budgets: Iterable[int],
    *,
    steps: int = 0,
    report: Callable[[str], None] = lambda text: None,
) -> Growth:
    """Hold a policy against the best schedule found, at each budget of a family.

    Parameters
    ----------
    policy
        A solver by name, strict.
    family
        The backlogs.
    budgets
        KV budgets M in tokens; each once, ascending in the result.
    steps
        As :func:`best_found`.
    report
        Told what is measured next.

    Raises
    ------
    OptionError
        For a budget below the family's least, or a policy that is none.
    """
    points = []
    for kv_tokens in sorted(set(budgets)):
        report(f"{policy} on {family.name}, M = {kv_tokens:,}")
        instance = family(kv_tokens)
        result = solve(instance, solver=policy, bound=False)
        best = best_found(instance, steps)
        points.append(
            Point(
                kv_tokens,
                len(instance),
                result.total_latency,
                best.total_latency,
                best.by,
                None if family.proven is None else family.proven(kv_tokens),
            )
        )
    return Growth(policy, family, tuple(points))


def check_growth(policy: str, family: Family, budgets: Sequence[int]) -> Finding:
    """Measure a policy on a family and check what is derived of it; see :func:`judge`."""
    return judge(measure(policy, family, budgets))


def check_families(budgets: Sequence[int] = QUICK) -> list[Finding]:
    """Check every family with every policy of its own."""
    return [
        check_growth(policy, family, budgets)
        for family in FAMILIES.values()
        for policy in family.policies
    ]


def growth_curves(budgets: Sequence[int] = QUICK) -> Curves:
    """Measure every family with its first policy, for one picture."""
    points = {}
    for family in FAMILIES.values():
        growth = measure(family.policies[0], family, budgets)
        points[f"{growth.policy}, {family.name}"] = growth.pairs
    return Curves(
        "Counterexamples by KV budget",
        "total latency to that of the best verified schedule found",
        "KV budget M (tokens)",
        points,
        growing=True,
    )


def judge(growth: Growth) -> Finding:
    """Hold what was measured against what is derived of the family.

    It is a violation if the ratio of verified schedules is below :attr:`Family.proven` or, of a
    family that grows, not above the one at a quarter of the budget or less. (From one budget to
    the next the whole numbers of requests can make it dip.)
    """
    policy, family = growth.policy, growth.family
    wrong = {
        point.kv_tokens
        for point in growth.points
        if point.proven is not None and point.ratio < point.proven
    }
    how = "stays high"
    if family.exponent > 0:
        how = f"grows like M^{family.exponent:g}"
        wrong |= {
            large.kv_tokens
            for small in growth.points
            for large in growth.points
            if 4 * small.kv_tokens <= large.kv_tokens and large.ratio <= small.ratio
        }
    return Finding(
        claim=f"{policy} / optimum {how} on {family.name}",
        source=family.source,
        checked=len(growth.points),
        against="verified schedule",
        largest=max(float(point.ratio) for point in growth.points),
        violations=tuple(family(kv_tokens) for kv_tokens in sorted(wrong)),
    )
