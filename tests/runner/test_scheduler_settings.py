"""What the scheduler is told, and the keys of waiting requests."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import sortedf
from sortedf.errors import OptionError
from sortedf.orders import ORDERS, Proxies, burst_proxies
from sortedf.runner.scheduler_settings import SchedulerSettings, Told
from sortedf.runner.waiting_keys import BEHIND_THE_PLAN, KEYS, Waiting


def test_settings_cross_processes_as_plain_data() -> None:
    """What is not the default, through JSON and back, beside what others put there."""
    told = SchedulerSettings(policy="svf", lookahead=3, steps="/somewhere/steps.csv")
    config = json.loads(json.dumps(told.additional_config() | {"other": 1}))
    assert SchedulerSettings.of(config) == told
    assert SchedulerSettings().additional_config() == {"sortedf": {}}
    for nothing in ({}, None, {"other": 2}):
        assert SchedulerSettings.of(nothing) == SchedulerSettings()


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"polcy": "svf"}, "knows no polcy; it knows policy, lookahead"),
        ({"policy": "sjf"}, "one of planned, svf, svf-1bit"),
        ({"lookahead": 0}, "lookahead is 0"),
        ({"lookahead": "2"}, "lookahead is '2'"),
        ({"output_tokens": 0}, "output_tokens is 0"),
        ({"room": 1}, "room is 1; it must be true or false"),
        ({"steps": 3}, "steps is 3"),
        ({"threshold": 10}, "go together"),
        ([], "must be an object"),
    ],
)
def test_settings_that_make_no_sense(section: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SchedulerSettings.of({"sortedf": section})


def test_what_a_request_tells() -> None:
    told = Told(place=0, output_tokens=12)
    assert told.extra_args() == {"sortedf_place": 0, "sortedf_output_tokens": 12}
    assert Told.of(told.extra_args() | {"kv_transfer_params": {}}) == (told, [])
    assert Told.of(None) == (Told(), [])
    assert Told.of({"sortedf_place": 3.0}) == (Told(place=3), [])
    assert Told.of({"sortedf_steps": "a"}) == (Told(steps="a"), [])


@pytest.mark.parametrize("value", [-1, 1.5, "3", True, float("nan"), float("inf"), [1], 1 << 60])
def test_what_makes_no_sense_is_passed_over(value: Any) -> None:
    """A bad request must not end the engine."""
    bad = {"sortedf_place": value, "sortedf_output_tokens": value}
    assert Told.of(bad) == (Told(), list(bad))
    assert Told.of({"sortedf_output_tokens": 0}) == (Told(), ["sortedf_output_tokens"])
    assert Told.of({"sortedf_steps": 3}) == (Told(), ["sortedf_steps"])


@pytest.mark.parametrize("policy", ["svf", "svf-1bit"])
def test_keys_rank_as_the_orders_do(policy: str) -> None:
    """One by one as all at once, ties by arrival."""
    rng = random.Random(3)
    lengths = [(rng.randint(1, 500), rng.randint(1, 500)) for _ in range(300)]
    prompt, output = zip(*lengths, strict=True)
    instance = sortedf.Instance(prompt, output, 1000)
    proxies = burst_proxies(instance)
    keys = [KEYS[policy](Waiting(p, o, None, 0), proxies) for p, o in lengths]
    assert np.argsort(keys, kind="stable").tolist() == ORDERS[policy](instance).tolist()


def test_the_plan_comes_first() -> None:
    """Then the others, by the user's priority."""
    key = KEYS["planned"]
    proxies = Proxies.burst(100)
    waiting = [
        Waiting(1, 1, 7, 5),
        Waiting(1, 1, 8, -9),
        *(Waiting(1, 1, None, p) for p in (-3, 0, 2)),
    ]
    keys = [key(request, proxies) for request in waiting]
    assert keys[:2] == [7, 8]
    assert keys == sorted(set(keys))
    assert BEHIND_THE_PLAN > 1 << 53  # the largest place


def test_proxies_by_the_longest_request_or_as_given() -> None:
    assert SchedulerSettings().proxies(10_000) == (100, 10, 1000)
    given = SchedulerSettings(policy="svf-1bit", threshold=50, short=20, long=200)
    assert given.proxies(10_000) == (50, 20, 200)
    with pytest.raises(OptionError, match="short <= long"):
        SchedulerSettings(threshold=50, short=20, long=2).proxies(100)
