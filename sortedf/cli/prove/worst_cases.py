"""`sortedf prove worst-cases`: check folders of `sortedf prove find`, or the packaged ones."""

from __future__ import annotations

from typing import Annotated

import typer

from sortedf.cli import options
from sortedf.cli.console import Console


def worst_cases(
    folders: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FOLDER",
            help="Folders of sortedf prove find. Left out: those that are packaged.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check worst cases: both plans, the bound, and that the policy does what its plan says."""
    from sortedf.proofs_check.worst_case import check_case, hall_of_fame

    console = Console(quiet=quiet)
    paths = [*map(str, folders or hall_of_fame())]
    rows = [
        {"folder": path} | check_case(path).to_dict()
        for path in console.track(paths, "checking", len(paths))
    ]
    if json:
        console.json({"rows": rows})
        return
    from sortedf.report.growth import bracket_table

    console.show(bracket_table(rows))
