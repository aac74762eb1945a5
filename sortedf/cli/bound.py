"""`sortedf bound`: what no plan can be better than, and the proof."""

from __future__ import annotations

import time
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.interrupt import Interrupt
from sortedf.cli.outputs import check_outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from sortedf.lp import Bound
    from sortedf.model import Instance
    from sortedf.solvers import MaxSeconds, Progress, Stop

MOST_CHECKED = 3_000_000
"""Kinds of requests times pieces of prices up to which a proof is checked at once, in seconds."""

UNCHECKED = "certificate, not checked"

SHARE_FOR_PLAN = 0.2
"""Of the time limit, for the plan that branching starts from."""

SHOW_SECONDS = 0.5
"""Between two looks at how far a search is."""


@options.grouped
def bound(
    given: options.Backlog,
    reading: options.Reading,
    method: Annotated[
        str,
        typer.Option(
            metavar="M",
            help="auto, output, volume, mean-busy-time, packing, prices, planes, branching.",
        ),
    ] = "auto",
    time_limit: options.TimeLimit = None,
    certificate: options.CertificateFile = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Bound the total latency of every plan of a backlog from below.

    The formulas stand beside the method. A bound that rests on prices is recomputed by the
    independent checker before it is shown; --certificate writes it for others to check.
    """
    read = given.backlog, given.workers, reading.output_tokens
    check_outputs({"--certificate": certificate}, *read, json=json)
    from sortedf import __version__
    from sortedf.cli.workers import told_workers
    from sortedf.lp.bounds import best_of, best_proof, find_methods
    from sortedf.solvers import MaxSeconds

    find_methods(method, limited=time_limit is not None, certified=certificate is not None)
    stop = None if time_limit is None else MaxSeconds(time_limit)
    console = Console(quiet=quiet)
    loaded = options.load_backlog(given, reading, console)
    instance = loaded.instance.in_blocks(given.block_size)
    names = find_methods(method, instance, limited=stop is not None)
    if stop is not None:
        with console.status("compiling"):
            _warm_up(names)
        stop.share(0)  # starts the clock
    found: list[Bound] = []
    rows: list[dict[str, Any]] = []
    interrupt = Interrupt()
    stopped = None  # by Ctrl-C: what is missing
    try:
        for name in names:
            with (
                interrupt,
                console.search(f"bounding {len(instance):,} requests: {name}") as report,
            ):
                begin = time.perf_counter()
                found.append(_find(name, instance, stop, report, interrupt))
                seconds = time.perf_counter() - begin
            with console.status(f"checking the bound by {name}"):
                row = _checked(found[-1], loaded.instance, given.block_size)
            if row["proof"] == UNCHECKED:
                console.note(f"the bound by {name} is large: check its certificate by verify")
            rows.append(row | {"seconds": seconds})
            if interrupt.pressed:
                stopped = f"{name} was not run to its end"
                break
    except KeyboardInterrupt:
        if not rows:
            raise
        found = found[: len(rows)]
        stopped = f"{len(rows)} of {len(names)} methods were run"
    best = best_of(found)
    if certificate is not None:
        _write(best_proof(found), best, certificate, loaded, given.block_size, console)
    document = {
        "n": len(instance),
        "kv_tokens": loaded.instance.kv_tokens,
        **told_workers(loaded.instance),
        "block_size": given.block_size,
        "skipped": len(loaded.skipped),
        "method": best.kind,
        "lower_bound": ceil(best.value),
        "lower_bound_exact": f"{best.value.numerator}/{best.value.denominator}",
        "bound_kind": "certified",
        "rows": rows,
        "complete": stopped is None,
        "version": __version__,
        "instance_sha256": loaded.instance.sha256,
    }
    if json:
        console.json(document)
    elif certificate != "-":
        from sortedf.report import tables

        console.show(tables.bounds(document, console.width))
    if stopped is not None:
        console.note(stopped)
        raise typer.Exit(130)


def _warm_up(names: list[str]) -> None:
    """Have all kernels compiled, or loaded, before the clock starts."""
    from sortedf.model import Instance
    from sortedf.solvers import find_solver
    from sortedf.solvers.solver import compile_kernels

    tiny = Instance([1, 2, 1], [2, 3, 4], 6)
    for name in names:
        _find(name, tiny, None, lambda progress: None, Interrupt())
    if "branching" in names:
        compile_kernels(find_solver("improve"))


def _find(
    name: str,
    instance: Instance,
    stop: MaxSeconds | None,
    report: Callable[[Progress], None],
    interrupt: Interrupt,
) -> Bound:
    """Run one method; within a time limit a search finds the plan that branching starts from.

    Ctrl-C ends it with the bound that it has; while a formula is computed, or that plan is
    searched, there is none.
    """
    from sortedf.lp.bounds import BRANCHING_STEPS, METHODS
    from sortedf.model import StopReason
    from sortedf.solvers import AnyOf, MaxIterations, MaxSeconds, Progress, solve

    start = None
    stops: list[Stop] = [interrupt]
    if stop is not None:
        stops.append(stop)
    elif name == "branching":
        stops.append(MaxIterations(BRANCHING_STEPS))
    if name == "branching" and stop is not None:
        limit = AnyOf(interrupt, MaxSeconds(SHARE_FOR_PLAN * stop.seconds))
        plan = solve(instance, solver="improve", bound=False, stop=limit, report=report)
        if plan.stop_reason is StopReason.INTERRUPTED:
            # The search ends with its best plan; Ctrl-C was meant for the bound.
            raise KeyboardInterrupt
        start = plan.schedule
    shown = 0.0

    def watch(iterations: int, best: int, value: Fraction | None) -> object:
        nonlocal shown
        if time.monotonic() >= shown + SHOW_SECONDS:
            shown = time.monotonic()
            report(Progress(iterations, best, value))
        return AnyOf(*stops)(iterations, best, value)

    return METHODS[name].find(instance, start=start, stop=watch)


def _checked(bound: Bound, instance: Instance, block_size: int) -> dict[str, Any]:
    """Have a bound recomputed, if that is not too much work, and say what it rests on.

    Raises
    ------
    VerificationError
        If the checker does not find the same: a fault of the method, never shown as a bound.
    """
    from sortedf.instances import new_certificate
    from sortedf.solvers import certified_bound

    row: dict[str, Any] = {
        "method": bound.kind,
        "lower_bound": ceil(bound.value),
        "lower_bound_exact": f"{bound.value.numerator}/{bound.value.denominator}",
        "horizon": None,
        "pieces": None,
        "leaves": None,
        "proof": "formula",
    }
    if not bound.is_certifiable:
        return row
    certificate = new_certificate(instance, bound, block_size=block_size)
    lists = certificate.get("price_lists") or [certificate["prices"]]
    tree = certificate.get("tree", [0])
    row |= {
        "horizon": max((pieces[-1][1] for pieces in lists if pieces), default=0),
        "pieces": sum(map(len, lists)),
        "leaves": sum(type(entry) is int for entry in tree),
    }
    columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
    kinds = set(zip(*(column.tolist() for column in columns), strict=True))
    work = len(kinds) * row["pieces"]
    # The windows of a tree are narrow.
    if work // (4 if len(tree) > 1 else 1) > MOST_CHECKED:
        return row | {"proof": UNCHECKED}
    certified_bound(instance, certificate, f"the bound by {bound.kind}")
    return row | {"proof": "certificate, checked"}


def _write(
    proof: Bound | None,
    best: Bound,
    path: str,
    loaded: options.Loaded,
    block_size: int,
    console: Console,
) -> None:
    """Write the certificate of the best bound that has one."""
    from sortedf.instances import new_certificate, write_certificate

    if proof is None:  # interrupted before there was one
        console.note("no certificate yet: formulas have none")
        return
    if ceil(proof.value) < ceil(best.value):
        console.note(
            f"the certificate proves {ceil(proof.value):,}; the rest up to {ceil(best.value):,} "
            f"is by a formula, {best.kind}, which has none"
        )
    certificate = new_certificate(
        loaded.instance, proof, block_size=block_size, skipped=loaded.positions
    )
    with console.status(f"writing {path}"):
        write_certificate(certificate, path)
    if path != "-":
        console.note(f"certificate written to {path}")
