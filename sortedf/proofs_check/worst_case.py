"""A backlog on which a policy does badly, with all that proves how badly: a folder of four files.

`backlog.csv`, the requests; `policy.json`, the policy's plan; `best.json`, a far better plan;
`certificate.json`, a lower bound on every plan. So policy / best is at most the ratio to the
optimum, policy / bound at least. The hall of fame is the worst of them, packaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

from sortedf.errors import VerificationError
from sortedf.instances import (
    Plan,
    new_certificate,
    read_backlog,
    read_certificate,
    read_plan,
    write_backlog,
    write_certificate,
    write_plan,
)
from sortedf.instances.files import make_folder
from sortedf.lp.bounds import best_proof, lower_bounds
from sortedf.model import Instance, Result
from sortedf.proofs_check.finding import Finding
from sortedf.solvers import MaxIterations, certified_bound, check_plan, solve

HALL_OF_FAME = Path(__file__).with_name("hall_of_fame")

BACKLOG, POLICY, BEST, CERTIFICATE = "backlog.csv", "policy.json", "best.json", "certificate.json"

FINAL_STEPS = 60
"""Iterations of ``improve`` on the good schedule of a backlog that was found."""


@dataclass(frozen=True)
class Bracket:
    """What the files of a folder prove: latencies in steps, each recomputed by a checker."""

    policy: str
    instance: Instance
    policy_latency: int
    best_latency: int
    lower_bound: int

    @property
    def at_least(self) -> Fraction:
        """The policy's total latency over the better plan's: at most the ratio to the optimum."""
        return Fraction(self.policy_latency, self.best_latency)

    @property
    def at_most(self) -> Fraction:
        """The policy's total latency over the lower bound: at least the ratio to the optimum."""
        return Fraction(self.policy_latency, self.lower_bound)

    def to_dict(self) -> dict[str, Any]:
        """Give plain data: a row of the hall of fame."""
        return {
            "policy": self.policy,
            "n": len(self.instance),
            "kv_tokens": self.instance.kv_tokens,
            "policy_latency": self.policy_latency,
            "best_latency": self.best_latency,
            "lower_bound": self.lower_bound,
            "ratio_at_least": float(self.at_least),
            "ratio_at_most": float(self.at_most),
        }


@dataclass(frozen=True)
class WorstCase:
    """A backlog with the policy's result, the best one found, and a certified bound."""

    policy: Result
    best: Result
    certificate: dict[str, Any]

    def bracket(self) -> Bracket:
        """Say how bad it is: plans as the front function verified them, the bound recomputed."""
        instance = self.policy.instance
        return Bracket(
            self.policy.solver,
            instance,
            self.policy.total_latency,
            self.best.total_latency,
            ceil(certified_bound(instance, self.certificate, "the certificate")),
        )


def worst_case(instance: Instance, policy: str, *, steps: int = FINAL_STEPS) -> WorstCase:
    """Run a policy on a backlog, find a good plan and a bound that has a certificate.

    Parameters
    ----------
    instance
        The backlog.
    policy
        A solver by name.
    steps
        Iterations of ``improve``, which brings prices; with 0 the best simple order is taken, and
        the prices of a second's work.
    """
    result = solve(instance, solver=policy, bound=False)
    if steps:
        best = solve(instance, solver="improve", stop=MaxIterations(steps))
    else:
        best = solve(instance, bound=lower_bounds(instance))
    proof = best.proof or best_proof(lower_bounds(instance))
    assert proof is not None
    return WorstCase(result, best, new_certificate(instance, proof))


def write_case(case: WorstCase, folder: str | Path) -> None:
    """Write the four files into a folder, which is made if there is none.

    Raises
    ------
    InputError
        When that cannot be done.
    """
    make_folder(folder)
    path = Path(folder)
    write_backlog(case.policy.instance, path / BACKLOG)
    write_plan(case.policy, path / POLICY)
    write_plan(case.best, path / BEST)
    write_certificate(case.certificate, path / CERTIFICATE)


def check_case(folder: str | Path) -> Bracket:
    """Read the four files of a folder and have each checked against the backlog.

    The plans go through :mod:`sortedf.verify`, the bound through :mod:`sortedf.certificate`; that
    the plan of the policy is the policy's is checked by running it.

    Raises
    ------
    InputError
        For a file that cannot be read as what it should be.
    VerificationError
        With what is not as the files say.
    """
    path = Path(folder)
    policy, best = read_plan(path / POLICY), read_plan(path / BEST)
    instance = read_backlog(path / BACKLOG, kv_tokens=policy.kv_tokens)
    latency, best_latency = (_verified(plan, instance) for plan in (policy, best))
    again = solve(instance, solver=policy.solver, bound=False)
    if again.total_latency != latency:
        text = f"{policy.source}: {policy.solver} has a total latency of {again.total_latency}"
        raise VerificationError([f"{text}, not {latency}"])
    source = path / CERTIFICATE
    bound = ceil(certified_bound(instance, read_certificate(source), str(source)))
    return Bracket(policy.solver, instance, latency, best_latency, bound)


def hall_of_fame() -> list[Path]:
    """List the folders of the packaged worst cases, by name: POLICY-M."""
    return sorted(path for path in HALL_OF_FAME.iterdir() if path.is_dir())


def check_hall_of_fame() -> list[Finding]:
    """Check every packaged worst case; :func:`check_case` raises where a file is not as it says."""
    findings = []
    for folder in hall_of_fame():
        found = check_case(folder)
        findings.append(
            Finding(
                claim=f"{found.policy} / optimum >= {float(found.at_least):.4f} at M = "
                f"{found.instance.kv_tokens}",
                source="found by the search of this project",
                checked=1,
                largest=float(found.at_least),
                against="verified schedule",
                worst=found.instance,
            )
        )
    return findings


def _verified(plan: Plan, instance: Instance) -> int:
    check = check_plan(plan, instance)
    total = check.report.total_latency
    if not check.ok or total is None or plan.kv_tokens != instance.kv_tokens:
        lines = [*check.mismatches, *map(str, check.report.violations)]
        if plan.kv_tokens != instance.kv_tokens:
            lines.append(f"it is for a KV budget of {plan.kv_tokens}, not {instance.kv_tokens}")
        raise VerificationError([f"{plan.source}: {line}" for line in lines])
    return total
