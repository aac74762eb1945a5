"""Both drivers give the same: from event to event and step by step."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_workloads import Workload, random_workload
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import COEFFICIENTS, StepTimeModel, published
from sortedf.errors import OptionError, SortedfError

EXACT = ("admitted_step", "first_step", "completion_step", "preemptions")
TIMES = ("admitted", "first_token", "completion")


def both(replay: Replay, model: StepTimeModel) -> Replayed | None:
    """Replay by both drivers, and hold one against the other; None if the engine never ends."""
    try:
        steps = replay.run(model, by="steps")
    except SortedfError:
        with pytest.raises(SortedfError, match="never ends"):
            replay.run(model, by="events")
        return None
    events = replay.run(model, by="events")
    for name in EXACT:
        np.testing.assert_array_equal(getattr(events, name), getattr(steps, name), name)
    for name in TIMES:
        ours, theirs = getattr(events, name), getattr(steps, name)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6, err_msg=name)
    return events


def of_workload(work: Workload, **changes: Any) -> Replay:
    engine = EngineSettings(
        **work["settings"] | {"enable_prefix_caching": False, "shared_blocks": 0} | changes
    )
    ranked = engine.policy == "priority"
    return Replay(
        sortedf.Instance(work["prompt"], work["output"], 2**40),
        engine,
        arrivals=work["arrivals"],
        priorities=work["priorities"] if ranked else None,
        stamps=work["stamps"] if ranked else None,
        aborts=[np.inf if time is None else time for time in work["aborts"]],
    )


def test_random_workloads() -> None:
    """Small and of all kinds; times are whole numbers, so that what ties is a tie for both."""
    rng = random.Random(20261202)
    preempting = 0
    for number in range(3000):
        work = random_workload(rng)
        fixed, prefill, decode, context = work["seconds"]
        found = both(
            of_workload(work, **({"long_prefill_token_threshold": 0} if number % 2 else {})),
            StepTimeModel(fixed=fixed, prefill_token=prefill, decode_token=decode, context=context),
        )
        preempting += found is not None and bool(found.preemptions.any())
    assert preempting > 750


def test_long_stretches() -> None:
    """Hundreds of steps without an event, times of any value, all terms; memory tight to ample."""
    rng = np.random.default_rng(20261203)
    models = list(published().values())
    scale = np.array([1e-2, 1e-4, 1e-4, 1e-4, 1e-6, 1e-8, 1e-8, 1e-10])
    preempting = 0
    for number in range(300):
        n = int(rng.integers(2, 60))
        prompt, output = rng.integers(1, 400, n), rng.integers(1, 700, n)
        size = int(rng.choice([1, 7, 16, 64]))
        needed = int((prompt + output).max()) // size + 1
        engine = EngineSettings(
            num_gpu_blocks=1 + needed + int(rng.integers(0, 8 * needed)),
            block_size=size,
            max_num_seqs=int(rng.choice([3, 16, 256])),
            max_num_batched_tokens=int(rng.choice([256, 2048])),
            async_scheduling=bool(number % 2),
            watermark=float(rng.choice([0, 0.05])),
        )
        drawn = dict(zip(COEFFICIENTS, scale * rng.random(len(scale)), strict=True))
        model = models[number] if number < len(models) else StepTimeModel(**drawn)
        arrivals = rng.random(n) * rng.choice([0.0, 1.0, 100.0])
        backlog = sortedf.Instance(prompt, output, 2**40)
        found = both(Replay(backlog, engine, arrivals=arrivals), model)
        assert found is not None
        preempting += bool(found.preemptions.any())
    assert preempting > 60


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Replay, StepTimeModel]:
    requests = draw(
        st.lists(
            st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 60)),
            min_size=1,
            max_size=12,
        )
    )
    prompt, output, arrivals = zip(*requests, strict=True)
    size = draw(st.integers(1, 9))
    needed = max(-(-(p + o) // size) for p, o, _ in requests)
    seats = draw(st.integers(1, 12))
    engine = EngineSettings(
        num_gpu_blocks=1 + needed + draw(st.integers(0, 2 * needed)),
        block_size=size,
        max_num_seqs=seats,
        max_num_batched_tokens=draw(st.integers(seats, 60)),
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 1, 5])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        policy=draw(st.sampled_from(["fcfs", "priority"])),
    )
    # Quarters and sixteenths, which both drivers add exactly.
    model = StepTimeModel(
        fixed=draw(st.integers(0, 8)) / 4,
        token=draw(st.integers(0, 4)) / 4,
        context=draw(st.integers(0, 4)) / 16,
        context_squared=draw(st.integers(0, 2)) / 16,
    )
    replay = Replay(sortedf.Instance(prompt, output, 2**40), engine, arrivals=arrivals)
    return replay, model


@settings(max_examples=300)
@given(workloads())
def test_any_workload(drawn: tuple[Replay, StepTimeModel]) -> None:
    """The same, where hypothesis looks for a difference."""
    both(*drawn)


def test_what_jumps_and_what_does_not() -> None:
    """A log, prefix caching and ``planned`` go step by step, whatever was not asked for."""
    backlog = sortedf.Instance([3, 4], [5, 6], 100)
    plain = EngineSettings(num_gpu_blocks=20)
    model = StepTimeModel(fixed=1.0)
    assert Replay(backlog, plain).run(model).completion.tolist() == [5, 6]
    with pytest.raises(OptionError, match="neither prefix caching nor a log"):
        Replay(backlog, plain).run(model, by="events", log=True)
    caching = Replay(backlog, plain.replace(enable_prefix_caching=True))
    assert caching.run(model).completion.tolist() == [5, 6]
    with pytest.raises(OptionError, match="neither prefix caching nor a log"):
        caching.run(model, by="events")
    with pytest.raises(OptionError, match="nor does planned"):
        Replay(backlog, plain.replace(policy="planned")).run(model, by="events")
    with pytest.raises(OptionError, match="by is 'jumps'; it must be one of steps, events"):
        caching.run(model, by="jumps")
