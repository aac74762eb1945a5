"""`sortedf predict`: what an engine will do with a plan, in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, SteptimeFile
from sortedf.errors import OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.engine import Calibration, EngineSettings, Prediction
    from sortedf.instances import Plan


@options.grouped
def predict(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is stdin.")],
    engine: Engine,
    steptime: SteptimeFile = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Replay the engine on a backlog in the order of its plan.

    Gives first and last token of every request in seconds, with an error interval where the
    calibration learned one, preemptions, and the state of the engine over time.
    """
    if steptime is None:
        raise OptionError("--steptime is missing: a file of step times (see sortedf calibrate)")
    from sortedf.engine.calibration import read_calibration
    from sortedf.engine.prediction import predict as replay
    from sortedf.instances import read_plan
    from sortedf.solvers import check_plan

    console = Console(quiet=quiet)
    calibration = read_calibration(steptime)
    with console.status(f"reading {plan}"):
        read = read_plan(plan)
        check = check_plan(read)
    if not check.ok:
        lines = [*check.mismatches, *map(str, check.report.violations)]
        raise VerificationError(
            [f"{read.source}: {line}" for line in lines],
            check.report.total + len(check.mismatches),
        )
    settings = engine.settings(
        read.kv_tokens,
        read.block_size if read.block_size > 1 else None,
        calibration.shared_blocks,
    )
    instance = read.instance()
    with console.status(f"replaying {len(instance):,} requests"):
        prediction = replay(instance, settings, calibration, order=read.positions())
    document = _document(read, settings, calibration, prediction)
    if json:
        console.json(document)
    else:
        from sortedf.report import engine_tables

        console.show(engine_tables.prediction(document))


def _document(
    plan: Plan, settings: EngineSettings, calibration: Calibration, prediction: Prediction
) -> dict[str, Any]:
    from sortedf import __version__
    from sortedf.engine.prediction import describe

    replayed, series = prediction.replayed, prediction.series
    instance = plan.instance()
    bounds = prediction.bounds()
    requests = [
        {
            "index": index,
            "id": instance.ids[index],
            "first_token": replayed.first_token[index],
            "completion": replayed.completion[index],
            "preemptions": int(replayed.preemptions[index]),
            **(
                {}
                if bounds is None
                else {
                    f"{name}_interval": [float(low[index]), float(high[index])]
                    for name, (low, high) in (
                        ("first_token", bounds["ttft"]),
                        ("completion", bounds["latency"]),
                    )
                }
            ),
        }
        for index in range(len(instance))
    ]
    return {
        "schema": "sortedf.prediction/1",
        "version": __version__,
        "plan": plan.source,
        "solver": plan.solver,
        "n": len(instance),
        "instance_sha256": plan.instance_sha256,
        "kv_tokens": settings.kv_tokens,
        "engine": settings.version.name,
        "steptime": calibration.to_dict(),
        **describe(prediction),
        "requests": requests,
        "series": {
            "end": series.end.tolist(),
            "seconds": series.seconds.tolist(),
            "running": series.running.tolist(),
            "waiting": series.waiting.tolist(),
            "kv_use": series.kv_use.tolist(),
        },
    }
