"""`sortedf verify`: whether a plan is what it says."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import SHOWN_FAULTS, OptionError


def verify(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is stdin.")],
    backlog: Annotated[
        str | None,
        typer.Argument(metavar="BACKLOG", help="The backlog that was planned.", show_default=False),
    ] = None,
    arrivals: options.Arrivals = False,
    tokenizer: options.Tokenizer = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    skip_bad_lines: options.SkipBadLines = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a plan, by its backlog if given.

    The checker is independent of the solvers. Exit code 6 if anything is wrong. Give the options
    with which the backlog was read for the plan.
    """
    from sortedf.instances import read_backlog, read_plan
    from sortedf.solvers import check_plan

    reading: dict[str, Any] = {
        "arrivals": arrivals,
        "tokenizer": tokenizer,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "skip_bad_lines": skip_bad_lines,
    }
    if backlog is None and any(reading.values()):
        raise OptionError("reading options are for a BACKLOG, and none is named")
    if backlog == plan == "-":
        raise OptionError("PLAN and BACKLOG cannot both be stdin")
    console = Console(quiet=quiet)
    with console.status(f"reading {plan}"):
        planned = read_plan(plan)
    instance = None
    if backlog is not None:
        with console.status(f"reading {backlog}"):
            instance = read_backlog(
                backlog, kv_tokens=planned.kv_tokens, note=console.note, **reading
            )
    with console.status(f"verifying {len(planned.starts):,} requests"):
        check = check_plan(planned, instance)
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
    document = {
        "plan": plan,
        "backlog": backlog,
        "verified": check.ok,
        "n": len(planned.starts),
        "skipped": len(planned.skipped),
        "kv_tokens": planned.kv_tokens,
        "block_size": planned.block_size,
        "solver": planned.solver,
        "total_latency": report.total_latency,
        "makespan": report.makespan,
        "peak_kv_tokens": report.peak,
        "violations_in_all": report.total,
        "violations": violations,
        "mismatches": list(check.mismatches),
        "instance_sha256": planned.instance_sha256,
    }
    if json:
        console.json(document)
    elif check.ok:
        from sortedf.report import tables

        console.show(tables.verified_plan(document))
    if check.ok:
        return
    lines = [*check.mismatches, *map(str, report.violations)]
    count = report.total + len(check.mismatches)
    for line in lines[:SHOWN_FAULTS]:
        typer.echo(f"{plan}: {line}", err=True)
    if count > SHOWN_FAULTS:
        typer.echo(f"{plan}: {count} violations in all", err=True)
    raise typer.Exit(6)
