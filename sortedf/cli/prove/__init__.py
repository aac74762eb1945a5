"""`sortedf prove`: the theorems checked by running them; one file a subcommand."""

from __future__ import annotations

import typer

from sortedf.cli.prove import overview, ratio

app = typer.Typer(
    name="prove",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.callback()(overview.overview)
app.command("ratio")(ratio.ratio)
