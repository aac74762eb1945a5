"""`sortedf prove ratio`: the guarantees put to the test."""

from __future__ import annotations

from typing import Annotated

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.prove import violations
from sortedf.errors import OptionError


def ratio(
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="svf, svf-1bit, exact-dp, local-swap, quantile-greedy, or all: the bounds, too.",
        ),
    ] = "all",
    instances: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Instances of up to 8 requests, held against their optimum."
        ),
    ] = 1000,
    larger: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Instances of 9 to 80 requests, against certified bounds."
        ),
    ] = 20,
    seed: options.Seed = 0,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where instances go that violate a claim.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put the guarantees to the test on random, structured and adversarial instances.

    Exit code 6 if a claim is violated: a fault of the claim or of this program, whose instance is
    written to the folder of -o.
    """
    if instances + larger == 0:
        raise OptionError("--instances and --larger are both 0: nothing to check")
    from sortedf import __version__
    from sortedf.instances.files import make_folder
    from sortedf.proofs_check.claims import find_claims
    from sortedf.proofs_check.guarantees import check_guarantees

    console = Console(quiet=quiet)
    claims = find_claims(policy)
    if output is not None:
        make_folder(output)  # before the checks, so that no violation is lost
    findings = check_guarantees(
        instances=instances, larger=larger, seed=seed, claims=claims, watch=console.track
    )
    rows = [finding.to_dict() for finding in findings]
    document = {
        "policy": policy,
        "instances": instances,
        "larger": larger,
        "seed": seed,
        "version": __version__,
        "holds": all(finding.holds for finding in findings),
        "rows": rows,
    }
    if json:
        console.json(document)
    else:
        from sortedf.report.claims import table

        console.show(table(rows, "Guarantees, put to the test", console.width))
    violations.end(findings, output)
