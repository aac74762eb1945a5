"""The engine `replay`: its answers are the replay's, in its order."""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sortedf
from sortedf.engine import EngineSettings, StepTimeModel, predict, read_step_log
from sortedf.runner.engines import Answer, Engine, Handover, Job
from sortedf.runner.replayed import POLICIES, ReplayEngine

MODEL = StepTimeModel(fixed=0.01, token=1e-4, context=1e-6)


def jobs_of(rows: Sequence[tuple[int, int]]) -> list[Job]:
    return [
        Job(
            index=k,
            name=f"r{k}",
            place=k,
            prompt=array("i", range(prompt)),
            output_tokens=output,
            sampling={"max_tokens": output + k % 2},
        )
        for k, (prompt, output) in enumerate(rows)
    ]


def executed(engine: Engine, jobs: Sequence[Job], **given: Any) -> list[Answer]:
    answers = [answer for step in engine.execute(jobs, **given) for answer in step]
    assert all(isinstance(answer, Answer) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Answer)]


ROWS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=12)


@given(ROWS, st.sampled_from(list(POLICIES)))
def test_every_job_is_answered_in_order_of_completion(
    rows: list[tuple[int, int]], handover: Handover
) -> None:
    settings = EngineSettings(num_gpu_blocks=8, policy=POLICIES[handover])
    jobs = jobs_of(rows)
    answers = executed(ReplayEngine(settings, MODEL), jobs)
    assert sorted(answer.job.index for answer in answers) == list(range(len(jobs)))
    ends = [answer.times.last_token for answer in answers]
    assert ends == sorted(ends)
    for answer in answers:
        times = answer.times
        assert times.queued <= times.admitted < times.first_token <= times.last_token
        assert answer.output_tokens == answer.job.output_tokens
        assert answer.finish_reason == ("stop" if answer.job.index % 2 else "length")
        assert (answer.text, len(answer.token_ids)) == ("", 0)


def test_it_does_what_predict_says(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    rows = list(zip(generator.integers(1, 200, 60), generator.integers(1, 80, 60), strict=True))
    prompts, outputs = zip(*rows, strict=True)
    instance = sortedf.Instance(prompts, outputs, 2048)
    result = sortedf.solve(instance, solver="svf", bound=False)
    order = np.argsort(result.schedule.starts, kind="stable").tolist()
    by_index = jobs_of([(int(prompt), int(output)) for prompt, output in rows])
    jobs = [by_index[k] for k in order]
    settings = EngineSettings.for_budget(2048, policy="planned")
    found = predict(result, MODEL, settings).replayed
    answers = executed(ReplayEngine(settings, MODEL), jobs)
    for answer in answers:
        k = answer.job.index
        assert answer.times.admitted == found.admitted[k]
        assert answer.times.last_token == found.completion[k]


def test_the_step_log_goes_as_far_as_the_run(tmp_path: Path) -> None:
    jobs = jobs_of([(10, 5), (10, 9)])
    engine = ReplayEngine(EngineSettings(num_gpu_blocks=100, async_scheduling=False), MODEL)
    path = tmp_path / "steps.csv"
    running = engine.execute(jobs, steps=path)
    assert [answer.job.index for answer in next(iter(running))] == [0]
    running.close()  # type: ignore[attr-defined]
    assert len(read_step_log(path).seconds) == 5
    assert engine.load().running == 2
    answers = executed(engine, jobs, steps=path)
    log = read_step_log(path)
    assert len(log.seconds) == 9
    assert log.seconds.sum() == pytest.approx(answers[-1].times.last_token)


def test_a_second_a_step_without_step_times() -> None:
    engine = ReplayEngine(EngineSettings(num_gpu_blocks=100))
    [answer] = executed(engine, jobs_of([(5, 7)]))
    assert answer.times.last_token == 7


def test_a_pace_lets_it_take_time() -> None:
    engine = ReplayEngine(EngineSettings(num_gpu_blocks=100), MODEL, pace=0.5)
    began = time.monotonic()
    steps = list(engine.execute(jobs_of([(5, 20)])))
    [answer] = [answer for step in steps for answer in step]
    assert isinstance(answer, Answer)
    assert time.monotonic() - began >= 2 * answer.times.last_token
    assert len(steps) > 2  # it gave signs of life


@pytest.mark.parametrize(
    ("rows", "code"), [((70, 20), "kv_budget_exceeded"), ((50, 20), "context_length_exceeded")]
)
def test_what_does_not_fit_is_refused(rows: tuple[int, int], code: str) -> None:
    engine = ReplayEngine(EngineSettings(num_gpu_blocks=6, max_model_len=64))
    [job] = jobs_of([rows])
    refusal = engine.refuses(job)
    assert refusal is not None
    assert refusal.code == code
    assert engine.refuses(jobs_of([(40, 20)])[0]) is None
