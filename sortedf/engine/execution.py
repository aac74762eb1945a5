"""A plan carried out by the engine: its steps become seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortedf.engine.replaying import IntArray, Replay, Replayed
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.instances import Plan
from sortedf.model import Instance, Result


def execute(
    plan: Result | Plan,
    step_time: StepTimeModel,
    settings: EngineSettings | None = None,
    *,
    log: bool = False,
) -> Replayed:
    """Replay the engine on a plan, whose order (by start, then index) is all that it is given.

    The starts themselves are not kept: whatever fits earlier starts earlier.

    Parameters
    ----------
    plan
        The plan; one from a file is believed, see :func:`sortedf.solvers.check_plan`. Releases are
        taken as the seconds at which requests arrive.
    step_time
        How long steps take.
    settings
        The engine; :func:`engine_of_plan` when left out. Under ``planned`` and ``priority`` the
        plan's order is handed over as priorities, under ``fcfs`` it decides between equal arrivals.
    log
        Whether to keep every step.

    Returns
    -------
    Replayed
        Times in seconds by position in the plan's instance. See :class:`Replay` for the errors.
    """
    instance, starts = _planned(plan)
    if settings is None:
        settings = engine_of_plan(plan)
    order = np.lexsort((np.arange(len(instance)), starts))
    if settings.policy == Policy.FCFS:
        prepared = Replay(instance, settings, arrivals=instance.release, order=order)
    else:
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        prepared = Replay(instance, settings, arrivals=instance.release, priorities=places)
    return prepared.run(step_time, log=log)


def engine_of_plan(plan: Result | Plan, **settings: Any) -> EngineSettings:
    """Give the settings of an engine with the plan's KV budget and block size, policy ``planned``.

    ``settings`` are others of :class:`EngineSettings`. A plan on single tokens gets an engine with
    blocks of one token.
    """
    budget = plan.instance.kv_tokens if isinstance(plan, Result) else plan.kv_tokens
    chosen: dict[str, Any] = {"block_size": plan.block_size, "policy": Policy.PLANNED} | settings
    return EngineSettings.for_budget(budget, **chosen)


def figures_in_seconds(found: Replayed) -> dict[str, float | int]:
    """Give in seconds what :meth:`sortedf.Result.to_dict` says in steps, and the engine's steps.

    Percentiles are by nearest rank (numpy's ``inverted_cdf``).
    """
    p50, p95, p99 = np.percentile(found.latency, (50, 95, 99), method="inverted_cdf").tolist()
    return {
        "total_latency_seconds": float(found.latency.sum()),
        "mean_latency_seconds": float(found.latency.mean()),
        "p50_latency_seconds": p50,
        "p95_latency_seconds": p95,
        "p99_latency_seconds": p99,
        "makespan_seconds": found.makespan,
        "mean_ttft_seconds": float(found.ttft.mean()),
        "engine_steps": found.steps,
        "preemptions": int(found.preemptions.sum()),
    }


def _planned(plan: Result | Plan) -> tuple[Instance, IntArray]:
    """Instance and start of each of its requests."""
    if isinstance(plan, Result):
        return plan.instance, plan.schedule.starts
    instance = plan.instance()
    starts = np.zeros(len(instance), np.int64)
    starts[plan.positions()] = plan.starts
    return instance, starts
