"""Have plans and certificates checked for a backlog, by checkers that share no code with us."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sortedf import certificate
from sortedf.errors import SHOWN_FAULTS, VerificationError
from sortedf.instances import Plan
from sortedf.model import Instance
from sortedf.verify import Report, verify


@dataclass(frozen=True)
class PlanCheck:
    """What is wrong with a plan, if anything.

    ``report`` is the verifier's on the schedule; ``ids`` names the requests that its violations
    count. ``mismatches`` says where the plan and its backlog differ, or its own hash does.
    """

    report: Report
    ids: tuple[str, ...]
    mismatches: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the plan is feasible, complete, and of this backlog."""
        return self.report.ok and not self.mismatches


def check_certificate(
    backlog: Instance, recorded: Mapping[str, Any], *, kv_tokens: int | None = None
) -> certificate.Report:
    """Recompute what a certificate proves for a backlog: see :func:`sortedf.certificate.check`.

    Parameters
    ----------
    recorded
        The certificate as plain data.
    kv_tokens
        The KV budget in tokens that it has to be for; its own if left out.
    """
    return certificate.check(
        backlog.prompt_tokens.tolist(),
        backlog.output_tokens.tolist(),
        backlog.release.tolist(),
        recorded,
        kv_tokens=kv_tokens,
        ids=backlog.ids,
    )


def certified_bound(backlog: Instance, recorded: Mapping[str, Any], source: str) -> Fraction:
    """Give the bound that a certificate proves for a backlog and its budget, recomputed.

    Parameters
    ----------
    source
        What the certificate is called where it proves nothing.

    Raises
    ------
    VerificationError
        If it does not prove what it says.
    """
    report = check_certificate(backlog, recorded, kv_tokens=backlog.kv_tokens)
    if not report.ok or report.bound is None:
        lines = [f"{source}: {violation}" for violation in report.violations]
        raise VerificationError(lines, report.total)
    return report.bound


def check_plan(plan: Plan, backlog: Instance | None = None) -> PlanCheck:
    """Verify the schedule of a plan; with the backlog at hand, by the backlog's own lengths.

    Every start, the recorded objective, the budget at every step (in blocks if the plan says so),
    the content hash, the completeness, and that what was left out is indeed larger than the budget.
    O(n log n).

    Raises
    ------
    InputError
        If the requests in the plan are not such as an instance may hold.
    """
    mismatches: list[str] = []
    budgets = [worker.kv_tokens // plan.block_size * plan.block_size for worker in plan.workers]
    budget = max(budgets)
    if plan.total_latency is None:
        mismatches.append("no total latency is recorded")
    mismatches += [
        f"{worker.kv_tokens} tokens hold no block of {plan.block_size}"
        for worker, whole in zip(plan.workers, budgets, strict=True)
        if whole == 0
    ]
    out = [index for index, _ in plan.skipped]
    if len(set(out)) < len(out) or {request.id for _, request in plan.skipped} & set(plan.ids):
        mismatches.append("a request is left out twice, or both planned and left out")
    entries = list(zip(plan.starts, plan.index, strict=True))
    if all(type(start) is int for start, _ in entries) and entries != sorted(entries):
        mismatches.append("the requests are not in the order of their starts")
    for index, request in plan.skipped:
        needed = request.prompt_tokens + plan.block_size - 1 + request.output_tokens
        if needed <= budget:
            mismatches.append(f"request {request.id!r} (index {index}) was left out, but it fits")
    if backlog is None:
        instance = plan.instance()
        requests = plan.positions()
        mismatches += [
            f"index {gap.start} is missing"
            if len(gap) == 1
            else f"indices {gap.start} to {gap.stop - 1} are missing"
            for gap in plan.gaps()
        ]
    else:
        mismatches += _differences(plan, backlog)
        left_out = {index for index, _ in plan.skipped}
        kept = [i for i in range(len(backlog)) if i not in left_out]
        if not kept:
            return PlanCheck(verify([], [], [], budgets, []), (), ("the plan leaves all out",))
        instance = backlog.select(kept) if left_out else backlog
        place = {index: k for k, index in enumerate(kept)}
        # An index that the backlog does not have stays one that the verifier does not know.
        requests = [place.get(index, len(backlog) + index) for index in plan.index]
    if instance.sha256 != plan.instance_sha256:
        mismatches.append(
            f"the plan records the content hash {plan.instance_sha256}, "
            f"{'its requests' if backlog is None else 'the backlog'} hash to {instance.sha256}"
        )
    report = verify(
        (instance.prompt_tokens + (plan.block_size - 1)).tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        budgets,
        plan.starts,
        requests=requests,
        workers=plan.on_worker,
        total_latency=plan.total_latency,
        ids=instance.ids,
    )
    bound = plan.lower_bound
    if bound is not None and report.total_latency is not None and bound > report.total_latency:
        mismatches.append(f"the lower bound {bound} is above the total latency")
    return PlanCheck(report, instance.ids, tuple(mismatches))


def _differences(plan: Plan, backlog: Instance) -> list[str]:
    """Say where the requests of the plan are not those of the backlog, the first in words."""
    rows = zip(
        plan.index, plan.ids, plan.prompt_tokens, plan.output_tokens, plan.release, strict=True
    )
    placed = [(i, (name, s, o, a)) for i, name, s, o, a in rows]
    columns = (backlog.prompt_tokens, backlog.output_tokens, backlog.release)
    known = list(zip(backlog.ids, *(c.tolist() for c in columns), strict=True))
    wrong = [
        (i, planned, known[i] if i < len(known) else None)
        for i, planned in [
            *placed,
            *((i, (r.id, r.prompt_tokens, r.output_tokens, r.release)) for i, r in plan.skipped),
        ]
        if i >= len(known) or known[i] != planned
    ]
    texts = [
        f"index {i} is {_words(planned)} in the plan, "
        + (f"{_words(true)} in the backlog" if true else "and not in the backlog")
        for i, planned, true in wrong[:SHOWN_FAULTS]
    ]
    if len(wrong) > SHOWN_FAULTS:
        texts.append(f"{len(wrong)} requests differ from the backlog in all")
    return texts


def _words(request: tuple[str, int, int, int]) -> str:
    name, s, o, a = request
    return f"{name!r} ({s} prompt, {o} output tokens, release {a})"
