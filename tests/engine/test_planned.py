"""The policy planned: room kept for predicted outputs, the plan's order, wrong predictions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_workloads import Workload, random_workload
from hypothesis import given
from hypothesis import settings as examples
from naive_planned import TwinCase, twin_cases

import sortedf
from sortedf.engine.replaying import Replayed, replay
from sortedf.engine.settings import VLLM_0_19, EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError

UNIT = StepTimeModel(fixed=1.0)


def workloads(seed: int, count: int) -> Iterator[tuple[random.Random, Workload]]:
    """Draw engines and backlogs, most of them tight in memory."""
    rng = random.Random(seed)
    for _ in range(count):
        work = random_workload(rng)
        if rng.random() < 0.4:
            work["settings"]["num_gpu_blocks"] *= 2
        yield rng, work


def run(work: Workload, policy: str = "planned", **changes: Any) -> Replayed:
    """Replay a workload under a policy."""
    known = {"version", "lookahead"}
    settings = work["settings"] | {"policy": policy}
    settings |= {name: changes.pop(name) for name in known & changes.keys()}
    fixed, prefill, decode, context = work["seconds"]
    aborts = [np.inf if time is None else time for time in work["aborts"]]
    events = {"arrivals": work["arrivals"], "aborts": aborts} | changes
    if policy != "fcfs":
        events.setdefault("priorities", work["priorities"])
    return replay(
        sortedf.Instance(work["prompt"], work["output"], 2**40),
        EngineSettings(**settings),
        StepTimeModel(fixed=fixed, prefill_token=prefill, decode_token=decode, context=context),
        **events,
    )


def test_nothing_is_preempted_when_no_output_is_longer_than_predicted() -> None:
    """Whatever the engine: chunks, caps, caching, seats, arrivals, aborts, lookahead, versions."""
    preempting = 0
    for number, (rng, work) in enumerate(workloads(6, 2000)):
        changes: dict[str, Any] = {"lookahead": rng.choice([1, 1, 2, 5])}
        if number % 2:
            changes["predicted"] = [o + rng.choice([0, 0, 1, 9, 90]) for o in work["output"]]
        settings = work["settings"]
        if number % 5 == 0:
            settings |= {"watermark": 0.0, "long_prefill_token_threshold_adaptive": False}
            changes["version"] = VLLM_0_19
        found = run(work, **changes)
        assert not found.preemptions.any(), (number, work)
        aborted = np.array([time is not None for time in work["aborts"]])
        assert not np.isnan(found.completion[~aborted]).any()
        if number % 4 == 0:
            preempting += int(run(work, "fcfs").preemptions.any())
    assert preempting > 100  # of 500: without room kept


def test_nothing_is_preempted_when_tokens_are_as_short_as_memory() -> None:
    """Several prompts in chunks at once, and whoever is behind them waits for tokens."""
    rng = random.Random(10)
    preempting = 0
    for number in range(1500):
        n = rng.randint(4, 24)
        prompt = [rng.choice([rng.randint(1, 4), rng.randint(5, 60)]) for _ in range(n)]
        output = [rng.randint(1, rng.choice([3, 30])) for _ in range(n)]
        seats = rng.randint(2, 12)
        largest = max(p + o for p, o in zip(prompt, output, strict=True))
        settings = EngineSettings(
            num_gpu_blocks=1 + largest + rng.randint(0, 2 * largest),
            block_size=1,
            max_num_seqs=seats,
            max_num_batched_tokens=seats + rng.randint(0, 12),
            long_prefill_token_threshold=rng.choice([0, 2, 3, 5, 9]),
            scheduler_reserve_full_isl=False,
            async_scheduling=rng.random() < 0.5,
            policy="planned",
        )
        instance = sortedf.Instance(prompt, output, 10**6)
        arrivals = [rng.randint(0, 30) for _ in range(n)]
        found = replay(instance, settings, UNIT, arrivals=arrivals)
        assert not found.preemptions.any(), number
        found = replay(instance, settings.replace(policy="fcfs"), UNIT, arrivals=arrivals)
        preempting += int(found.preemptions.any())
    assert preempting > 500


@examples(max_examples=500)
@given(case=twin_cases(together_if_late=True))
def test_admissions_are_those_of_the_naive_twin(case: TwinCase) -> None:
    """Where prompts take one step, exactly what a look at every later step admits is admitted."""
    naive, jobs, asynchronous = case.admissions(), case.jobs, case.late
    place = [job.place for job in jobs]
    settings = EngineSettings(
        num_gpu_blocks=case.blocks + 1,
        block_size=case.size,
        max_num_batched_tokens=10_000,
        max_num_seqs=case.seats,
        async_scheduling=asynchronous,
        policy="planned",
        lookahead=case.lookahead,
    )
    found = replay(
        sortedf.Instance([job.prompt for job in jobs], [job.output for job in jobs], 2**40),
        settings,
        UNIT,
        arrivals=[job.arrival for job in jobs],
        priorities=place,
        predicted=[job.predicted for job in jobs],
        log=True,
    )
    assert not found.preemptions.any()
    if asynchronous:
        # A call in which nobody runs is no step: count the naive steps in which somebody does.
        ends = {job.place: naive[job.place] + job.output for job in jobs}
        busy = sorted({t for at in naive for t in range(naive[at], ends[at])})
        ours = found.admitted_step[np.argsort(place)] - 1
        assert [busy[step] for step in ours] == [naive[at] for at in range(len(jobs))]
    else:
        assert found.admitted.tolist() == [naive[at] for at in place]


def test_admissions_are_in_the_order_of_the_plan() -> None:
    """Strict: nobody is admitted for the first time before one who waits and stands before."""
    for rng, work in workloads(7, 300):
        n = len(work["prompt"])
        plan = rng.sample(range(n), n)
        work["aborts"] = [None] * n
        predicted = [max(1, round(o * rng.uniform(0.5, 1.5))) for o in work["output"]]
        found = run(work, priorities=plan, predicted=predicted)
        for i, j in itertools.permutations(range(n), 2):
            if plan[i] < plan[j] and found.arrivals[i] <= found.admitted[j]:
                assert found.admitted[i] <= found.admitted[j]


def test_wrong_predictions_end_and_victims_are_the_last_of_the_plan() -> None:
    """Far too short or too long: all complete; who stays stands before who is preempted."""
    victims = 0
    for rng, work in workloads(8, 600):
        n = len(work["prompt"])
        plan = rng.sample(range(n), n)
        work["aborts"] = [None] * n
        predicted = [max(1, round(o * rng.choice([0.01, 0.5, 0.8, 1, 5]))) for o in work["output"]]
        found = run(
            work, priorities=plan, predicted=predicted, lookahead=rng.choice([1, 3]), log=True
        )
        assert not np.isnan(found.completion).any()
        log = found.log
        assert log is not None
        running: set[int] = set()
        for step in range(len(log.begin)):
            lost = log.victim[log.evictions[step] : log.evictions[step + 1]].tolist()
            running -= set(lost)
            running |= set(log.request[log.entries[step] : log.entries[step + 1]].tolist())
            assert running.isdisjoint(lost)
            if lost:
                victims += len(lost)
                assert min(plan[i] for i in lost) > max((plan[i] for i in running), default=-1)
            running = {i for i in running if found.completion_step[i] > step + 1}
    assert victims > 100


def test_ample_memory_makes_it_first_come_first_served() -> None:
    """Where nothing is ever short, the order alone counts."""
    for _, work in workloads(9, 200):
        settings = work["settings"]
        peaks = [
            p + o + settings["block_size"]
            for p, o in zip(work["prompt"], work["output"], strict=True)
        ]
        settings["num_gpu_blocks"] = 2 + 2 * sum(peaks)
        arrived = np.argsort(np.argsort(work["arrivals"], kind="stable"))
        planned = run(work, priorities=arrived, log=True)
        assert planned.log is not None
        plain = run(work, "fcfs", log=True)
        assert plain.log is not None
        for ours, theirs in zip(planned.log, plain.log, strict=True):
            assert ours.tolist() == theirs.tolist()


def test_by_hand() -> None:
    """Two of 4 + 8 in 5 blocks of 4: the second waits until both can end."""
    settings = EngineSettings(
        num_gpu_blocks=6,
        block_size=4,
        max_num_batched_tokens=64,
        max_num_seqs=8,
        async_scheduling=False,
        policy="planned",
    )
    instance = sortedf.Instance([4, 4], [8, 8], 100)
    # Each holds 1 block for one step, 2 for four, 3 for three: 3 + 3 never fit, 3 + 2 do.
    assert replay(instance, settings, UNIT).admitted.tolist() == [0, 3]
    # The first ends after two steps instead of eight: the second comes at once.
    early = instance.replace(output_tokens=np.array([2, 8]))
    assert replay(early, settings, UNIT, predicted=[8, 8]).admitted.tolist() == [0, 2]
    # Both taken to need one token: at 5 slots each is taken to need two, at 7 four, at 11 eight.
    found = replay(instance, settings, UNIT, predicted=[1, 1])
    assert found.admitted.tolist() == [0, 0]
    assert found.preemptions.tolist() == [0, 1]
    assert found.completion[0] == 8


@pytest.mark.parametrize(
    ("policy", "events", "message"),
    [
        ("priority", {"predicted": [1, 1]}, "policy planned alone"),
        ("planned", {"predicted": [1]}, "predicted must be 2"),
        ("planned", {"predicted": [0, 1]}, "each at least 1"),
        ("planned", {"predicted": [1.0, 1.0]}, "predicted must be 2"),
    ],
)
def test_predictions_that_make_no_sense(policy: str, events: dict[str, Any], message: str) -> None:
    """Each in one line."""
    settings = EngineSettings(num_gpu_blocks=9, policy=policy)
    with pytest.raises(OptionError, match=message):
        replay(sortedf.Instance([1, 1], [2, 2], 100), settings, UNIT, **events)


def test_lookahead_is_of_planned_alone() -> None:
    """The policies of vLLM end a step at the first that does not fit."""
    with pytest.raises(OptionError, match="lookahead"):
        EngineSettings(num_gpu_blocks=9, lookahead=2)
