"""Random workloads for the engine, and what our replay makes of them in the driver's words."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import sortedf
from sortedf.engine.replaying import Replay
from sortedf.engine.settings import VLLM_0_32, EngineSettings, EngineVersion
from sortedf.engine.step_time import StepTimeModel

Workload = dict[str, Any]


def random_workload(rng: random.Random) -> Workload:
    """Draw a small backlog and an engine: tight or ample in memory, tokens, seats."""
    n = rng.choice([rng.randint(1, 4), rng.randint(5, 24), rng.randint(5, 24)])
    scale = rng.choice([6, 20, 60, 200])
    prompt = [rng.randint(1, scale) for _ in range(n)]
    output = [rng.randint(1, rng.choice([3, 30, 80])) for _ in range(n)]
    size = rng.choice([1, 2, 4, 8, 16, 32])
    caching = rng.random() < 0.35
    shared = rng.choice([0, 0, 1, 2, 5]) if caching else 0
    # A prompt that ended within the header would have a content of its own.
    prompt = [p if p > shared * size else p + shared * size for p in prompt]
    longest = max(p + o for p, o in zip(prompt, output, strict=True))
    limit = longest + rng.choice([0, 0, 1, 30])
    if rng.random() < 0.15:  # some outputs are cut
        limit = max(max(prompt) + 1, longest - rng.randint(1, 10))
    needed = max(-(-min(p + o, limit) // size) for p, o in zip(prompt, output, strict=True))
    seats = rng.choice([1, 4, 16, 32, 32])
    budget = max(seats, rng.choice([4, 16, 40, 200, 1000]))
    chunked = rng.random() < 0.8
    settings = {
        "num_gpu_blocks": 1 + needed + rng.choice([0, 0, 1, 3, needed // 2, 5 * needed]),
        "block_size": size,
        "max_num_batched_tokens": budget if chunked else max(budget, limit),
        "max_num_seqs": seats,
        "max_model_len": limit,
        "long_prefill_token_threshold": min(rng.choice([0, 0, 0, 3, 17, 50]), limit),
        "long_prefill_token_threshold_adaptive": rng.random() < 0.2,
        "enable_chunked_prefill": chunked,
        "watermark": rng.choice([0.0, 0.0, 0.0, 0.05, 0.3]),
        "scheduler_reserve_full_isl": rng.random() < 0.4,
        "policy": rng.choice(["fcfs", "priority"]),
        "async_scheduling": rng.random() < 0.5,
        "enable_prefix_caching": caching,
        "shared_blocks": shared,
    }
    return {"settings": settings, "prompt": prompt, "output": output} | _events(rng, n)


def planned_workload(rng: random.Random) -> Workload:
    """Draw a workload for the policy planned, see :func:`_plan`."""
    work = random_workload(rng)
    work["settings"] |= {"policy": "planned", "lookahead": rng.choice([1, 1, 2, 3, 8])}
    return work | _plan(rng, work)


def planned_group(rng: random.Random, works: int) -> Workload:
    """Draw an engine that runs on the CPU, for the policy planned, and backlogs for it."""
    group = random_group(rng, works)
    group["settings"] |= {"policy": "planned", "lookahead": rng.choice([1, 3])}
    return group | {"works": [work | _plan(rng, work) for work in group["works"]]}


def _plan(rng: random.Random, work: Workload) -> Workload:
    """Draw places, and predictions that are right, too short, too long, or mixed."""
    n = len(work["prompt"])
    factors: list[float] = rng.choice(
        [[1], [1], [0.01, 0.4, 0.8], [1, 1.3, 5], [0.1, 0.7, 1, 1, 1.5]]
    )
    plan: Workload = {"predicted": [max(1, round(o * rng.choice(factors))) for o in work["output"]]}
    if rng.random() < 0.7:
        plan["priorities"] = rng.sample(range(n), n)
    return plan


def _events(rng: random.Random, n: int) -> Workload:
    """Draw when requests come and go, in what order, and how long steps take."""
    span = rng.choice([0, 0, 10, 100, 1000])
    arrivals = [rng.randint(0, span) for _ in range(n)]
    handed = sorted(range(n), key=lambda i: (arrivals[i], i))
    stamps = [0] * n
    for place, i in enumerate(handed):
        stamps[i] = place
    if rng.random() < 0.3:  # ties, also among requests that came at different times
        stamps = [stamp // rng.choice([2, 5]) for stamp in stamps]
    levels = rng.choice([1, 2, 5])
    aborts: list[int | None] = [None] * n
    if rng.random() < 0.25:
        for i in range(n):
            if rng.random() < 0.4:
                aborts[i] = arrivals[i] + rng.randint(0, 150)
    return {
        "arrivals": arrivals,
        "priorities": [rng.randint(0, levels - 1) for _ in range(n)],
        "stamps": stamps,
        "aborts": aborts,
        "seconds": [rng.choice([1, 5]), rng.choice([0, 1]), rng.choice([0, 1]), rng.choice([0, 1])],
    }


def random_group(rng: random.Random, works: int) -> Workload:
    """Draw an engine that runs on the CPU, and backlogs for it; the clock counts steps."""
    size = rng.choice([32, 32, 64])
    scale = rng.choice([20, 80, 250])
    caching = rng.random() < 0.3
    shared = rng.choice([0, 1, 2]) if caching else 0
    drawn: list[Workload] = []
    for _ in range(works):
        n = rng.randint(3, 20)
        prompt = [rng.randint(1, scale) + shared * size for _ in range(n)]
        output = [rng.randint(1, rng.choice([5, 50, 150])) for _ in range(n)]
        work = {"prompt": prompt, "output": output} | _events(rng, n)
        drawn.append(work | {"seconds": [1, 0, 0, 0]})
    limit = max(
        p + o for work in drawn for p, o in zip(work["prompt"], work["output"], strict=True)
    )
    limit += rng.choice([0, 0, -1, 20])  # with -1 an output is cut
    limit = max(limit, 1 + max(max(work["prompt"]) for work in drawn))
    needed = -(-limit // size)
    seats = rng.choice([2, 8, 32])
    chunked = rng.random() < 0.75
    budget = max(seats, rng.choice([32, 100, 1000]))
    settings = {
        "num_gpu_blocks": 1 + needed + rng.choice([0, 0, 1, 2, needed, 5 * needed]),
        "block_size": size,
        "max_num_batched_tokens": budget if chunked else max(budget, limit),
        "max_num_seqs": seats,
        "max_model_len": limit,
        "long_prefill_token_threshold": min(rng.choice([0, 0, 0, 17, 50]), limit),
        "long_prefill_token_threshold_adaptive": rng.random() < 0.2,
        "enable_chunked_prefill": chunked,
        "watermark": rng.choice([0.0, 0.0, 0.1]),
        "scheduler_reserve_full_isl": rng.random() < 0.5,
        "policy": rng.choice(["fcfs", "priority"]),
        "async_scheduling": False,
        "enable_prefix_caching": caching,
        "shared_blocks": shared,
    }
    return {"settings": settings, "works": drawn}


def our_answer(work: Workload, version: EngineVersion = VLLM_0_32) -> dict[str, Any]:
    """Replay a workload; the answer in the form of the drivers of the real engine."""
    instance = sortedf.Instance(work["prompt"], work["output"], 2**40)
    settings = EngineSettings(**work["settings"], version=version)
    by_priority = settings.policy != "fcfs"
    replay = Replay(
        instance,
        settings,
        arrivals=work["arrivals"],
        priorities=work["priorities"] if by_priority else None,
        stamps=work["stamps"] if by_priority else None,
        aborts=[np.inf if time is None else time for time in work["aborts"]],
        predicted=work.get("predicted"),
    )
    return answer_of(replay, step_time(work))


def step_time(work: Workload) -> StepTimeModel:
    """Give what the steps of a workload take."""
    fixed, prefill, decode, context = work["seconds"]
    return StepTimeModel(fixed=fixed, prefill_token=prefill, decode_token=decode, context=context)


def answer_of(replay: Replay, model: StepTimeModel) -> dict[str, Any]:
    """Run a replay; the answer in the form of the drivers of the real engine."""
    try:
        found = replay.run(model, log=True)
    except sortedf.SortedfError:
        return {"endless": True}
    log = found.log
    assert log is not None
    calls = []
    for step in range(len(log.begin)):
        rows = slice(log.entries[step], log.entries[step + 1])
        entries = zip(log.request[rows], log.tokens[rows], log.kind[rows], strict=True)
        victims = log.victim[log.evictions[step] : log.evictions[step + 1]]
        calls.append([[list(map(int, entry)) for entry in entries], sorted(map(int, victims))])
    times = [
        [None if np.isnan(time) else float(time) for time in column]
        for column in (found.first_token, found.completion)
    ]
    return {"calls": calls, "first": times[0], "done": times[1]}


def canonical(answer: dict[str, Any]) -> dict[str, Any]:
    """Put an answer into a form that is equal for equal sets of (request, tokens, kind)."""
    if "endless" in answer:
        return answer
    calls = [[sorted(rows), sorted(victims)] for rows, victims in answer["calls"]]
    return {
        "calls": calls,
        "first": [None if t is None else float(t) for t in answer["first"]],
        "done": [None if t is None else float(t) for t in answer["done"]],
    }
