"""The front function: one way to call every solver, and nothing unverified leaves it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import ceil
from typing import Any

import sortedf
from sortedf.errors import InfeasibleError, VerificationError, whole_number
from sortedf.lp.bounds import Bound, best_of, best_proof, lower_bounds
from sortedf.model import Instance, Result, Schedule, Status, StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers.registry import find_solver
from sortedf.solvers.solver import Planned, Progress, compile_kernels
from sortedf.solvers.stop import MaxSeconds, Stop
from sortedf.verify import verify

PROOFS = (BoundKind.CERTIFIED, BoundKind.EXHAUSTIVE)
"""Kinds of bounds that make a schedule of the same value optimal; a claim does not."""


def solve(
    instance: Instance,
    *,
    solver: str = "auto",
    stop: Stop | None = None,
    seed: int = 0,
    block_size: int = 1,
    bound: bool | Sequence[Bound] = True,
    report: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Result:
    """Plan a backlog and verify the plan.

    Parameters
    ----------
    instance
        The backlog and its KV budget.
    solver
        A name of the registry (``sortedf.solvers.SOLVERS``).
    stop
        When an anytime solver stops (``sortedf.solvers.stop``); its default time limit if left out.
        Others take none.
    seed
        For the solvers that draw at random; the others give the same plan for every seed.
    block_size
        Plan safely for an engine that stores KV in blocks of this many tokens: each sequence is
        taken ``block_size - 1`` tokens larger, the budget rounded down to whole blocks.
    bound
        Whether a solver that brings no lower bound gets one: the best closed form or the prices of
        :func:`sortedf.lp.lower_bound`, a second or two of work. Or bounds that are known, of this
        instance in these blocks.
    report
        Called by an anytime solver now and then with how far it is.
    options
        What the solver takes: ``lookahead`` (all list schedulers; 1 is strict), ``proxies``
        (``svf-1bit``: threshold, short, long), ``prefill_weight`` (``svf``: token-steps that a
        prompt token counts beyond its memory).

    Returns
    -------
    Result
        A verified schedule with its account. Same arguments, same schedule.

    Raises
    ------
    InfeasibleError
        Naming the requests that are larger than the budget.
    OptionError
        For an unknown solver, or an option or a backlog that it does not take.
    VerificationError
        If the verifier refuses the schedule, or the bound is above its total latency: a fault of
        the solver, never passed on.
    """
    entry = find_solver(solver)
    entry.check_options(options)
    entry.check_stop(stop)
    entry.check_seed(seed)
    whole_number("block_size", block_size, 1)
    planned = instance.in_blocks(block_size)
    if oversized := oversized_requests(instance, block_size):
        raise InfeasibleError(oversized, planned.kv_tokens, block_size)
    entry.check_instance(planned)
    compile_kernels(entry, min(len(planned.workers), 2))
    begin = time.perf_counter()
    if entry.anytime:
        if stop is None and entry.limit_seconds is not None:
            stop = MaxSeconds(entry.limit_seconds)
        if stop is not None and entry.limit_seconds is not None:
            stop.share(0)  # starts the clock; `auto` does so when it has chosen
        options["stop"] = stop
        options["report"] = (lambda progress: None) if report is None else report
    found = entry.plan(planned, seed, **options)
    seconds = time.perf_counter() - begin
    total_latency = verified_latency(planned, found.schedule)
    if bound and found.stop_reason is not StopReason.INTERRUPTED:
        found = _with_bound(found, planned, stop, None if bound is True else bound)
    if found.bound is not None and found.bound > total_latency:
        text = f"the lower bound {found.bound} is above the total latency {total_latency}"
        raise VerificationError([text])
    proved = found.bound is not None and ceil(found.bound) == total_latency
    return Result(
        instance=instance,
        schedule=found.schedule,
        solver=solver,
        seconds=seconds,
        version=sortedf.__version__,
        seed=seed,
        parameters=found.parameters,
        block_size=block_size,
        status=Status.OPTIMAL if proved and found.bound_kind in PROOFS else Status.FEASIBLE,
        stop_reason=found.stop_reason,
        lower_bound_exact=found.bound,
        bound_kind=found.bound_kind,
        verified=True,
        proof=found.proof,
    )


def _with_bound(
    found: Planned, instance: Instance, stop: Stop | None, known: Sequence[Bound] | None
) -> Planned:
    """Add a lower bound to what a solver found, unless it brings a better one of its own.

    It is the best one known or, if none is and the solver brings none, by formulas and prices. A
    time limit that is used up leaves time for first prices only. Ctrl-C leaves it without.
    """
    if known is None:
        if found.bound is not None:
            return found
        try:
            known = lower_bounds(instance, stop=stop and (lambda *_: stop.share(0) >= 1.0))
        except KeyboardInterrupt:
            return found._replace(stop_reason=StopReason.INTERRUPTED)
    best = best_of(known).value
    if found.bound is not None and found.bound >= best:
        return found
    return found._replace(bound=best, bound_kind=BoundKind.CERTIFIED, proof=best_proof(known))


def oversized_requests(instance: Instance, block_size: int = 1) -> list[tuple[int, str, int]]:
    """Index, id and tokens (s + o) of each request that is larger than the budget, in blocks."""
    return [
        (i, instance.ids[i], int(instance.prompt_tokens[i] + instance.output_tokens[i]))
        for i in instance.in_blocks(block_size).oversized.tolist()
    ]


def verified_latency(instance: Instance, schedule: Schedule) -> int:
    """Return the total latency (steps) that the verifier finds.

    Raises
    ------
    VerificationError
        With what it does not accept.
    """
    report = verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.budgets.tolist(),
        schedule.starts.tolist(),
        workers=schedule.workers.tolist(),
        total_latency=schedule.total_latency(instance),
        ids=instance.ids,
    )
    if report.total_latency is None or not report.ok:
        raise VerificationError([str(v) for v in report.violations], report.total)
    return report.total_latency
