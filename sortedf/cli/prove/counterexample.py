"""`sortedf prove counterexample`: how far policies fall behind on the families that hurt them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs
from sortedf.cli.quantities import parse_tokens
from sortedf.errors import OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.proofs_check.families import Family

MOST_KV_TOKENS = 2**20
"""Largest budget: families have up to that many requests, and each schedule is verified."""

BUDGETS = "64,256,1024,4096"

PICTURES = (".svg", ".png")


def counterexample(
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One policy; left out: all that a family is known for."),
    ] = None,
    kv_tokens: Annotated[
        str, typer.Option(metavar="M,M,...", help="KV budgets in tokens.")
    ] = BUDGETS,
    improve: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Improve the good schedules of up to 300 requests by N iterations.",
        ),
    ] = 0,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PICTURE",
            help="Picture of the growth: .svg or .png.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Show how far policies fall behind on the backlogs that hurt them most, by KV budget.

    A ratio is the policy's total latency over that of the best verified schedule found: the ratio
    to the optimum is at least that. With two budgets or more, the power of M that fits. Exit code
    6 if a ratio is below what is derived.
    """
    if output is not None and Path(output).suffix not in PICTURES:
        raise OptionError(f"-o {output} names no picture; it has to end in .svg or .png")
    budgets = _budgets(kv_tokens)
    check_outputs({"-o": output}, json=json)
    from sortedf.proofs_check.growth import judge, measure

    console = Console(quiet=quiet)
    growths = []
    with console.work("measuring") as say:
        for name, family in _chosen(policy):
            growths.append(measure(name, family, budgets, steps=improve, report=say))
    findings = [judge(growth) for growth in growths]
    rows = [
        growth.to_dict() | {"as_derived": finding.holds}
        for growth, finding in zip(growths, findings, strict=True)
    ]
    if output is not None:
        _draw(rows, output, console)
    if json:
        console.json({"kv_tokens": budgets, "rows": rows})
    else:
        from sortedf.report.growth import growth_table

        console.show(growth_table(rows))
    wrong = [
        f"{finding.claim}: not at M = {instance.kv_tokens}"
        for finding in findings
        for instance in finding.violations
    ]
    if wrong:
        raise VerificationError(wrong)


def _budgets(text: str) -> list[int]:
    try:
        budgets = sorted({parse_tokens(part.strip()) for part in text.split(",")})
    except ValueError as error:
        raise OptionError(f"--kv-tokens {text}: {error}") from None
    if budgets[-1] > MOST_KV_TOKENS:
        raise OptionError(
            f"--kv-tokens {budgets[-1]} makes backlogs too large to verify; "
            f"{MOST_KV_TOKENS} at most"
        )
    return budgets


def _chosen(policy: str | None) -> list[tuple[str, Family]]:
    """Pair policies with their families."""
    from sortedf.proofs_check.families import FAMILIES, families_of

    if policy is not None:
        return [(policy, family) for family in families_of(policy)]
    return [(name, family) for family in FAMILIES.values() for name in family.policies]


def _draw(rows: list[dict[str, Any]], output: str, console: Console) -> None:
    import matplotlib as mpl

    from sortedf.instances.files import write_whole
    from sortedf.report.growth import growth_picture

    form = Path(output).suffix.removeprefix(".")
    picture = io.BytesIO()
    # No date and no random ids, so that the same measurement gives the same file.
    settings: Any = {"svg.hashsalt": "growth"}
    metadata: Any = {"Date": None} if form == "svg" else None
    with mpl.rc_context(settings):
        growth_picture(rows).savefig(picture, format=form, dpi=110, metadata=metadata)
    write_whole(output, [picture.getvalue()])
    console.note(f"picture written to {output}")
