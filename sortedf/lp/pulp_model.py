"""The time-indexed program written out in PuLP: to be read, exported, and held against the arrays.

It shares nothing with :mod:`sortedf.lp.program` but the mathematics: one row for each request,
equal or not, and memory as it is held at each step. Building it takes about a microsecond for each
request, start and output token, so it is for small backlogs.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sortedf.errors import OptionError
from sortedf.instances.files import kind_by_name, write_whole
from sortedf.lp.ascent import best_in_order, check_sizes
from sortedf.model import Instance

FORMATS = (".lp", ".mps")


def pulp_model(instance: Instance, horizon: int, *, integer: bool = False) -> Any:
    """Build the program as a ``pulp.LpProblem``.

    Variables ``x_I_P``: how much of request I (by position) starts at step P, 0-based. Rows
    ``request_I`` and ``memory_T``, T = 1..horizon. See :mod:`sortedf.lp.program` for the horizon:
    the linear program has all starts up to it, the integer program those that complete by it.

    Parameters
    ----------
    horizon
        Last step with a memory row, at least 1.
    integer
        Whole requests only.
    """
    import pulp

    problem = pulp.LpProblem("sortedf", pulp.LpMinimize)
    requests = range(len(instance))
    s = instance.prompt_tokens.tolist()
    o = instance.output_tokens.tolist()
    a = instance.release.tolist()
    category = pulp.LpBinary if integer else pulp.LpContinuous
    starts = {
        i: range(a[i], (horizon - o[i] if integer else max(horizon, a[i])) + 1) for i in requests
    }
    x = {
        (i, p): problem.add_variable(f"x_{i}_{p}", lowBound=0, cat=category)
        for i in requests
        for p in starts[i]
    }

    problem += pulp.lpSum((p - a[i] + o[i]) * x[i, p] for i, p in x), "latency"

    for i in requests:
        problem += pulp.lpSum(x[i, p] for p in starts[i]) == 1, f"request_{i}"

    held: dict[int, list[Any]] = {t: [] for t in range(1, horizon + 1)}
    for i, p in x:
        for t in range(p + 1, min(p + o[i], horizon) + 1):
            held[t].append((s[i] + t - p) * x[i, p])
    for t, tokens in held.items():
        problem += pulp.lpSum(tokens) <= instance.kv_tokens, f"memory_{t}"
    return problem


def write_model(
    instance: Instance, path: str | Path, *, horizon: int | None = None, integer: bool = False
) -> None:
    """Write the program as an ``.lp`` or ``.mps`` file for any solver; ``.gz`` packs it.

    Parameters
    ----------
    horizon
        See :func:`pulp_model`. Left out: the makespan of the shortest of three list schedules, or
        max a + sum o for the integer program, by which some best schedule has completed.

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    InputError
        When the file cannot be written.
    OptionError
        For another ending of the name, or a horizon below 1.
    """
    check_sizes(instance)
    ending = kind_by_name(path)
    if ending not in FORMATS:
        raise OptionError(f"a model is written to a name that ends in .lp or .mps, not {path}")
    if horizon is None and integer:
        horizon = int(instance.release.max() + instance.output_tokens.sum())
    elif horizon is None:
        horizon = best_in_order(instance).makespan(instance)
    elif horizon < 1:
        raise OptionError(f"the horizon is step {horizon}; it must be at least 1")
    problem = pulp_model(instance, horizon, integer=integer)
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"model{ending}"
        write = problem.writeLP if ending == ".lp" else problem.writeMPS
        write(str(file))
        write_whole(path, [file.read_bytes()])
