"""Both drivers of the replay against the same rules in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from naive_engine import NaiveEngine, Waiter, Work

import sortedf
from sortedf.engine.estimate import EngineState, estimate_ttft
from sortedf.engine.replaying import Replay
from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel

# Whole numbers, so that all sums are exact.
MODEL = StepTimeModel(
    fixed=8, prefill_token=2, decode_token=1, context=1, prefill_work=3, context_squared=1
)


def seconds(work: Work) -> float:
    """Duration of a step by MODEL."""
    total = 8
    for tokens, context in work:
        if tokens == 1:
            total += 1 + context + context**2
        else:
            total += 2 * tokens + 3 * sum(range(context + 1, context + tokens + 1))
    return total


@st.composite
def engines(draw: st.DrawFn, *, live: bool = False) -> tuple[NaiveEngine, Replay]:
    """Draw an engine and a backlog; for a live one first come, first served, and all there."""
    lengths = st.tuples(st.integers(1, 15), st.integers(1, 12))
    drawn = draw(st.lists(lengths, min_size=1, max_size=8))
    arrivals = [
        0 if live else draw(st.sampled_from([0, 1])) * draw(st.integers(0, 300)) for _ in drawn
    ]
    size = draw(st.integers(1, 5))
    needed = max(-(-(s + o) // size) for s, o in drawn)
    seats = draw(st.integers(1, 8))
    chunked = draw(st.booleans())
    engine = EngineSettings(
        num_gpu_blocks=1 + needed + draw(st.integers(0, 2 * needed)),
        block_size=size,
        max_num_seqs=seats,
        max_num_batched_tokens=draw(st.integers(seats, 30)) if chunked else 30,
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 2, 5])),
        long_prefill_token_threshold_adaptive=draw(st.booleans()),
        watermark=draw(st.sampled_from([0, 0.2])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        policy="fcfs" if live else draw(st.sampled_from(["fcfs", "priority"])),
    )
    by_priority = engine.policy == "priority"
    levels = [draw(st.integers(0, 3)) if by_priority else 0 for _ in drawn]
    handed = sorted(range(len(drawn)), key=lambda index: (arrivals[index], index))
    waiters = [
        Waiter(index, s, o, arrivals[index], (levels[index], handed.index(index)))
        for index, (s, o) in enumerate(drawn)
    ]
    replay = Replay(
        sortedf.Instance([s for s, _ in drawn], [o for _, o in drawn], 2**40),
        engine,
        arrivals=arrivals,
        priorities=levels if by_priority else None,
    )
    return NaiveEngine(engine, waiters, seconds), replay


@settings(max_examples=300)
@given(engines())
def test_kernels_follow_the_rules(drawn: tuple[NaiveEngine, Replay]) -> None:
    """Every step, who was preempted in it, and each first and last token."""
    naive, replay = drawn
    calls = len(list(naive.run()))
    found = replay.run(MODEL, log=True)
    log = found.log
    assert log is not None
    rows = list(zip(log.request.tolist(), log.tokens.tolist(), log.kind.tolist(), strict=True))
    chosen = [rows[a:b] for a, b in itertools.pairwise(log.entries.tolist())]
    victims = [log.victim[a:b].tolist() for a, b in itertools.pairwise(log.evictions.tolist())]
    assert len(chosen) <= calls
    assert list(zip(chosen, victims, strict=True)) == naive.calls
    for result in (found, replay.run(MODEL, by="events")):
        assert result.first_token.tolist() == [request.first for request in naive.requests]
        assert result.completion.tolist() == [request.done for request in naive.requests]
        preempted = [request.preempted for request in naive.requests]
        np.testing.assert_array_equal(result.preemptions > 0, preempted)


@settings(max_examples=300)
@given(engines(live=True), st.integers(0, 40), st.integers(1, 15))
def test_ahead_from_a_live_engine(
    drawn: tuple[NaiveEngine, Replay], number: int, prompt: int
) -> None:
    """A request is sent to an engine in the middle of its work; when it answers first."""
    naive, _ = drawn
    newcomer = Waiter(len(naive.requests), prompt, 1, 0, (1, 0))
    estimate, sent = None, 0.0
    assume(prompt <= naive.settings.kv_tokens)
    assume(naive.settings.enable_chunked_prefill or prompt <= 30)
    for call, (now, end) in enumerate(naive.run()):
        if call == number:
            state = EngineState(
                naive.settings,
                MODEL,
                [(r.prompt, r.output, r.sampled, r.computed) for r in naive.running],
                [(r.prompt, r.output, r.sampled) for r in sorted(naive.waiting, key=queue)],
                busy=max(end - now, 0),
            )
            estimate = estimate_ttft(state, sortedf.Request("new", prompt, 1))
            naive.requests.append(newcomer)
            naive.waiting.append(newcomer)
            sent = now
    if estimate is not None:
        assert newcomer.first == sent + estimate


def queue(request: Waiter) -> tuple[int, int]:
    return request.place
