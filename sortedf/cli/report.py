"""`sortedf report`: plans of one backlog beside each other and a lower bound, as a page."""

from __future__ import annotations

import hashlib
import json as json_text
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs
from sortedf.cli.quantities import parse_bytes
from sortedf.errors import Fault, InputError, OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.instances import Plan
    from sortedf.report.document import ReportedPlan
    from sortedf.report.extra_memory import Unit
    from sortedf.report.proof import Proof

GIB = 2**30


class Format(StrEnum):
    """Forms of a report; the values are endings of file names too."""

    HTML = "html"
    JSON = "json"
    MD = "md"
    CSV = "csv"


def report(
    plans: Annotated[
        list[str], typer.Argument(metavar="PLAN", help="Plan files of one backlog and budget.")
    ],
    certificate: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Certificate of the bound; found anew if left out."),
    ] = None,
    kv_bytes_per_token: Annotated[
        int | None,
        options.quantity(
            "--kv-bytes-per-token",
            parse_bytes,
            "SIZE",
            "KV cache of a token, to speak of GiB instead of 1,000 tokens.",
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option(help="Form of the report; by default what -o ends in, or html."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the report; left out, or -: stdout.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show how far plans are from the best.

    Each plan is verified and held against a lower bound. The page needs no network and shows the
    backlog, the plans, memory over time, how requests are packed, when memory is scarce and what
    more of it would buy.
    """
    if output is None and json and format not in (None, Format.JSON):
        raise OptionError(f"--json and --format {format} both want stdout; name a file with -o")
    if [*plans, certificate].count("-") > 1:
        raise OptionError("only one of the files can be stdin")
    check_outputs({"-o": output}, *plans, certificate, json=json)
    form = format or _form_of(output)
    from sortedf.instances.files import write_whole

    unit = _unit(kv_bytes_per_token)
    console = Console(quiet=quiet)
    reported, left_out = _verified(plans, console)
    proof = _proof(certificate, reported, console)
    document = _document(reported, left_out, proof, unit, console)
    if json:
        console.json(document)
    if output is None and json:
        return
    target = output or "-"
    with console.status(f"writing {target}"):
        write_whole(
            target,
            [_written(document, form).encode(errors="backslashreplace")],
        )
    if target != "-":
        console.note(f"report written to {target}")


def _unit(kv_bytes_per_token: int | None) -> Unit:
    from sortedf.report.extra_memory import Unit

    if kv_bytes_per_token is None:
        return Unit("1,000 tokens", 1000)
    if kv_bytes_per_token > GIB:
        raise OptionError(
            f"--kv-bytes-per-token is {kv_bytes_per_token} bytes: a GiB holds no token"
        )
    return Unit("1 GiB", GIB // kv_bytes_per_token)


def _verified(paths: Sequence[str], console: Console) -> tuple[list[ReportedPlan], int]:
    """Read the plans, verify each, and see that all are of one backlog and budget."""
    from sortedf.instances import open_source, read_plan

    plans: list[Plan] = []
    reported = []
    for path in console.track(paths, "verifying", len(paths)):
        source = open_source(path)
        plan = read_plan(source)
        if plans and (different := _difference(plan, plans[0])):
            raise InputError(
                [
                    Fault(
                        plan.source,
                        None,
                        f"{different} than {plans[0].source}; "
                        "a report is of plans of one backlog and budget",
                    )
                ]
            )
        reported.append(_reported(plan, hashlib.sha256(source.data).hexdigest()))
        plans.append(plan)
    return reported, len(plans[0].skipped)


def _difference(plan: Plan, first: Plan) -> str | None:
    if plan.instance_sha256 != first.instance_sha256:
        return "a plan of another backlog"
    if plan.kv_tokens != first.kv_tokens:
        return f"a plan for another KV budget ({plan.kv_tokens}, not {first.kv_tokens} tokens)"
    budgets, others = ([w.kv_tokens for w in p.workers] for p in (plan, first))
    if budgets != others:
        return f"a plan for other workers ({len(budgets)} instead of {len(others)})"
    if plan.block_size != first.block_size:
        return f"a plan for other blocks ({plan.block_size}, not {first.block_size} tokens)"
    return None


def _reported(plan: Plan, digest: str) -> ReportedPlan:
    import numpy as np

    from sortedf.model import Result, Schedule
    from sortedf.report.document import ReportedPlan
    from sortedf.solvers import check_plan

    check = check_plan(plan)
    if not check.ok:
        lines = [*check.mismatches, *map(str, check.report.violations)]
        raise VerificationError(
            [f"{plan.source}: {line}" for line in lines],
            check.report.total + len(check.mismatches),
        )
    starts, workers = np.empty((2, len(plan.starts)), np.int64)
    starts[plan.positions()] = plan.starts
    workers[plan.positions()] = plan.on_worker
    result = Result(
        instance=plan.instance(),
        schedule=Schedule(starts, workers),
        solver=plan.solver,
        seconds=0.0,
        version=plan.version,
        seed=plan.seed,
        parameters=plan.parameters,
        block_size=plan.block_size,
        verified=check.ok,
    )
    return ReportedPlan(result, plan.source, digest, plan.lower_bound, check.report.peak)


def _proof(certificate: str | None, plans: Sequence[ReportedPlan], console: Console) -> Proof:
    from sortedf.instances import open_source
    from sortedf.report.proof import find_proof, proof_from

    instance = plans[0].result.instance
    planned = instance.in_blocks(plans[0].result.block_size)
    if certificate is None:
        with console.status("bounding"):
            return find_proof(planned)
    with console.status(f"checking {certificate}"):
        return proof_from(open_source(certificate), instance, planned)


def _document(
    plans: Sequence[ReportedPlan], left_out: int, proof: Proof, unit: Unit, console: Console
) -> dict[str, Any]:
    from sortedf.report.document import gap_report
    from sortedf.report.extra_memory import extra_memory

    first = plans[0].result
    extra = extra_memory(
        first.instance,
        first.block_size,
        proof.prices,
        proof.price_value,
        unit,
        lambda multiples: console.track(multiples, "adding memory", len(multiples)),
    )
    with console.status("looking at the plans"):
        return gap_report(plans, proof, extra, left_out)


def _form_of(output: str | None) -> Format:
    """Take the form from the ending of the name; none is HTML.

    Raises
    ------
    OptionError
        For an ending of no form.
    """
    ending = Path(output or "").suffix.removeprefix(".")
    if ending and ending not in list(Format):
        forms = ", ".join(f".{form}" for form in Format)
        raise OptionError(f"-o {output}: the name ends in none of {forms}; add --format")
    return Format(ending or "html")


def _written(document: dict[str, Any], form: Format) -> str:
    if form is Format.JSON:
        return json_text.dumps(document, allow_nan=False, indent=2) + "\n"
    if form is Format.HTML:
        from sortedf.report.page import page

        return page(document)
    from sortedf.report import texts

    return texts.as_markdown(document) if form is Format.MD else texts.as_csv(document)
