"""UniBoost in a live engine, apart from one: settings, seconds that are learnt, the queue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sortedf.engine import StepTimeModel, write_step_time
from sortedf.errors import InputError, OptionError
from sortedf.kernels.step_terms import CONTEXT, DECODE_TOKENS, PREFILL_TOKENS, STEPS
from sortedf.orders import Proxies
from sortedf.runner.key_queue import KeyQueue
from sortedf.runner.learnt_seconds import FIRST, LearntSeconds
from sortedf.runner.scheduler_settings import SchedulerSettings
from sortedf.runner.waiting_keys import foreseen_output
from sortedf.serving.policies import policy


def test_settings_are_those_of_the_policy(tmp_path: Path) -> None:
    """What is not given has the default of the policy in sortedf.serving."""
    plain = SchedulerSettings(policy="uniboost").boosted()
    assert plain.scoring == policy("uniboost").scoring
    told = SchedulerSettings(policy="uniboost", guard=64, gamma=0.5, hysteresis=0, every=7)
    made, expected = told.boosted(), policy("uniboost", guard=64, gamma=0.5, hysteresis=0, every=7)
    assert (made.scoring, made.gamma, made.side) == (
        expected.scoring,
        expected.gamma,
        expected.side,
    )
    model = StepTimeModel(fixed=0.01, token=1e-5)
    write_step_time(model, tmp_path / "steptime.json")
    for given in ({"fixed": 0.01, "token": 1e-5}, str(tmp_path / "steptime.json")):
        found = SchedulerSettings(policy="uniboost", step_time=given).step_time_model()
        assert found is not None
        assert found.seconds.tolist() == model.seconds.tolist()
    assert SchedulerSettings(policy="uniboost").step_time_model() is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"policy": "svf", "gamma": 1.0}, "gamma: the policy svf takes no such thing"),
        ({"step_time": {"fixed": 1}}, "step_time: the policy planned takes no such thing"),
        ({"policy": "uniboost", "gamma": 0}, "gamma is 0; it must be a number of more than 0"),
        ({"policy": "uniboost", "gamma": True}, "gamma is True"),
        ({"policy": "uniboost", "smoothing": 1.5}, "at most 1"),
        ({"policy": "uniboost", "hysteresis": float("nan")}, "hysteresis is nan"),
        ({"policy": "uniboost", "guard": 0}, "guard is 0"),
        ({"policy": "uniboost", "every": 2.5}, "every is 2.5"),
        ({"policy": "uniboost-guard", "window": 10}, "has no window"),
        ({"policy": "uniboost", "step_time": 3}, "step_time is 3; it must be a file"),
        ({"policy": "uniboost", "step_time": {"fixd": 1}}, "no known coefficient fixd"),
        ({"policy": "uniboost", "step_time": "/nowhere/steptime"}, "cannot be read"),
    ],
)
def test_settings_that_make_no_sense(section: Any, message: str) -> None:
    with pytest.raises((OptionError, InputError), match=message):
        SchedulerSettings.of({"sortedf": section})


@pytest.mark.parametrize("pipelined", [False, True])
def test_seconds_are_learnt(pipelined: bool) -> None:
    """A step's own and a token's, from steps of all sizes, also where one is scheduled early."""
    rng = np.random.default_rng(4)
    learnt = LearntSeconds()
    prior = learnt.seconds.copy()
    assert prior[CONTEXT] > 0
    now, waiting = 1000.0, 0
    for step in range(400):
        tokens = int(rng.integers(1, 2000))
        if not pipelined or waiting == 0:
            learnt.scheduled(now, tokens)
        following = int(rng.integers(1, 2000))
        if pipelined:
            tokens = waiting or tokens
            learnt.scheduled(now + 0.001, following)
            waiting = following
        learnt.ended(now, 0)  # of a call in which nothing ran
        now += 0.02 + 3e-5 * tokens
        learnt.ended(now, tokens)
        if step + 1 < FIRST:
            assert (learnt.seconds == prior).all()
    assert learnt.seconds[STEPS] == pytest.approx(0.02, rel=1e-6)
    assert learnt.seconds[DECODE_TOKENS] == pytest.approx(3e-5, rel=1e-6)
    assert learnt.seconds[PREFILL_TOKENS] == learnt.seconds[DECODE_TOKENS]
    assert learnt.seconds[CONTEXT] == 0


def test_equal_steps_teach_their_mean() -> None:
    """Steps of one size say nothing of a token."""
    learnt = LearntSeconds()
    for step in range(100):
        learnt.scheduled(float(step), 8)
        learnt.ended(step + 0.5, 8)
    assert learnt.seconds[STEPS] == pytest.approx(0.5)
    assert learnt.seconds[DECODE_TOKENS] == pytest.approx(0.0, abs=1e-9)


@dataclass(eq=False)
class Asked:
    """A request in a queue."""

    request_id: str
    priority: float
    arrival_time: float = 0.0


def test_queue_takes_over_new_scores() -> None:
    queue = KeyQueue()
    requests = [Asked(str(i), float(i)) for i in range(20)]
    for request in requests:
        queue.add_request(request)
    for request in requests:
        request.priority = -request.priority
    queue.reorder()
    assert [queue.pop_request() for _ in range(20)] == requests[::-1]


def test_one_bit_sees_no_more_than_the_bit() -> None:
    proxies = Proxies(10, 4.4, 30.6)
    assert foreseen_output("svf", 7, proxies) == 7
    assert [foreseen_output("svf-1bit", o, proxies) for o in (1, 10, 11, 500)] == [4, 4, 31, 31]
