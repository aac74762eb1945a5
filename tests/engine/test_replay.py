"""The replay by hand: small engines whose every step can be followed on paper."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import sortedf
from sortedf.engine.replaying import Replayed, replay
from sortedf.engine.settings import VLLM_0_19, EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError, SortedfError

UNIT = StepTimeModel(fixed=1.0)


def engine(blocks: int, size: int = 4, **settings: Any) -> EngineSettings:
    plain = {"max_num_seqs": 8, "max_num_batched_tokens": 64, "async_scheduling": False}
    return EngineSettings(num_gpu_blocks=blocks + 1, block_size=size, **(plain | settings))


def run(prompt: list[int], output: list[int], settings: EngineSettings, **events: Any) -> Replayed:
    instance = sortedf.Instance(prompt, output, 10**6)
    return replay(instance, settings, UNIT, log=True, **events)


def steps(found: Replayed) -> list[list[tuple[int, int, int]]]:
    """(request, tokens, kind) of every step."""
    log = found.log
    assert log is not None
    rows = list(zip(log.request.tolist(), log.tokens.tolist(), log.kind.tolist(), strict=True))
    ends = log.entries.tolist()
    return [rows[a:b] for a, b in itertools.pairwise(ends)]


def test_two_requests_side_by_side() -> None:
    """Prefill samples the first token; the last token comes with step o."""
    found = run([5, 3], [3, 1], engine(10))
    assert found.first_token.tolist() == [1, 1]
    assert found.completion.tolist() == [3, 1]
    assert found.completion_step.tolist() == [3, 1]
    assert steps(found) == [[(0, 5, 1), (1, 3, 1)], [(0, 1, 0)], [(0, 1, 0)]]
    assert found.steps == 3


def test_the_tail_is_preempted_and_computed_again() -> None:
    """Two grow until no block is left; the later one starts over with its tokens known."""
    found = run([4, 4], [8, 4], engine(3))
    # Both take a block; at step 2 the first takes the third block and the second finds none.
    assert steps(found)[1] == [(0, 1, 0)]
    assert found.log is not None
    assert found.log.victim.tolist() == [1]
    assert found.preemptions.tolist() == [0, 1]
    # The first holds 3 blocks until it ends at step 8; then 4 prompt tokens and 1 output again.
    assert steps(found)[8] == [(1, 5, 2)]
    assert found.first_step.tolist() == [1, 1]
    assert found.completion.tolist() == [8, 11]


def test_a_long_prompt_is_cut_by_the_budget() -> None:
    """Ten tokens with four a step: chunks of 4, 4, 2; the one behind takes what is left."""
    found = run([10, 3], [1, 1], engine(10, max_num_batched_tokens=4, max_num_seqs=4))
    assert steps(found) == [[(0, 4, 1)], [(0, 4, 0)], [(0, 2, 0), (1, 2, 1)], [(1, 1, 0)]]


def test_asynchronous_keeps_the_seat_for_one_more_call() -> None:
    """With one seat the next request waits one step longer, of no time here."""
    synchronous = run([2, 2], [2, 2], engine(10, max_num_seqs=1))
    ahead = run([2, 2], [2, 2], engine(10, max_num_seqs=1, async_scheduling=True))
    assert synchronous.admitted.tolist() == [0, 2]
    assert ahead.completion.tolist() == synchronous.completion.tolist()
    # An arrival in step 1 (0 to 1) is scheduled by the call at 1, into step 3.
    late = {"arrivals": [0, 0.5]}
    ahead = run([2, 2], [9, 1], engine(10, async_scheduling=True), **late)
    assert run([2, 2], [9, 1], engine(10), **late).first_token.tolist() == [1, 2]
    assert ahead.first_token.tolist() == [1, 3]


def test_aborts() -> None:
    """An aborted request gives its room back; what its last step would have brought is lost."""
    found = run([4, 4], [9, 2], engine(3, max_num_seqs=1), aborts=[2.5, np.inf])
    assert np.isnan(found.completion[0])
    assert found.first_token.tolist() == [1, 4]
    found = run([4], [1], engine(3), aborts=[0.5])
    assert np.isnan(found.first_token[0])
    assert np.isnan(found.makespan)


def test_times_are_sums_over_the_log() -> None:
    """The end of each step is that of the one before plus the model's seconds for its work."""
    model = StepTimeModel(fixed=0.5, token=0.25, context=0.125, prefill_work=2.0**-6)
    instance = sortedf.Instance([9, 7, 4], [5, 9, 3], 10**6)
    found = replay(instance, engine(6), model, log=True)
    assert found.log is not None
    assert np.cumsum(model.duration(found.log.work)).tolist() == found.log.end.tolist()
    assert found.log.work[0].tolist() == [1, 20, 0, 0, 45 + 28 + 10, 81 + 49 + 16, 0]


def test_order_decides_between_equal_arrivals() -> None:
    """A plan handed over as an order is what first come, first served follows."""
    found = run([4, 4, 4], [3, 2, 1], engine(2, max_num_seqs=1), order=[2, 1, 0])
    assert found.completion.tolist() == [6, 3, 1]


def test_priorities() -> None:
    """The lower number goes first, whatever the order of arrival."""
    settings = engine(2, max_num_seqs=1, policy="priority")
    found = run([4, 4, 4], [1, 1, 1], settings, priorities=[5, 1, 3])
    assert found.completion.tolist() == [3, 1, 2]


def test_outputs_are_cut_at_max_model_len() -> None:
    """The engine stops where the sequence is full."""
    assert run([5], [100], engine(10, max_model_len=8)).completion.tolist() == [3]
    with pytest.raises(InvalidRequestError, match="no room for an output"):
        run([8], [1], engine(10, max_model_len=8))


def test_what_can_never_fit_is_refused() -> None:
    """At most s + o - 1 tokens are held; one more than the blocks hold is an error."""
    assert run([5], [4], engine(2)).preemptions.tolist() == [0]
    with pytest.raises(InfeasibleError, match="needs 9 tokens, the KV budget is 8"):
        run([5], [5], engine(2))
    with pytest.raises(InvalidRequestError, match="without chunked prefill"):
        run([60], [10], engine(99, enable_chunked_prefill=False))


def test_a_circle_of_preemptions_is_an_error() -> None:
    """Equal priority and equal stamps: the engine would preempt to and fro for ever."""
    settings = engine(
        227,
        size=1,
        policy="priority",
        scheduler_reserve_full_isl=False,
        long_prefill_token_threshold=3,
        max_num_batched_tokens=100,
    )
    with pytest.raises(SortedfError, match="preempt each other"):
        run([157, 188, 101], [6, 39, 9], settings, stamps=[0, 0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_size": 0}, "block_size"),
        ({"max_num_batched_tokens": 7}, "below max_num_seqs"),
        ({"policy": "lifo"}, "policy is 'lifo'"),
        ({"watermark": 1.0}, "watermark"),
        ({"watermark": 0.1, "version": VLLM_0_19}, "has no watermark"),
        ({"long_prefill_token_threshold_adaptive": True, "version": VLLM_0_19}, "no adaptive"),
        ({"enable_chunked_prefill": False, "max_model_len": 65}, "at least max_model_len"),
        ({"shared_blocks": 1}, "needs enable_prefix_caching"),
        ({"max_model_len": 1}, "max_model_len"),
    ],
)
def test_settings_that_the_engine_refuses(changes: dict[str, Any], message: str) -> None:
    """Each in one line."""
    with pytest.raises(OptionError, match=message):
        engine(10).replace(**changes)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ({"arrivals": [0, np.nan]}, "arrivals"),
        ({"arrivals": [0]}, "arrivals"),
        ({"order": [0, 0]}, "permutation"),
        ({"order": [0.0, 1.0]}, "permutation"),
        ({"aborts": [5, -1]}, "aborts"),
        ({"priorities": [1, 2]}, "not read by the policy fcfs"),
    ],
)
def test_events_that_make_no_sense(events: dict[str, Any], message: str) -> None:
    """Each in one line."""
    with pytest.raises(OptionError, match=message):
        run([1, 2], [1, 2], engine(10), **events)


def test_budget_of_an_instance() -> None:
    """The engine for a budget has one block more than the budget holds."""
    settings = EngineSettings.for_budget(1000, block_size=16)
    assert (settings.num_gpu_blocks, settings.usable_blocks, settings.kv_tokens) == (63, 62, 992)
    with pytest.raises(OptionError, match="holds no block"):
        EngineSettings.for_budget(15, block_size=16)
