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
    Calibration,
    ErrorInterval,
    StepTimeModel,
    engine_of_plan,
    figures_in_seconds,
    predict,
    published,
)
from sortedf.instances import read_plan, write_plan

UNIT = StepTimeModel(fixed=1.0)


@examples(max_examples=200)
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
    found = predict(plan, UNIT, engine_of_plan(plan, block_size=1, async_scheduling=False)).replayed
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
    ours, theirs = predict(plan, model), predict(read_plan(tmp_path / "plan.json"), model)
    assert ours.replayed.completion.tolist() == theirs.replayed.completion.tolist()
    assert ours.settings == theirs.settings
    assert engine_of_plan(plan) == engine_of_plan(read_plan(tmp_path / "plan.json"))


def test_figures_are_those_of_the_times() -> None:
    """Three requests by hand: steps of a second, completions at 3, 5 and 4."""
    instance = sortedf.Instance([1, 1, 1], [3, 5, 4], 1000)
    found = predict(sortedf.solve(instance, solver="fcfs", bound=False), UNIT)
    assert figures_in_seconds(found.replayed) == {
        "total_latency_seconds": 12.0,
        "mean_latency_seconds": 4.0,
        "p50_latency_seconds": 4.0,
        "p90_latency_seconds": 5.0,
        "p95_latency_seconds": 5.0,
        "p99_latency_seconds": 5.0,
        "makespan_seconds": 5.0,
        "mean_ttft_seconds": 1.0,
        "p50_ttft_seconds": 1.0,
        "p90_ttft_seconds": 1.0,
        "p95_ttft_seconds": 1.0,
        "p99_ttft_seconds": 1.0,
        "engine_steps": 5,
        "preemptions": 0,
    }


@pytest.mark.parametrize("policy", ["fcfs", "priority", "planned"])
def test_the_order_of_the_plan_is_what_each_policy_gets(policy: str) -> None:
    """With one seat, requests are done in the order of the starts, ties by index."""
    instance = sortedf.Instance([2, 2, 2, 2], [4, 3, 2, 1], 100)
    plan = sortedf.solve(instance, solver="mcsf", bound=False)
    plan = plan.__class__(**(plan.__dict__ | {"schedule": sortedf.Schedule([7, 0, 7, 3])}))
    found = predict(plan, UNIT, engine_of_plan(plan, policy=policy, max_num_seqs=1)).replayed
    assert np.argsort(found.completion).tolist() == [1, 3, 0, 2]


def test_releases_are_seconds() -> None:
    """A request released at 20 arrives after 20 seconds."""
    instance = sortedf.Instance([2, 2], [4, 3], 100, release=[0, 20])
    plan = sortedf.solve(instance, solver="fcfs", bound=False)
    found = predict(plan, StepTimeModel(fixed=0.5))
    assert found.replayed.completion.tolist() == [2.0, 21.5]


def test_the_engine_is_that_of_the_plan_unless_told() -> None:
    """Blocks of the plan, vLLM's 16 where it has none; what is given stands instead."""
    single = sortedf.solve(sortedf.example(), solver="svf", bound=False)
    blocks = sortedf.solve(sortedf.example(), solver="svf", block_size=32, bound=False)
    for plan, size in ((single, 16), (blocks, 32)):
        engine = engine_of_plan(plan)
        assert (engine.block_size, engine.usable_blocks) == (size, 16492 // size)
        assert engine.policy == "planned"
    own = engine_of_plan(blocks, block_size=8, num_gpu_blocks=50, policy="fcfs")
    assert (own.block_size, own.num_gpu_blocks, own.policy) == (8, 50, "fcfs")
    with pytest.raises(sortedf.OptionError, match="no block of 16"):
        engine_of_plan(sortedf.solve(sortedf.Instance([2], [2], 9), solver="svf", bound=False))


def test_a_calibration_brings_its_interval() -> None:
    """The same times as by its model alone, and bounds around them; the state needs a log."""
    plan = sortedf.solve(sortedf.example(), solver="svf", bound=False)
    interval = ErrorInterval(
        coverage=0.9, first_token=0.1, completion=0.05, step_seconds=1.0, held_out=9
    )
    plain = predict(plan, UNIT)
    found = predict(plan, Calibration(model=UNIT, interval=interval), log=True)
    times = found.replayed.latency
    assert times.tolist() == plain.replayed.latency.tolist()
    assert plain.bounds() is None
    bounds = found.bounds()
    assert bounds is not None
    np.testing.assert_allclose(bounds["latency"][1], times + 0.05 * (times + 1.0))
    assert found.series().running.max() <= 256
    assert len(found.series().end) == found.replayed.steps
    with pytest.raises(sortedf.OptionError, match="log"):
        plain.series()
