"""A plan on the replayed engine: what it gives in seconds, and that it follows the plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import sortedf
from sortedf.engine import (
    StepTimeModel,
    engine_of_plan,
    execute,
    figures_in_seconds,
    published,
)
from sortedf.instances import read_plan, write_plan

UNIT = StepTimeModel(fixed=1.0)


@examples(deadline=None, max_examples=200)
@given(
    lengths=st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=30),
    kv_tokens=st.integers(60, 200),
    order=st.sampled_from(["fcfs", "mcsf", "svf", "longest", "random"]),
)
def test_on_unit_steps_the_engine_does_what_the_plan_says(
    lengths: list[tuple[int, int]], kv_tokens: int, order: str
) -> None:
    """Steps of one second, blocks of one token: list scheduling, every step looked at.

    The engine gives no slot to the last token: it holds a token less than the plan in each step.
    """
    prompt, output = zip(*lengths, strict=True)
    instance = sortedf.Instance(prompt, output, kv_tokens)
    plan = sortedf.solve(instance, solver=order, bound=False)
    found = execute(plan, UNIT, engine_of_plan(plan, async_scheduling=False))
    assert not found.preemptions.any()
    by_start = np.lexsort((np.arange(len(lengths)), plan.schedule.starts))
    slots, outputs = instance.prompt_tokens[by_start] - 1, instance.output_tokens[by_start]
    starts = _strict(slots.tolist(), outputs.tolist(), kv_tokens)
    assert (found.completion[by_start] - outputs).tolist() == starts


def _strict(prompt: list[int], output: list[int], budget: int) -> list[int]:
    """List scheduling by hand, strict: who starts at p holds s + k tokens in step p + k."""
    starts: list[int] = []
    step = 0
    for s, o in zip(prompt, output, strict=True):
        while True:
            rows = [*zip(prompt, output, starts, strict=False), (s, o, step)]
            last = max(start + length for _, length, start in rows)
            if all(
                sum(p + t - b for p, length, b in rows if b < t <= b + length) <= budget
                for t in range(step + 1, last + 1)
            ):
                break
            step += 1
        starts.append(step)
    return starts


def test_a_plan_file_gives_what_its_result_gives(tmp_path: Path) -> None:
    """The same replay from the result and from the file that was written."""
    plan = sortedf.solve(sortedf.example(), solver="svf", block_size=16, bound=False)
    write_plan(plan, tmp_path / "plan.json")
    model = published()["qwen3-8b-h100"]
    ours, theirs = execute(plan, model), execute(read_plan(tmp_path / "plan.json"), model)
    assert ours.completion.tolist() == theirs.completion.tolist()
    assert engine_of_plan(plan) == engine_of_plan(read_plan(tmp_path / "plan.json"))


def test_figures_are_those_of_the_times() -> None:
    """Three requests by hand: steps of a second, completions at 3, 5 and 4."""
    instance = sortedf.Instance([1, 1, 1], [3, 5, 4], 1000)
    found = execute(sortedf.solve(instance, solver="fcfs", bound=False), UNIT)
    assert figures_in_seconds(found) == {
        "total_latency_seconds": 12.0,
        "mean_latency_seconds": 4.0,
        "p50_latency_seconds": 4.0,
        "p95_latency_seconds": 5.0,
        "p99_latency_seconds": 5.0,
        "makespan_seconds": 5.0,
        "mean_ttft_seconds": 1.0,
        "engine_steps": 5,
        "preemptions": 0,
    }


@pytest.mark.parametrize("policy", ["fcfs", "priority", "planned"])
def test_the_order_of_the_plan_is_what_each_policy_gets(policy: str) -> None:
    """With one seat, requests are done in the order of the starts, ties by index."""
    instance = sortedf.Instance([2, 2, 2, 2], [4, 3, 2, 1], 100)
    plan = sortedf.solve(instance, solver="mcsf", bound=False)
    plan = plan.__class__(**(plan.__dict__ | {"schedule": sortedf.Schedule([7, 0, 7, 3])}))
    found = execute(plan, UNIT, engine_of_plan(plan, policy=policy, max_num_seqs=1))
    assert np.argsort(found.completion).tolist() == [1, 3, 0, 2]


def test_releases_are_seconds() -> None:
    """A request released at 20 arrives after 20 seconds."""
    instance = sortedf.Instance([2, 2], [4, 3], 100, release=[0, 20])
    plan = sortedf.solve(instance, solver="fcfs", bound=False)
    assert execute(plan, StepTimeModel(fixed=0.5)).completion.tolist() == [2.0, 21.5]
