"""`sortedf prove`: the theorems checked by running them; one file a subcommand."""

from __future__ import annotations

import typer

from sortedf.cli.prove import three_partition

app = typer.Typer(
    name="prove",
    help="Check the theorems by running them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command("three-partition")(three_partition.three_partition)
