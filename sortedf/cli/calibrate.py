"""`sortedf calibrate`: how long the steps of an engine take, from a run of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import RunEngine
from sortedf.cli.outputs import check_outputs
from sortedf.errors import Fault, InputError, OptionError

if TYPE_CHECKING:
    from sortedf.engine.calibrate_run import RunFit
    from sortedf.engine.calibrate_steps import StepFit
    from sortedf.engine.calibration import Calibration
    from sortedf.engine.run_folder import Run
    from sortedf.engine.training import Training

RunFolder = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="Folder of a run: meta.json, requests.jsonl, timeseries.csv."
    ),
]
RunFolders = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR...",
        help="Folder of a run: meta.json, requests.jsonl; or steps.csv, and of these several.",
    ),
]
Form = Annotated[
    str, typer.Option(metavar="FORM", help="auto, plain, small, sfs, six-term: what a step costs.")
]


@options.grouped
def calibrate(
    folders: RunFolders,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="STEPTIME",
            help="Where to write the step-time file; - is stdout.",
            show_default=False,
        ),
    ] = None,
    form: Form = "auto",
    train: Annotated[
        str,
        typer.Option(
            metavar="PART",
            help="What is looked at: all; half, the first arrivals; "
            "0.3, what was seen before 30 % of the makespan.",
        ),
    ] = "all",
    engine: RunEngine,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the time of a step to a run of the engine.

    From the times of its requests, by replaying them; or, where the folder has a steps.csv (what
    each step was made of, and its seconds), from these; several runs also tell how much the engine
    differs from run to run. What was tried and the training error are
    shown; so is what the data cannot tell. --num-gpu-blocks to --shared-blocks are for what the
    folder does not say, or says wrongly.
    """
    check_output(output, folders, json=json)
    from sortedf.engine.calibration import write_calibration
    from sortedf.engine.step_log import STEPS_FILE
    from sortedf.engine.training import training_part

    console = Console(quiet=quiet)
    for folder in folders:
        _check_attempt(folder)
    logs = [Path(folder) / STEPS_FILE for folder in folders]
    if all(log.is_file() for log in logs):
        if train != "all" or engine.given():
            raise OptionError(f"{folders[0]} has a {STEPS_FILE}, which takes --form alone")
        calibration, document = _from_steps(logs, form, console)
    elif len(folders) > 1:
        raise OptionError(f"of several runs, each must have a {STEPS_FILE}; name one")
    else:
        training = training_part(read_folder(folders[0], engine, console), train)
        calibration, fit = fit_run(training, form, engine.shared_blocks, console)
        document = run_document(training, calibration, fit)
    for line in calibration.warnings:
        console.note(f"warning: {line}")
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report import engine_tables

        console.show(engine_tables.calibration(document))
    if output is not None:
        write_calibration(calibration, output)
        if output != "-":
            console.note(f"step times written to {output}")


def check_output(output: str | None, folders: Sequence[str], *read: str | None, json: bool) -> None:
    """Refuse to write over the files of run folders, or where nothing can be written."""
    from sortedf.engine.run_folder import META, REQUESTS, SERIES
    from sortedf.engine.step_log import STEPS_FILE

    names = (META, REQUESTS, SERIES, STEPS_FILE)
    files = [Path(folder) / name for folder in folders for name in names]
    if output is not None:
        from sortedf.runner.executed import records_of

        files += [file for folder in folders for file in records_of(folder)]
    check_outputs({"-o": output}, *map(str, files), *read, json=json)


def _check_attempt(folder: str) -> None:
    """Refuse the folder of `sortedf run`, whose attempts are what is meant; name these."""
    from sortedf.runner.executed import attempts_in, run_folder_of

    if run_folder_of(folder) == (Path(folder), None):
        found = " or ".join(map(str, attempts_in(Path(folder)))) or "there is none in it"
        text = f"a folder of sortedf run: name one of its attempts ({found})"
        raise InputError([Fault(folder, None, text)])


def read_folder(folder: str, engine: RunEngine, console: Console) -> Run:
    """Read a run; what was assumed of it goes to stderr."""
    from sortedf.engine.run_folder import read_run

    settings = engine.named()
    with console.status(f"reading {folder}"):
        run = read_run(folder, **settings)
    if engine.shared_blocks and not run.settings.enable_prefix_caching:
        raise OptionError("--shared-blocks needs --prefix-caching; the run had none")
    for line in run.notes:
        console.note(line)
    return run


def fit_run(
    training: Training, form: str, shared_blocks: int | None, console: Console
) -> tuple[Calibration, RunFit]:
    """Calibrate from request times, with what is going on shown on stderr."""
    from sortedf.engine.calibration import calibrate_from_run

    with console.steps("calibrating") as report:
        return calibrate_from_run(training, form=form, shared_blocks=shared_blocks, report=report)


def run_document(training: Training, calibration: Calibration, fit: RunFit) -> dict[str, Any]:
    """Say what a calibration from request times came to, as plain data."""
    trials = [
        {
            "shared_blocks": trial.shared_blocks,
            "form": trial.fitted.form,
            "training_error": trial.fitted.error,
            "score": trial.fitted.score,
            "minima": list(trial.fitted.minima),
            "evaluations": trial.fitted.evaluations,
            "chosen": trial.fitted is fit.fitted,
        }
        for trial in fit.trials
    ]
    return {
        "from": "requests",
        "folder": training.run.folder,
        "trained_on": training.name,
        "training_times": training.times,
        "form": fit.fitted.form,
        "training_error": fit.fitted.error,
        "steptime": calibration.to_dict(),
        "trials": trials,
    }


def _from_steps(
    paths: Sequence[Path], form: str, console: Console
) -> tuple[Calibration, dict[str, Any]]:
    from sortedf.engine.calibration import calibrate_from_steps
    from sortedf.engine.step_log import read_step_log

    names = ", ".join(map(str, paths))
    with console.status(f"reading {names}"):
        logs = [read_step_log(path) for path in paths]
    with console.status("calibrating"):
        calibration, fit = calibrate_from_steps(*logs, form=form)
    steps = sum(len(log.seconds) for log in logs)
    return calibration, _steps_document(names, steps, calibration, fit)


def _steps_document(
    path: str, steps: int, calibration: Calibration, fit: StepFit
) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "from": "steps",
        "folder": path,
        "trained_on": f"{steps} steps",
        "training_times": steps,
        "form": fit.form,
        "steptime": calibration.to_dict(),
        "outliers": fit.outliers.tolist(),
        "held_out": [
            {"form": name, **asdict(error), "chosen": name == fit.form}
            for name, error in fit.held_out.items()
        ],
    }
