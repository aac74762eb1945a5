"""A calibrated engine: step times, what all prompts share, and how far off predictions are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from sortedf.engine.calibrate_run import AUTO, RunFit, calibrate_run
from sortedf.engine.calibrate_steps import StepFit, calibrate_steps
from sortedf.engine.hold_out import held_out_interval
from sortedf.engine.interval import ErrorInterval
from sortedf.engine.step_log import StepLog
from sortedf.engine.step_time import (
    LONGEST_STEP,
    StepTimeModel,
    model_of,
    parse_step_time,
    published,
)
from sortedf.engine.training import Training
from sortedf.errors import Fault, InputError
from sortedf.instances.files import write_whole
from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.instances.source import Source, open_source
from sortedf.model.instance import MAX_TOKENS

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a step-time file holds.

    Parameters
    ----------
    model
        The step times.
    shared_blocks
        Leading blocks that all prompts were found to share.
    interval
        The error interval, where one could be learned.
    others
        Models that could not be told from the best one; the error interval holds what they expect.
    warnings
        What the data could not tell.
    """

    model: StepTimeModel
    shared_blocks: int = 0
    interval: ErrorInterval | None = None
    others: tuple[StepTimeModel, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data: a step-time document with one more key."""
        return {
            **self.model.to_dict(),
            "calibration": {
                "shared_blocks": self.shared_blocks,
                "interval": None if self.interval is None else asdict(self.interval),
                "others": [other.to_dict()["coefficients"] for other in self.others],
                "warnings": list(self.warnings),
            },
        }


def calibrate_from_run(
    training: Training,
    *,
    form: str = AUTO,
    shared_blocks: int | None = None,
    report: Report | None = None,
) -> tuple[Calibration, RunFit]:
    """Calibrate from request times, error interval included; see :func:`calibrate_run`."""
    fit = calibrate_run(training, form=form, shared_blocks=shared_blocks, report=report)
    if report:
        report("holding out half of the training part, for the error interval")
    interval = held_out_interval(training, fit.settings, fit.fitted.form)
    warnings = fit.warnings
    if interval is None:
        warnings = (*warnings, "too little data to hold some out: no error interval")
    calibration = Calibration(
        model=fit.model,
        shared_blocks=fit.settings.shared_blocks,
        interval=interval,
        others=fit.others,
        warnings=warnings,
    )
    return calibration, fit


def calibrate_from_steps(
    log: StepLog, *more: StepLog, form: str = AUTO
) -> tuple[Calibration, StepFit]:
    """Calibrate from the steps of one or more runs, with an error interval.

    See :func:`calibrate_steps`. How much the engine differs from run to run is learned from several
    runs alone.
    """
    logs = (log, *more)
    source = ", ".join(each.source for each in logs)
    try:
        fit = calibrate_steps(
            np.concatenate([each.work for each in logs]),
            np.concatenate([each.seconds for each in logs]),
            runs=[len(each.seconds) for each in logs],
            form=form,
        )
    except InputError as error:
        faults = [Fault(source, None, fault.message) for fault in error.faults]
        raise InputError(faults) from None
    steps = sum(len(each.seconds) for each in logs)
    calibration = Calibration(
        model=replace(fit.model, source=f"fitted to {steps} steps of {source}"),
        interval=fit.interval,
        warnings=fit.warnings,
    )
    return calibration, fit


_Share = Annotated[float, Meta(ge=0, le=LONGEST_STEP)]


class _Interval(msgspec.Struct):
    coverage: Annotated[float, Meta(gt=0, lt=1)]
    first_token: _Share
    completion: _Share
    step_seconds: _Share
    held_out: int


class _Part(msgspec.Struct):
    shared_blocks: Annotated[int, Meta(ge=0, le=MAX_TOKENS)] = 0
    interval: _Interval | None = None
    others: list[dict[str, float]] = []
    warnings: list[str] = []


class _Document(msgspec.Struct):
    calibration: _Part | None = None


def write_calibration(calibration: Calibration, path: str | Path) -> None:
    """Write a step-time file; same calibration, same bytes."""
    text = msgspec.json.format(msgspec.json.encode(calibration.to_dict()), indent=2)
    write_whole(path, _lines(text))


def _lines(text: bytes) -> Iterator[bytes]:
    yield text + b"\n"


def read_calibration(path: str | Path | Source) -> Calibration:
    """Read a step-time file, with or without what a calibration adds to it.

    Raises
    ------
    InputError
        As :func:`sortedf.engine.step_time.read_step_time`.
    """
    source = path if isinstance(path, Source) else open_source(path)
    model = parse_step_time(source.data, source.name)
    try:
        part = msgspec.json.decode(source.data, type=_Document).calibration
    except JSON_ERRORS as error:
        message = f"is not a step-time model: {json_fault(source.data, error)}"
        raise InputError([Fault(source.name, None, message)]) from None
    if part is None:
        return Calibration(model=model)
    interval = (
        None if part.interval is None else ErrorInterval(**msgspec.structs.asdict(part.interval))
    )
    return Calibration(
        model=model,
        shared_blocks=part.shared_blocks,
        interval=interval,
        others=tuple(model_of(other, source.name) for other in part.others),
        warnings=tuple(part.warnings),
    )


def read_step_times(name: str) -> Calibration:
    """Read a step-time file, or take a packaged set by its name.

    Raises
    ------
    InputError
        For a file that does not exist or is none, see :func:`read_calibration`.
    """
    packaged = published()
    if name in packaged:
        return Calibration(model=packaged[name])
    if name != "-" and not Path(name).exists():
        known = ", ".join(packaged)
        raise InputError([Fault(name, None, f"no such file; packaged step times are {known}")])
    return read_calibration(name)
