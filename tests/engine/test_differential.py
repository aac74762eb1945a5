"""The replay against the real engine: every step of every workload is the same.

``--engine-workloads`` and ``--engine-runs`` say how many; a fixed tenth of the full count by
default.
"""

from __future__ import annotations

import random

import pytest
from engine_workloads import (
    canonical,
    our_answer,
    random_group,
    random_workload,
)
from real_engine import ask

pytestmark = pytest.mark.vllm


def test_scheduler_classes(request: pytest.FixtureRequest) -> None:
    """Each step's (request, tokens, new/resumed/continued) and victims, each first and last token.

    The real ``Scheduler`` and ``AsyncScheduler`` are driven with fake model outputs; four in ten
    workloads preempt, half have priorities.
    """
    count = request.config.getoption("--engine-workloads")
    rng = random.Random(20261130)
    works = [random_workload(rng) for _ in range(count)]
    answers = ask("drive_scheduler.py", works)
    assert len(answers) == count
    preempting, by_priority = 0, 0
    for number, (work, answer) in enumerate(zip(works, answers, strict=True)):
        assert canonical(our_answer(work)) == canonical(answer), (number, work)
        preempting += any(victims for _, victims in answer.get("calls", ()))
        by_priority += work["settings"]["policy"] == "priority"
    assert preempting >= count * 2 // 5
    assert by_priority >= count * 2 // 5


def test_whole_engine(request: pytest.FixtureRequest) -> None:
    """The same for backlogs on the whole engine on the CPU, tokens of a tiny model included."""
    count = request.config.getoption("--engine-runs")
    rng = random.Random(20261201)
    groups = [random_group(rng, works=5) for _ in range(-(-count // 5))]
    preempting = 0
    for group, answers in zip(groups, ask("drive_engine.py", groups), strict=True):
        for work, answer in zip(group["works"], answers, strict=True):
            ours = our_answer(work | {"settings": group["settings"]})
            assert canonical(ours) == canonical(answer), (group["settings"], work)
            preempting += any(victims for _, victims in answer.get("calls", ()))
    assert preempting >= count // 4
