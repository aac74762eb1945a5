"""`sortedf prove`: the theorems checked by running them; one file a subcommand."""

from __future__ import annotations

import typer

from sortedf.cli.prove import (
    counterexample,
    find,
    overview,
    ratio,
    three_partition,
    worst_cases,
)

app = typer.Typer(
    name="prove",
    invoke_without_command=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.callback()(overview.overview)
app.command("three-partition")(three_partition.three_partition)
app.command("counterexample")(counterexample.counterexample)
app.command("ratio")(ratio.ratio)
app.command("find")(find.find)
app.command("worst-cases")(worst_cases.worst_cases)
