"""`sortedf run`: a plan executed on an engine, its answers in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes
from sortedf.cli.execution import Execution
from sortedf.cli.run_options import Arguments, Serving, check_target
from sortedf.cli.run_setup import Setup, read_manifest
from sortedf.errors import OptionError


@options.grouped
def run(
    plan: Annotated[
        str | None,
        typer.Argument(metavar="PLAN", help="Plan file; - is stdin.", show_default=False),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Argument(
            metavar="BATCH", help="OpenAI batch file that the plan is of.", show_default=False
        ),
    ] = None,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder of the run.", show_default=False
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Go on with the run in this folder.", show_default=False),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="--resume: also run again what was refused.")
    ] = False,
    serving: Serving,
    steptime: StepTimes = None,
    pace: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="replay: X times as fast as the engine would be.",
            show_default="at once",
        ),
    ] = None,
    warm_up: Annotated[
        bool | None,
        typer.Option(
            "--warm-up/--no-warm-up",
            help="Whether the engine first does some requests that are thrown away: its first "
            "steps are slower.",
            show_default="where the run is predicted",
        ),
    ] = None,
    settings: Engine,
    arguments: Arguments,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Execute a plan on an engine.

    Each request of the batch becomes one line of DIR/output.jsonl as soon as it is answered, or an
    error record; the rest goes on. --steptime predicts the run first and shows both. A run that was
    stopped goes on with --resume DIR, which needs no other argument.
    """
    check_target(output, resume)
    if retry_failed and resume is None:
        raise OptionError("--retry-failed is of --resume")
    if pace is not None and not 0 < pace < float("inf"):
        raise OptionError(f"--pace is {pace}; it must be above 0")
    if settings.policy is not None:
        raise OptionError("--policy follows from --handover in a run; leave it out")
    console = Console(quiet=quiet)
    before = {} if resume is None else read_manifest(resume)
    if resume is not None and plan is None:
        plan = str(Path(resume) / str(before.get("plan")))
    if plan is None:
        raise OptionError("PLAN is missing: a plan file (see sortedf solve -o)")
    if plan == batch == "-":
        raise OptionError("PLAN and BATCH cannot both be stdin")
    setup = Setup(
        chosen=serving.remembered(before),
        settings=settings if settings.given() else Engine(**before.get("settings", {})),
        arguments=arguments.given() or before.get("engine_arguments", {}),
        batch=before.get("batch") if batch is None else batch,
        steptime=before.get("steptime") if steptime is None else steptime,
        pace=pace,
        warm_up=warm_up,
        before=before,
        console=console,
    )
    folder = str(output if resume is None else resume)
    code, document = Execution(setup, folder, console, retry_failed=retry_failed).go(plan)
    if json:
        console.json(document)
    else:
        from sortedf.report import run_tables

        console.show(run_tables.run(document))
    if code:
        raise typer.Exit(code)
