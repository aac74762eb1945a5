"""`sortedf run`: a plan executed on an engine, its answers in a folder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes
from sortedf.cli.run_end import end, how_to_go_on
from sortedf.cli.run_options import Arguments, Serving, check_named, check_target
from sortedf.cli.run_progress import RunWatch
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
            help="Whether the run is rehearsed first, the answers thrown away: what an engine does "
            "for the first time is slower.",
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
    check_named(
        {
            "PLAN": plan,
            "BATCH": batch,
            "-o": output,
            "--resume": resume,
            "--model": serving.model,
            "--tokenizer": serving.tokenizer,
            "--served-model-name": "" if "" in (serving.served_model_name or ()) else None,
            "--steptime": steptime,
        }
    )
    if retry_failed and resume is None:
        raise OptionError("--retry-failed is of --resume")
    if pace is not None and not 0 < pace < float("inf"):
        raise OptionError(f"--pace is {pace}; it must be above 0")
    if settings.policy is not None:
        raise OptionError("--policy follows from --handover in a run; leave it out")
    if plan is None and resume is None:
        raise OptionError("PLAN is missing: a plan file (see sortedf solve -o)")
    if plan == batch == "-":
        raise OptionError("PLAN and BATCH cannot both be stdin")
    from sortedf import runner
    from sortedf.runner.run_identity import read_manifest

    engine = {"settings": settings.given(), "engine_arguments": arguments.given()}
    given: dict[str, Any] = {
        **serving.given(),
        **{name: values for name, values in engine.items() if values},
        **({} if steptime is None else {"steptime": steptime}),
        "pace": pace,
        "warm_up": warm_up,
    }
    console = Console(quiet=quiet)
    folder = str(output or resume)
    begun = {} if resume is None else read_manifest(folder)
    chosen = replace(runner.RunOptions.remembered(begun), **given)
    watch = RunWatch(console)
    again = f"sortedf run --resume {shlex.quote(folder)}"
    with how_to_go_on(again, [Path(folder)], console):
        if resume is None:
            result = runner.run(str(plan), batch, folder, chosen, watch=watch)
        else:
            result = runner.resume(
                folder, chosen, plan=plan, batch=batch, retry_failed=retry_failed, watch=watch
            )
    code = end(result, watch, again, console)
    if json:
        console.json(result.to_dict())
    else:
        from sortedf.report import run_tables

        console.show(run_tables.run(result.to_dict()))
    if code:
        raise typer.Exit(code)
