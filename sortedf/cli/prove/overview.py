"""`sortedf prove`, without a subcommand: the quick form of everything, as a table and a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs
from sortedf.cli.prove import violations
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sortedf.proofs_check.overview import Checked


def overview(
    context: typer.Context,
    seed: options.Seed = 0,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="Page with tables and pictures, one HTML file; - is stdout.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check the theorems by running them.

    Without a command, the quick form of everything: under a minute. Exit code 6 if a claim is
    violated.
    """
    if context.invoked_subcommand is not None:
        if (seed, output, json, quiet) != (0, None, False, False):
            raise OptionError(f"options go after {context.invoked_subcommand}, not before it")
        return
    check_outputs({"-o": output}, json=json)
    from sortedf.instances.files import write_whole
    from sortedf.proofs_check.overview import check_all

    console = Console(quiet=quiet)
    checked = check_all(seed=seed, watch=console.track)
    document = _document(checked, seed)
    if output is not None:
        from sortedf.report.claims import page

        with console.status(f"writing {output}"):
            write_whole(output, [page(document).encode()])
        if output != "-":
            console.note(f"page written to {output}")
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report.claims import table

        rows = [row for part in document["parts"] for row in part["findings"]]
        console.show(table(rows, "The theorems, checked by running them", console.width))
    violations.end([finding for part in checked for finding in part.findings], None)


def _document(checked: Sequence[Checked], seed: int) -> dict[str, Any]:
    from sortedf import __version__

    findings = [finding for part in checked for finding in part.findings]
    return {
        "schema": "sortedf.proofs/1",
        "version": __version__,
        "seed": seed,
        "claims": len(findings),
        "checked": sum(finding.checked for finding in findings),
        "violated": sum(len(finding.violations) for finding in findings),
        "holds": all(finding.holds for finding in findings),
        "parts": [
            {
                "title": part.title,
                "findings": [finding.to_dict() for finding in part.findings],
                "curves": [curves.to_dict() for curves in part.curves],
            }
            for part in checked
        ],
    }
