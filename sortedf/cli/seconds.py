"""Plans in seconds: one plan replayed on the engine, and the best of many."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sortedf.cli.console import Console

if TYPE_CHECKING:
    from sortedf.engine import Calibration, EngineSettings, Prediction, StepTimeModel
    from sortedf.instances import Plan
    from sortedf.model import Instance, Result


def in_seconds(
    plan: Result | Plan,
    name: str | None,
    step_times: Calibration,
    settings: dict[str, Any],
    console: Console,
    *,
    log: bool = False,
) -> tuple[Prediction, dict[str, Any]]:
    """Replay a plan; its figures in seconds, the engine and the named step times as plain data."""
    from sortedf.engine import engine_of_plan, figures_in_seconds, predict

    engine = engine_of_plan(plan, **settings)
    with console.status("replaying the plan on the engine"):
        found = predict(plan, step_times, engine, log=log)
    return found, {
        **figures_in_seconds(found.replayed),
        "engine": told(engine),
        "steptime_file": name,
        "steptime": step_times.to_dict(),
    }


def check_engine(instance: Instance, block_size: int, settings: dict[str, Any]) -> None:
    """Refuse a backlog that the engine could not serve, before it is planned.

    Raises
    ------
    OptionError
        When the budget makes no engine.
    InfeasibleError, InvalidRequestError
        When a request is too large for it.
    """
    from sortedf.engine import Replay
    from sortedf.engine.prediction import engine_of_budget

    Replay(instance, engine_of_budget(instance.kv_tokens, block_size, **settings))


def told(settings: EngineSettings) -> dict[str, Any]:
    """Give an engine's settings as plain data."""
    found = asdict(settings) | {"version": settings.version.name, "policy": str(settings.policy)}
    return found | {"kv_tokens": settings.kv_tokens}


def best_in_seconds(
    instance: Instance,
    step_time: StepTimeModel,
    console: Console,
    *,
    bound: bool,
    settings: dict[str, Any],
    **options: int,
) -> Result:
    """Plan in the order whose replay has the least mean latency in seconds; a note says which."""
    from sortedf.solvers import solve
    from sortedf.solvers.on_seconds import plans_in_seconds

    with console.status("replaying list schedules on the engine"):
        tried = plans_in_seconds(instance, step_time, settings=settings, **options)
    best, by_steps = tried[0], min(tried, key=lambda timed: timed.result.total_latency)
    console.note(
        f"least mean of {len(tried)} orders: {best.mean_latency:,.3f} s "
        f"({best.result.mean_latency:,.1f} steps) by {_order(best.result)}; the best in steps, "
        f"{_order(by_steps.result)}, has {by_steps.mean_latency:,.3f} s "
        f"({by_steps.result.mean_latency:,.1f} steps)"
    )
    chosen = best.result
    with console.status("planning"):
        return solve(
            instance,
            solver=chosen.solver,
            block_size=chosen.block_size,
            bound=bound,
            **chosen.parameters,
        )


def _order(result: Result) -> str:
    weight = result.parameters.get("prefill_weight")
    return result.solver if weight is None else f"{result.solver} with prefill weight {weight:.4g}"
