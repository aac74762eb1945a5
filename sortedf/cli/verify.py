"""`sortedf verify`: whether a plan, or the certificate of a bound, is what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import SHOWN_FAULTS, Fault, InputError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sortedf.instances import Plan, Source


@options.grouped
def verify(
    file: Annotated[
        str, typer.Argument(metavar="PLAN|CERTIFICATE", help="The file to check; - is stdin.")
    ],
    reading: options.Reading,
    backlog: Annotated[
        str | None,
        typer.Argument(metavar="BACKLOG", help="The backlog that it is of.", show_default=False),
    ] = None,
    kv_tokens: options.KvTokens = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a plan, by its backlog if given, or recompute a certified bound from its backlog.

    The checkers are independent of the solvers. Exit code 6 if anything is wrong. Give the options
    with which the backlog was read. --kv-tokens is the budget that the file has to be for; left
    out, its own.
    """
    from sortedf.instances import is_certificate, is_plan, open_source

    if backlog is None and reading != options.Reading():
        raise OptionError("reading options are for a BACKLOG, and none is named")
    if backlog == file == "-":
        raise OptionError("the file to check and BACKLOG cannot both be stdin")
    console = Console(quiet=quiet)
    with console.status(f"reading {file}"):
        source = open_source(file)
    certified = is_certificate(source)
    if not certified and not is_plan(source):
        what = "neither a plan nor a certificate; name what solve -o or --certificate wrote"
        raise InputError([Fault(source.name, None, what)])
    if certified:
        if backlog is None:
            raise OptionError("a certificate is checked by its BACKLOG; name it, too")
        document, faults, total = _certificate(source, backlog, reading, kv_tokens, console)
    else:
        document, faults, total = _plan(source, backlog, reading, kv_tokens, console)
    document = {"certificate" if certified else "plan": file, "backlog": backlog} | document
    if json:
        console.json(document)
    elif not total:
        from sortedf.report import tables

        table = tables.verified_certificate if certified else tables.verified_plan
        console.show(table(document))
    if not total:
        return
    for line in faults[:SHOWN_FAULTS]:
        typer.echo(f"{file}: {line}", err=True)
    if total > SHOWN_FAULTS:
        typer.echo(f"{file}: {total} violations in all", err=True)
    raise typer.Exit(6)


Checked = tuple[dict[str, Any], "Sequence[str]", int]
"""The document of the command, what is wrong in words, and how much is wrong in all."""


def _plan(
    source: Source,
    backlog: str | None,
    reading: options.Reading,
    kv_tokens: int | None,
    console: Console,
) -> Checked:
    from sortedf.instances import read_plan
    from sortedf.solvers import check_plan

    planned = read_plan(source)
    instance = None
    if backlog is not None:
        instance = options.read(backlog, planned.kv_tokens, reading, console)
    with console.status(f"verifying {len(planned.starts):,} requests"):
        check = check_plan(planned, instance)
    mismatches = list(check.mismatches)
    if kv_tokens not in (None, planned.kv_tokens):
        mismatches.append(f"the plan is for {planned.kv_tokens} tokens, not {kv_tokens}")
    report = check.report
    violations = [
        {
            "kind": violation.kind,
            "step": violation.step,
            "requests": [check.ids[i] for i in violation.requests],
            "used": violation.used,
            "limit": violation.limit,
            "message": violation.message,
        }
        for violation in report.violations
    ]
    total = report.total + len(mismatches)
    document = {
        "verified": not total,
        "n": len(planned.starts),
        "skipped": len(planned.skipped),
        "kv_tokens": planned.kv_tokens,
        **_workers(planned, report.peaks),
        "block_size": planned.block_size,
        "solver": planned.solver,
        "total_latency": report.total_latency,
        "makespan": report.makespan,
        "peak_kv_tokens": report.peak,
        "violations_in_all": report.total,
        "violations": violations,
        "mismatches": mismatches,
        "instance_sha256": planned.instance_sha256,
    }
    return document, [*mismatches, *map(str, report.violations)], total


def _workers(planned: Plan, peaks: Sequence[int]) -> dict[str, Any]:
    """Say what each of several workers holds at most."""
    if len(planned.workers) == 1:
        return {}
    return {
        "workers": [
            {"name": worker.name, "kv_tokens": worker.kv_tokens, "peak_kv_tokens": peak}
            for worker, peak in zip(planned.workers, peaks, strict=True)
        ]
    }


def _certificate(
    source: Source, backlog: str, reading: options.Reading, kv_tokens: int | None, console: Console
) -> Checked:
    from math import ceil

    from sortedf.instances import read_certificate
    from sortedf.solvers import check_certificate

    recorded = read_certificate(source)
    instance = options.read(backlog, 1, reading, console)
    with console.status(f"recomputing the bound of {len(instance):,} requests"):
        report = check_certificate(instance, recorded, kv_tokens=kv_tokens)
    bound = report.bound
    document = {
        "verified": report.ok,
        "n": len(instance) - len(recorded.get("skipped", [])),
        "skipped": len(recorded.get("skipped", [])),
        "kv_tokens": recorded["kv_tokens"],
        **{key: recorded[key] for key in ("workers",) if key in recorded},
        "block_size": recorded.get("block_size", 1),
        "lower_bound": None if bound is None else ceil(bound),
        "lower_bound_exact": None if bound is None else f"{bound.numerator}/{bound.denominator}",
        "recorded_bound": recorded["bound"],
        "horizon": report.horizon,
        "pieces": report.pieces,
        "leaves": report.leaves,
        "violations_in_all": report.total,
        "violations": [
            {"kind": violation.kind, "message": violation.message}
            for violation in report.violations
        ],
        "instance_sha256": recorded["instance_sha256"],
    }
    return document, list(map(str, report.violations)), report.total
