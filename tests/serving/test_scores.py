"""The compiled engine under changing scores against plain Python, step by step."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from naive_serving import Job, NaiveServing, boosted

import sortedf
from sortedf.engine import EngineSettings, StepTimeModel
from sortedf.errors import SortedfError
from sortedf.kernels import standing
from sortedf.kernels.standing import Scoring
from sortedf.serving.gamma import boosted_arrivals
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.side import EngineSide
from sortedf.serving.workloads import Workload

# Whole numbers, so that the seconds of a step are the same in any order of adding.
MODEL = StepTimeModel(fixed=64, prefill_token=2, decode_token=1, context=1, prefill_work=1)
WORKLOADS = 600
KINDS = {
    "fixed": standing.FIXED,
    "remaining": standing.REMAINING,
    "bound": standing.BOUND,
    "boost": standing.BOOST,
}


def cost(tokens: int, context: int) -> float:
    """Seconds by MODEL but for the step itself."""
    if tokens == 1:
        return 1.0 + context
    return 2.0 * tokens + sum(range(context + 1, context + tokens + 1))


def drawn(rng: random.Random) -> tuple[NaiveServing, PolicyReplay]:
    """Draw a workload, a policy and an engine, tight in memory: once plain, once compiled."""
    n = rng.randint(1, 12)
    prompts = [rng.randint(1, 20) for _ in range(n)]
    outputs = [rng.randint(1, rng.choice([3, 12, 40])) for _ in range(n)]
    arrivals = sorted(rng.choice([0, 1]) * rng.randint(0, 6000) for _ in range(n))
    size = rng.choice([1, 2, 5])
    needed = max(-(-(s + o) // size) for s, o in zip(prompts, outputs, strict=True))
    blocks = needed + rng.randint(0, 2 * needed)
    future, seats = rng.random() < 0.4, rng.randint(1, 8)
    budget = 1000 if future else max(seats, rng.choice([8, 15, 40, 1000]))
    kind = rng.choice(list(KINDS))
    guard = rng.choice([0, 1, 2, 4]) if kind == "boost" else 0
    weight, share = rng.choice([0.0, 0.5]), rng.choice([np.inf, 0.8, 0.3])
    patience = [rng.choice([np.inf, 300.0, 2000.0]) for _ in range(n)]
    quantum = rng.randint(1, 5)
    gamma = rng.choice([0.0, 1e-3, 0.1, np.inf])
    base = [float(rng.choice([o, rng.randint(1, 30)])) for o in outputs]
    if kind == "boost":
        base = [float(arrival) for arrival in arrivals]
    floor = [float(rng.choice([1, 100, s * 50])) for s in prompts]
    predicted = [guard or rng.choice([o, rng.randint(1, 30)]) for o in outputs]
    displaces = rng.random() < 0.6
    side = EngineSide(
        eviction=rng.choice(["recompute", "recompute", "swap", "restart"]),
        displaces=displaces,
        hysteresis=rng.choice([0.0, 3.0, 500.0]),
        victim="worst" if displaces else rng.choice(["worst", "least"]),
        watermark=rng.choice([0.0, 0.1]),
        future=future,
        swap_seconds=rng.choice([0.0, 2.0]),
    )
    doubles, gate, late = rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.5
    policy = OnlinePolicy(
        name="drawn",
        side=side,
        key=lambda given: np.array(base),
        floor=lambda given: np.array(floor),
        foresees=lambda given: np.array(predicted),
        gamma=gamma,
        doubles=doubles,
        scoring=Scoring(
            kind=KINDS[kind],
            weight=weight,
            share=share,
            guard=guard,
            quantum=quantum,
        ),
        patience=lambda given: np.array(patience),
    )
    settings = EngineSettings(
        num_gpu_blocks=blocks + 1,
        block_size=size,
        max_num_batched_tokens=budget,
        max_num_seqs=seats,
        scheduler_reserve_full_isl=gate,
        async_scheduling=late,
    )
    workload = Workload(sortedf.Instance(prompts, outputs, 2**40), np.array(arrivals, np.float64))
    replay = PolicyReplay(workload, policy, settings, MODEL, Knowledge(kind="nothing"))
    naive = NaiveServing(
        [
            Job(i, *row)
            for i, row in enumerate(
                zip(
                    prompts,
                    outputs,
                    map(float, arrivals),
                    base,
                    floor,
                    predicted,
                    patience,
                    strict=True,
                )
            )
        ],
        cost,
        blocks,
        size,
        budget,
        seats,
        kind,
        fixed=64.0,
        weight=weight,
        share=share,
        gamma=gamma,
        guard=guard,
        quantum=quantum,
        displaces=side.displaces,
        hysteresis=side.hysteresis,
        least=side.victim == "least",
        eviction=str(side.eviction),
        swap=side.swap_seconds,
        watermark=int(side.watermark * (blocks + 1)),
        gate=gate,
        future=future,
        doubles=doubles,
        late=late,
    )
    return naive, replay


def moments(log: Any) -> list[Any]:
    """Give the log as the plain engine keeps it."""
    rows = list(zip(log.request.tolist(), log.tokens.tolist(), log.kind.tolist(), strict=True))
    chosen = [rows[a:b] for a, b in itertools.pairwise(log.entries.tolist())]
    victims = [log.victim[a:b].tolist() for a, b in itertools.pairwise(log.evictions.tolist())]
    return list(zip(chosen, victims, strict=True))


def test_random_workloads() -> None:
    """Every step: who gets how many tokens, who is preempted and in what order, when it ends."""
    rng = random.Random(20261206)
    evicting = displacing = endless = 0
    for number in range(WORKLOADS):
        naive, replay = drawn(rng)
        try:
            found = replay.run(MODEL, log=True)
        except SortedfError:
            endless += 1
            continue
        naive.run()
        log = found.log
        assert log is not None
        for ours, theirs in zip(moments(log), naive.moments, strict=True):
            assert ours == theirs, number
        assert log.end.tolist() == naive.ends
        assert found.first_token.tolist() == [job.first for job in naive.jobs]
        assert found.completion.tolist() == [job.done for job in naive.jobs]
        assert found.recomputed.tolist() == [job.lost for job in naive.jobs]
        assert naive.most_held <= naive.blocks
        evicting += bool(found.preemptions.any())
        displacing += bool(found.preemptions.any()) and naive.displaces
    assert evicting > 100
    assert displacing > 50
    assert endless < 60


@pytest.mark.parametrize("gamma", [0.0, 1e-3, 0.5, 30.0, np.inf])
def test_boost_is_the_papers_formula(gamma: float) -> None:
    """Scores are a - (1 / gamma) ln(1 / (1 - exp(-gamma w))), limits too, work least first."""
    work = np.array([1e-6, 0.01, 1.0, 7.0, 300.0])
    scores = boosted_arrivals(np.full(5, 5.0), work, gamma).tolist()
    assert scores == pytest.approx([boosted(5.0, w, gamma) for w in work], rel=1e-12)
    assert scores == sorted(scores)
    if gamma == 0.5:
        expected = 5 - 2 * np.log(1 / (1 - np.exp(-0.5)))
        assert scores[2] == pytest.approx(expected, rel=1e-12)
