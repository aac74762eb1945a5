"""The model of the theory: steps instead of seconds, and exact memory at every later step.

A request started at step p holds s + k tokens at step p + k and has its last token at p + o. That
is the engine with blocks of one token, no limits but memory, steps of one second and the future
check, where a prompt is one token longer: the engine stores no last token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.kernels.standing import BOUND
from sortedf.model import Instance
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import Given, IntArray, OnlinePolicy
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.served import Served
from sortedf.serving.side import Eviction
from sortedf.serving.workloads import Workload, released
from sortedf.solvers.a_min import plan_with_bounds
from sortedf.solvers.in_order import schedule_in_order

STEP = StepTimeModel(fixed=1.0, source="the model of the theory")


def in_steps(workload: Workload, policy: OnlinePolicy, known: Knowledge) -> Served:
    """Serve a workload whose arrivals are whole steps; times are in steps.

    Admission always looks at every later step. Where scores never change and outputs are known
    exactly, that is list scheduling with releases, by its kernel; A_min is the planner on bounds;
    otherwise it is the engine's, step by step, in which an evicted request takes one step for all
    that it computes again.

    Raises
    ------
    OptionError
        For arrivals that are not whole steps of 0 or more.
    """
    instance = released(workload)
    policy = policy.settled(workload, known, in_steps=True)
    side = replace(policy.side, future=True, watermark=0.0, swap_seconds=0.0)
    policy = replace(policy, side=side)
    longer, settings = _as_engine(workload)
    prepared = PolicyReplay(longer, policy, settings, STEP, known)
    common: dict[str, Any] = {
        "workload": workload,
        "policy": policy.name,
        "reason": policy.reason,
        "parameters": policy.parameters,
        "side": side,
        "settings": None,
        "known": prepared.given.known,
        "engine": "steps",
    }
    if _is_list_schedule(policy, prepared.given):
        given = Given(workload, prepared.given.known, settings, STEP)
        order = np.lexsort((np.arange(len(workload)), policy.key(given)))
        schedule = schedule_in_order(instance, order, side.lookahead)
        starts = schedule.starts.astype(np.float64)
        nothing = np.zeros(len(workload), np.int64)
        return Served(
            **common,
            admitted=starts,
            first_token=starts + 1,
            completion=starts + instance.output_tokens,
            preemptions=nothing,
            recomputed=nothing,
            steps=_busy_steps(schedule.starts, instance.output_tokens),
        )
    if policy.scoring.kind == BOUND:
        return Served(**common, **_restarting(instance, prepared.given.known))
    found = prepared.serve()
    return Served(
        **common,
        admitted=found.admitted,
        first_token=found.first_token,
        completion=found.completion,
        preemptions=found.preemptions,
        recomputed=found.recomputed,
        steps=found.steps,
    )


def _restarting(instance: Instance, known: Knowledge) -> dict[str, Any]:
    """Give what A_min does, as the planner on bounds has it: [4] admits also after an eviction."""
    plan = plan_with_bounds(instance, *known.bounds())
    starts, outputs = plan.schedule.starts, instance.output_tokens
    request, began, ended = plan.evicted.T
    admitted = starts.copy()
    np.minimum.at(admitted, request, began)
    lost = np.zeros(len(instance), np.int64)
    np.add.at(lost, request, ended - began)
    all_starts, runs = np.concatenate([starts, began]), np.concatenate([outputs, ended - began])
    return {
        "admitted": admitted.astype(np.float64),
        # What has been streamed is not taken back.
        "first_token": admitted + 1.0,
        "completion": (starts + outputs).astype(np.float64),
        "preemptions": plan.evictions,
        "recomputed": lost,
        "steps": _busy_steps(all_starts, runs),
    }


def _as_engine(workload: Workload) -> tuple[Workload, EngineSettings]:
    instance = workload.instance
    longer = instance.replace(prompt_tokens=instance.prompt_tokens + 1)
    tokens = int((longer.prompt_tokens + longer.output_tokens).sum())
    settings = EngineSettings(
        # More memory than all requests together fill changes nothing.
        num_gpu_blocks=min(instance.kv_tokens, tokens) + 1,
        block_size=1,
        max_num_batched_tokens=tokens,
        max_num_seqs=len(instance),
        scheduler_reserve_full_isl=False,
        async_scheduling=False,
    )
    return Workload(longer, workload.arrivals, workload.name), settings


def _is_list_schedule(policy: OnlinePolicy, given: Given) -> bool:
    """Whether strict list scheduling by the key is what the policy does."""
    foreseen = policy.foresees(given) if policy.is_static else np.empty(0)
    return (
        policy.is_static
        and policy.side.eviction == Eviction.RECOMPUTE
        and np.array_equal(foreseen, given.workload.instance.output_tokens)
    )


def _busy_steps(starts: IntArray, outputs: IntArray) -> int:
    """Count the steps in which anything runs."""
    order = np.argsort(starts)
    begin, end = starts[order], np.maximum.accumulate((starts + outputs)[order])
    before = np.concatenate([[begin[0]], end[:-1]])
    return int((end - np.maximum(begin, before)).sum())
