"""`sortedf validate` of a folder of `sortedf run`: each attempt by itself, and other orders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortedf.cli.calibrate import fit_run, run_document
from sortedf.cli.console import Console
from sortedf.cli.validate_against import Against, read_names
from sortedf.errors import Fault, InputError, OptionError

if TYPE_CHECKING:
    from sortedf.engine import Calibration
    from sortedf.engine.run_folder import Run
    from sortedf.engine.training import Training
    from sortedf.runner.executed import Attempt
    from sortedf.runner.run_validation import Foretold

SCHEMA = "sortedf.run_validation/1"


@dataclass(frozen=True)
class Predicting:
    """By what a run is predicted: step times that are given, or calibrated on a part of it."""

    steptime: str | None
    train: str | None
    form: str
    shared_blocks: int | None
    console: Console

    def step_times(self, run: Run) -> tuple[Calibration, Training | None, dict[str, Any] | None]:
        """Give step times, the part that they have seen, and what the calibration came to."""
        from sortedf.engine import read_step_times
        from sortedf.engine.training import training_part

        training, calibrated = None, None
        if self.steptime is not None:
            calibration = read_step_times(self.steptime)
            if self.shared_blocks is not None:
                calibration = replace(calibration, shared_blocks=self.shared_blocks)
        else:
            training = training_part(run, self.train or "half")
            calibration, fit = fit_run(training, self.form, self.shared_blocks, self.console)
            calibrated = run_document(training, calibration, fit)
        for line in calibration.warnings:
            self.console.note(f"warning: {line}")
        return calibration, training, calibrated


def validate_run(
    path: Path,
    only: str | None,
    folder: str,
    predicting: Predicting,
    against: str | None,
    repeat: int | None,
    console: Console,
) -> tuple[int, dict[str, Any]]:
    """Validate a run; gives the exit code and what ``--json`` prints.

    Parameters
    ----------
    path, only
        Folder of the run, and the attempt that is meant, ``None`` for all.
    folder
        As it was named.
    """
    from sortedf.runner.executed import read_attempts
    from sortedf.runner.run_identity import read_manifest
    from sortedf.runner.run_validation import validate_attempt

    if against is None and repeat is not None:
        raise OptionError("--repeat is of --against")
    if against is not None and only is not None:
        raise OptionError("--against is of a whole run, not of one of its attempts")
    names = [] if against is None else read_names(against, console)
    with console.status(f"reading {folder}"):
        attempts = read_attempts(path, only=only)
    if not attempts:
        raise InputError([Fault(folder, None, "nothing was answered in this run")])
    _tell(attempts, console)
    documents, step_times = [], []
    for attempt in attempts:
        foretold, calibrated = _foretold(attempt, predicting)
        step_times.append(foretold.step_times)
        documents.append({**validate_attempt(attempt, foretold), "calibration": calibrated})
    most = max(range(len(attempts)), key=lambda k: len(attempts[k].run.instance))
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "folder": folder,
        "engine": read_manifest(path).get("engine"),
        "attempts": documents,
        "most": most,
        "against": None,
    }
    if not names:
        return 0, document
    others = Against(path, names, repeat, step_times[most], console)
    code = others.execute()
    if not code:
        document["against"] = _compared(others, predicting)
    return code, document


def _tell(attempts: list[Attempt], console: Console) -> None:
    """Say what was assumed, and what is not whole."""
    for note in dict.fromkeys(note for attempt in attempts for note in attempt.run.notes):
        console.note(note)
    for attempt in attempts:
        if not attempt.whole:
            asked = "" if attempt.jobs is None else f" of {attempt.jobs:,}"
            console.note(
                f"attempt {attempt.name} was interrupted: {len(attempt.run.instance):,}{asked} "
                "sequences were answered, and these alone are looked at"
            )
    if len(attempts) > 1:
        console.note(f"{len(attempts)} attempts, each by its own clock")


def _foretold(attempt: Attempt, predicting: Predicting) -> tuple[Foretold, dict[str, Any] | None]:
    """Take the prediction that was made before, unless step times are named; or make one."""
    from sortedf.runner.run_validation import foretold_after, foretold_before

    if attempt.prediction is not None and predicting.steptime is None:
        return foretold_before(attempt), None
    step_times, training, calibrated = predicting.step_times(attempt.run)
    by = predicting.steptime or "a calibration on a part of the run"
    return foretold_after(attempt, step_times, by, training), calibrated


def _compared(others: Against, predicting: Predicting) -> dict[str, Any]:
    """Compare the runs of all orders."""
    from sortedf.runner.against import comparison
    from sortedf.runner.run_validation import foretold_after, foretold_before, validate_attempt

    documents = {}
    for name, attempts in others.runs().items():
        documents[name] = [
            validate_attempt(
                attempt,
                foretold_after(attempt, others.step_times, "the same step times", None)
                if attempt.prediction is None or predicting.steptime is not None
                else foretold_before(attempt),
            )
            for attempt in attempts
        ]
    answered = {name: {document["n"] for document in found} for name, found in documents.items()}
    if len(set().union(*answered.values())) > 1:
        told = ", ".join(f"{name} {max(n):,}" for name, n in answered.items())
        others.console.note(f"warning: not all orders answered as many sequences: {told}")
    return {"repeat": others.repeat or 1, **comparison(documents)}
