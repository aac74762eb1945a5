"""`sortedf validate`: a run of the engine held against its prediction."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.calibrate import Form, RunFolder, check_output, read_folder
from sortedf.cli.console import Console
from sortedf.cli.engine_options import RunEngine, StepTimes
from sortedf.cli.validate_run import Predicting, validate_run
from sortedf.errors import OptionError


@options.grouped
def validate(
    folder: RunFolder,
    *,
    steptime: StepTimes = None,
    train: Annotated[
        str | None,
        typer.Option(
            metavar="PART",
            help="Without --steptime, what it is calibrated on: half, the first arrivals; "
            "0.3, what was seen before 30 % of the makespan; all.",
            show_default="half",
        ),
    ] = None,
    form: Form = "auto",
    engine: RunEngine,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help="Of a folder of sortedf run: run the same backlog in these orders, too, on the "
            "same engine, into DIR/against.",
            show_default=False,
        ),
    ] = None,
    repeat: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="--against: run each order N times, the plan too, in turns, and take medians.",
            show_default="once, and the plan not again",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Where to write the page; - is stdout.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Predict a run of the engine and hold the prediction against it.

    Without --steptime the step times are calibrated on a part of the run itself, and nothing else
    of it is looked at; a run that was predicted before it began is held against that. The page
    shows request by request and second by second what was predicted and what happened.
    --against runs the same backlog in other orders, each handed to the engine's own scheduler, as
    one would without a plan; what was run already is not run again.
    --num-gpu-blocks to --shared-blocks are for what the folder of a run that was recorded elsewhere
    does not say, or says wrongly.
    """
    if steptime is not None and (train is not None or form != "auto"):
        raise OptionError("--train and --form are of a calibration; --steptime is one already")
    from sortedf import __version__
    from sortedf.runner.executed import run_folder_of

    console = Console(quiet=quiet)
    check_output(output, [folder], steptime, json=json)
    predicting = Predicting(steptime, train, form, engine.shared_blocks, console)
    found = run_folder_of(folder)
    if found is not None:
        for name in engine.given():
            raise OptionError(f"a run of sortedf run says itself what {name} was; leave it out")
        code, document = validate_run(*found, folder, predicting, against, repeat, console)
        if code:
            raise typer.Exit(code)
    elif against is not None or repeat is not None:
        raise OptionError(f"--against is of a folder of sortedf run; {folder} is none")
    else:
        document = _recorded(folder, engine, predicting, console)
    document = {**document, "version": __version__}
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report import engine_tables, validation_tables

        tables = engine_tables.validation if found is None else validation_tables.run
        console.show(tables(document))
    if output is not None:
        from sortedf.instances.files import write_whole
        from sortedf.report import validation_page

        page = validation_page.page if found is None else validation_page.run_page
        with console.status(f"writing {output}"):
            write_whole(output, [page(document).encode(errors="backslashreplace")])
        if output != "-":
            console.note(f"page written to {output}")


def _recorded(
    folder: str, engine: RunEngine, predicting: Predicting, console: Console
) -> dict[str, Any]:
    """Validate a run that was recorded elsewhere."""
    from sortedf.engine.validation import validate as compare

    run = read_folder(folder, engine, console)
    calibration, training, calibrated = predicting.step_times(run)
    return {**compare(run, calibration, training), "calibration": calibrated}
