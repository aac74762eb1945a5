"""Sorted-F on a receding horizon: plan who waits, admit, plan again when more have come."""

from __future__ import annotations

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.replay_log import Log
from sortedf.kernels.replay_scores import reorder
from sortedf.kernels.replay_state import ARRIVED, GOAL, GONE, HEAP, PROMPT, Engine, Rules
from sortedf.kernels.replay_steps import ALL_DONE, PAUSED, Progress, run_steps
from sortedf.kernels.standing import BASE, SCORE
from sortedf.model import Instance
from sortedf.serving.online_policy import Given, IntArray, Replanning
from sortedf.solvers.sorted_f import (
    Selector,
    exact_batch,
    quantile_batch,
    sorted_f_order,
    swap_batch,
)

SELECTORS: dict[str, Selector] = {
    "quantile-greedy": quantile_batch,
    "local-swap": swap_batch,
    "exact-dp": exact_batch,
}

_UNPLANNED = 1e9  # added to the arrival of who has come since the last plan: behind all planned


def run_with_plans(
    rules: Rules,
    engine: Engine,
    given: Given,
    replanning: Replanning,
    log: Log,
    progress: Progress,
) -> bool:
    """Run the engine, with a new plan as soon as there may be one; False if it never ends."""
    if replanning.select not in SELECTORS:
        raise OptionError(
            f"select is {replanning.select!r}; it must be one of {', '.join(SELECTORS)}"
        )
    arrivals = given.workload.arrivals
    engine.standing[:, BASE] = _UNPLANNED + arrivals
    pause, planned, state = float(arrivals[0]), 0, PAUSED
    while state == PAUSED:
        state = run_steps(rules, engine, given.step_time.seconds, log, progress, pause)
        # Where nobody has come, what was planned stands, also after an eviction.
        if engine.counts[ARRIVED] > planned:
            planned = int(engine.counts[ARRIVED])
            plan_anew(engine, given, replanning)
        pause = np.inf
        if planned < len(arrivals):
            pause = max(float(progress.moments[0]) + replanning.period, float(arrivals[planned]))
    return state == ALL_DONE


def plan_anew(engine: Engine, given: Given, replanning: Replanning) -> None:
    """Order the waiting requests by Sorted-F on what is left of them by prediction."""
    waiting: IntArray = engine.lists[HEAP, : engine.counts[HEAP]]
    waiting = np.sort(waiting[engine.requests[waiting, GONE] == 0])
    if len(waiting) == 0:
        return
    known = engine.requests[waiting, GOAL]
    left = given.known.tokens[waiting] - (known - engine.requests[waiting, PROMPT])
    budget = given.settings.kv_tokens
    # A slot less than s + o: the last token is never stored.
    prompt = np.minimum(known, budget) - 1
    whole = Instance(np.maximum(prompt, 1), np.clip(left, 1, None), budget)
    fitting = np.minimum(whole.output_tokens, np.maximum(budget - whole.prompt_tokens, 1))
    order = sorted_f_order(whole.replace(output_tokens=fitting), SELECTORS[replanning.select])
    engine.standing[waiting[order], BASE] = np.arange(len(order))
    engine.standing[waiting, SCORE] = engine.standing[waiting, BASE]
    reorder(engine)
