"""The front function: one way to call every solver, and nothing unverified leaves it."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

import sortedf
from sortedf.errors import InfeasibleError, OptionError, VerificationError
from sortedf.model import Instance, Result, Schedule
from sortedf.solvers.registry import Solver, find_solver
from sortedf.verify import verify


def solve(
    instance: Instance, *, solver: str = "auto", seed: int = 0, block_size: int = 1, **options: Any
) -> Result:
    """Plan a backlog and verify the plan.

    Parameters
    ----------
    instance
        The backlog and its KV budget.
    solver
        A name of the registry (``sortedf.solvers.SOLVERS``).
    seed
        For the solvers that draw at random; the others give the same plan for every seed.
    block_size
        Plan safely for an engine that stores KV in blocks of this many tokens: each sequence is
        taken ``block_size - 1`` tokens larger, the budget rounded down to whole blocks.
    options
        What the solver takes: ``lookahead`` (all list schedulers; 1 is strict), ``proxies``
        (``svf-1bit``: threshold, short, long).

    Returns
    -------
    Result
        A verified schedule with its account. Same arguments, same schedule.

    Raises
    ------
    InfeasibleError
        Naming the requests that are larger than the budget.
    OptionError
        For an unknown solver, or an option that it does not take.
    VerificationError
        If the verifier refuses the schedule: a fault of the solver, never passed on.
    """
    entry = find_solver(solver)
    entry.check_options(options)
    if seed < 0:
        raise OptionError(f"the seed is {seed}; it must be at least 0")
    planned = instance.in_blocks(block_size)
    if oversized := oversized_requests(planned):
        raise InfeasibleError(oversized, planned.kv_tokens)
    _compile(entry)
    begin = time.perf_counter()
    schedule, parameters = entry.plan(planned, seed, **options)
    seconds = time.perf_counter() - begin
    _verify(planned, schedule)
    return Result(
        instance=instance,
        schedule=schedule,
        solver=solver,
        seconds=seconds,
        version=sortedf.__version__,
        seed=seed,
        parameters=parameters,
        block_size=block_size,
        verified=True,
    )


@cache
def _compile(entry: Solver) -> None:
    """Have the solver's kernels compiled, so that the seconds of a result are its own."""
    entry.plan(Instance([1], [1], 2), 0)


def oversized_requests(instance: Instance) -> list[tuple[int, str, int]]:
    """Position, id and tokens (s + o) of each request that is larger than the budget."""
    return [
        (i, instance.ids[i], int(instance.prompt_tokens[i] + instance.output_tokens[i]))
        for i in instance.oversized.tolist()
    ]


def _verify(instance: Instance, schedule: Schedule) -> None:
    report = verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.kv_tokens,
        schedule.starts.tolist(),
        total_latency=schedule.total_latency(instance),
        ids=instance.ids,
    )
    if not report.ok:
        raise VerificationError([str(v) for v in report.violations], report.total)
