"""Planning on seconds: the weight of a prompt token, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest

import sortedf
from sortedf.engine import StepTimeModel, engine_of_plan, predict
from sortedf.solvers.on_seconds import Timed, plans_in_seconds, prefill_weight


def backlog(seed: int = 0, n: int = 120) -> sortedf.Instance:
    """Prompts and outputs of very different lengths, on a tight budget."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(1, 2000, n)
    return sortedf.Instance(prompt, rng.integers(1, 200, n), 4000)


def test_the_weight_is_what_the_model_says() -> None:
    """Steps of 0.01 s and prompt tokens of 0.001 s: a token is worth a tenth of a step's memory."""
    plan = sortedf.solve(backlog(), solver="svf", bound=False)
    model = StepTimeModel(fixed=0.01, prefill_token=0.001)
    timed = Timed(plan, predict(plan, model, log=True).replayed)
    assert prefill_weight(timed) == pytest.approx(0.1 * 4000)
    free = Timed(plan, predict(plan, StepTimeModel(fixed=0.01), log=True).replayed)
    assert prefill_weight(free) == pytest.approx(0, abs=1e-6)


def test_the_best_in_seconds_comes_first_and_is_what_it_says() -> None:
    """Each plan is verified and replayed as any other; costly prompts change the order."""
    model = StepTimeModel(fixed=0.01, prefill_token=0.0005)
    tried = plans_in_seconds(backlog(), model, settings={"max_num_seqs": 64})
    means = [timed.mean_latency for timed in tried]
    assert means == sorted(means)
    assert {timed.result.solver for timed in tried} == {
        "fcfs",
        "mcsf",
        "size",
        "svf",
        "svf-1bit",
        "longest",
    }
    best = tried[0].result
    assert best.parameters["prefill_weight"] > 0
    assert best.verified
    engine = engine_of_plan(best, max_num_seqs=64)
    assert predict(best, model, engine).replayed.latency.mean() == means[0]
    by_steps = min(tried, key=lambda timed: timed.result.total_latency)
    assert by_steps.mean_latency > means[0]


def test_where_prompts_cost_nothing_no_weight_is_tried() -> None:
    """Requests of one token are done in the step of their prompt: no step is without prompts."""
    instance = sortedf.Instance([5, 3, 9], [1, 1, 1], 20)
    tried = plans_in_seconds(instance, StepTimeModel(fixed=1.0))
    assert all("prefill_weight" not in timed.result.parameters for timed in tried)
