"""The estimate of the time to first token: by hand, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

import sortedf
from sortedf.engine import EngineSettings, EngineState, StepTimeModel, estimate_ttft
from sortedf.errors import InfeasibleError, InvalidRequestError, OptionError, SortedfError

UNIT = StepTimeModel(fixed=1.0)
ENGINE = EngineSettings(num_gpu_blocks=11, block_size=4, max_num_seqs=2, async_scheduling=False)


def new(prompt: int = 4, output: int = 2) -> sortedf.Request:
    return sortedf.Request("new", prompt, output)


def test_by_hand() -> None:
    """A seat is free when the first of two has its last token, or the one that waits has."""
    assert estimate_ttft(EngineState(ENGINE, UNIT), new()) == 1
    running = [(4, 5, 2, 5), (4, 9, 1, 4)]  # three and eight steps to go
    assert estimate_ttft(EngineState(ENGINE, UNIT, running, busy=0.5), new()) == 4.5
    assert estimate_ttft(EngineState(ENGINE, UNIT, running, [(4, 2, 0)]), new()) == 6
    ahead = EngineState(ENGINE.replace(async_scheduling=True), UNIT, running)
    assert estimate_ttft(ahead, new()) == 5


def test_preemptions_are_counted() -> None:
    """Two grow until no block is left; the later one is computed again before the newcomer."""
    engine = ENGINE.replace(num_gpu_blocks=4, max_num_seqs=3)
    state = EngineState(engine, UNIT, [(4, 8, 1, 4), (4, 4, 1, 4)])
    assert state.first_token(new(4, 1)) == (8, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"running": [(4, 5, 2)]}, "running must be rows of 4 integers"),
        ({"waiting": [(4.0, 5.0, 2.0)]}, "waiting must be rows of 3 integers"),
        ({"waiting": [(4, 2, 2)]}, "sampled less than its output"),
        ({"waiting": [(0, 2, 0)]}, "must have a prompt"),
        ({"running": [(4, 5, 2, 6)]}, "computed some of its tokens, not all"),
        ({"running": [(4, 5, 2, 0)]}, "computed some of its tokens, not all"),
        ({"waiting": [(30, 30, 0)]}, "needs 15 blocks; the engine has 10"),
        ({"running": [(20, 9, 2, 21)] * 2}, "hold 12 blocks"),
        (
            {"running": [(4, 9, 2, 5)] * 3},
            "3 running requests hold 6 blocks; the engine has 2 seats",
        ),
        ({"busy": -1.0}, "busy is -1.0"),
        ({"settings": ENGINE.replace(policy="priority")}, "knows the policy fcfs, not priority"),
    ],
)
def test_states_that_cannot_be(arguments: dict[str, Any], message: str) -> None:
    """Each in one line."""
    plain: dict[str, Any] = {"settings": ENGINE, "step_time": UNIT}
    with pytest.raises(OptionError, match=message):
        EngineState(**(plain | arguments))


def test_a_request_that_never_fits() -> None:
    """As for a backlog: too large for the whole cache."""
    with pytest.raises(InfeasibleError, match="needs 50 tokens, the KV budget is 40"):
        estimate_ttft(EngineState(ENGINE, UNIT), new(50, 1))


def test_without_chunks_a_prompt_must_fit_into_a_step() -> None:
    """Such a prompt would never be admitted, nor who is behind it; it is refused in both places."""
    engine = ENGINE.replace(enable_chunked_prefill=False, max_num_batched_tokens=8)
    assert estimate_ttft(EngineState(engine, UNIT, (), [(7, 2, 0)]), new(8, 1)) == 3
    with pytest.raises(OptionError, match="may need 9 tokens in one step"):
        EngineState(engine, UNIT, (), [(8, 2, 0)])
    with pytest.raises(InvalidRequestError, match="may need 9 tokens in one step"):
        estimate_ttft(EngineState(engine, UNIT), new(9, 1))
    capped = engine.replace(long_prefill_token_threshold=4)
    assert estimate_ttft(EngineState(capped, UNIT), new(9, 1)) > 0


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("running", [(), ((4, 5, 2, 5), (4, 9, 1, 4))])
def test_a_replay_ahead_that_never_comes_to_it_ends(
    ahead: bool, running: tuple[tuple[int, ...], ...]
) -> None:
    """No state that is let in leads there, so blocks are taken away behind its back.

    A replay that went on for ever would hang the router that asks.
    """
    state = EngineState(ENGINE.replace(async_scheduling=ahead), UNIT, running)
    state._rules = state._rules._replace(blocks=5)
    assert state.first_token(new(20, 1))[0] >= 1
    with pytest.raises(SortedfError, match="never comes to this request"):
        state.first_token(new(21, 1))


def test_a_prompt_that_leaves_no_room() -> None:
    """As for a backlog: the engine would refuse it."""
    engine = ENGINE.replace(max_model_len=8)
    assert estimate_ttft(EngineState(engine, UNIT), new(7, 1)) == 1
    with pytest.raises(InvalidRequestError, match="no room for an output"):
        estimate_ttft(EngineState(engine, UNIT), new(8, 1))
