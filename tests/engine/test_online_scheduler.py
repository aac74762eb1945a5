"""The online policies on vLLM's real scheduler classes, held against their replay."""

from __future__ import annotations

import random

import pytest
from engine_workloads import canonical
from online_workloads import POLICIES, online_answer, online_workload
from real_engine import ask

pytestmark = pytest.mark.vllm


def test_every_step_is_as_replayed(request: pytest.FixtureRequest) -> None:
    """Each step's (request, tokens, new/resumed/continued) and victims, each first and last token.

    The real classes are driven with fake model outputs, with arrivals as they run.
    """
    count = request.config.getoption("--engine-workloads") // 2
    rng = random.Random(20261207)
    works = [online_workload(rng, POLICIES[i % len(POLICIES)]) for i in range(count)]
    answers = ask("drive_scheduler.py", works)
    assert len(answers) == count
    preempting = dict.fromkeys(POLICIES, 0)
    evicting = 0
    for number, (work, answer) in enumerate(zip(works, answers, strict=True)):
        assert canonical(online_answer(work)) == canonical(answer), (number, work)
        calls = answer["calls"]  # never a deadlock, nor a circle
        preempting[work["section"]["policy"]] += any(victims for _, victims in calls)
        kinds = [({kind for _, _, kind in rows}, victims) for rows, victims in calls]
        evicting += any(victims and {1, 2} & kind for kind, victims in kinds)
    assert all(found >= count // 100 for name, found in preempting.items() if name != "mcsf")
    assert evicting >= count // 20  # for whom was admitted in the same step
