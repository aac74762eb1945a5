"""`sortedf validate`: a run of the engine held against its prediction."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from sortedf.cli import options
from sortedf.cli.calibrate import (
    Form,
    RunFolder,
    check_output,
    fit_run,
    read_folder,
    run_document,
)
from sortedf.cli.console import Console
from sortedf.cli.engine_options import RunEngine, StepTimes, read_step_times
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
    of it is looked at. The page shows request by request and second by second what was predicted
    and what happened. --num-gpu-blocks to --shared-blocks are for what the folder does not say, or
    says wrongly.
    """
    if output == "-" and json:
        raise OptionError("-o - and --json both want stdout; leave one out")
    if steptime is not None and (train is not None or form != "auto"):
        raise OptionError("--train and --form are of a calibration; --steptime is one already")
    from sortedf import __version__
    from sortedf.engine.training import training_part
    from sortedf.engine.validation import validate as compare

    console = Console(quiet=quiet)
    check_output(output, folder, steptime)
    run = read_folder(folder, engine, console)
    calibrated = None
    if steptime is not None:
        calibration = read_step_times(steptime)
        if engine.shared_blocks is not None:
            calibration = replace(calibration, shared_blocks=engine.shared_blocks)
        compared = compare(run, calibration, None)
    else:
        training = training_part(run, train or "half")
        calibration, fit = fit_run(training, form, engine.shared_blocks, console)
        compared = compare(run, calibration, training)
        calibrated = run_document(training, calibration, fit)
    for line in calibration.warnings:
        console.note(f"warning: {line}")
    document = {**compared, "version": __version__, "calibration": calibrated}
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report import engine_tables

        console.show(engine_tables.validation(document))
    if output is not None:
        from sortedf.instances.files import write_whole
        from sortedf.report.validation_page import page

        with console.status(f"writing {output}"):
            write_whole(output, [page(document).encode(errors="backslashreplace")])
        if output != "-":
            console.note(f"page written to {output}")
