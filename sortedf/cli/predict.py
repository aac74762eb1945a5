"""`sortedf predict`: what an engine will do with a plan, in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes
from sortedf.cli.seconds import in_seconds
from sortedf.errors import OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.engine import Prediction
    from sortedf.instances import Plan


@options.grouped
def predict(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is stdin.")],
    *,
    steptime: StepTimes = None,
    engine: Engine,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Replay the engine on a plan.

    Gives first and last token of every request in seconds, with an error interval where the
    calibration learned one, preemptions, and the state of the engine over time.
    """
    if steptime is None:
        raise OptionError(
            "--steptime is missing: a file of step times (see sortedf calibrate) or a packaged set"
        )
    if plan == steptime == "-":
        raise OptionError("PLAN and --steptime cannot both be stdin")
    from sortedf.engine import read_step_times
    from sortedf.engine.prediction import details
    from sortedf.instances import read_plan
    from sortedf.solvers import check_plan

    console = Console(quiet=quiet)
    step_times = read_step_times(steptime)
    settings = engine.settings(step_times)
    with console.status(f"reading {plan}"):
        read = read_plan(plan)
        read.check_one_worker("predict replays")
        check = check_plan(read)
    if not check.ok:
        lines = [*check.mismatches, *map(str, check.report.violations)]
        raise VerificationError(
            [f"{read.source}: {line}" for line in lines],
            check.report.total + len(check.mismatches),
        )
    prediction, figures = in_seconds(read, steptime, step_times, settings, console, log=True)
    document = _document(read, prediction) | figures
    if json:
        console.json(document | details(prediction, read.instance().ids))
    else:
        from sortedf.report import engine_tables

        console.show(engine_tables.prediction(document))


def _document(plan: Plan, prediction: Prediction) -> dict[str, Any]:
    from sortedf import __version__

    series = prediction.series()
    return {
        "schema": "sortedf.prediction/1",
        "version": __version__,
        "plan": plan.source,
        "solver": plan.solver,
        "n": len(plan.ids),
        "instance_sha256": plan.instance_sha256,
        "peak_kv_use": float(series.kv_use.max()),
        "peak_running": int(series.running.max()),
    }
