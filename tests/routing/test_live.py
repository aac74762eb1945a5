"""Engines that take requests while they run, against the replay that knows them all before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_fleets import instance, workload

import sortedf
from sortedf.engine import EngineSettings, EngineState, StepTimeModel, estimate_ttft, replay
from sortedf.errors import InfeasibleError, OptionError
from sortedf.routing.lengths import LengthModel, as_predicted, log_normal
from sortedf.routing.live import LiveEngine
from sortedf.routing.workload import RoutedWorkload


def served(w: RoutedWorkload, asynchronous: bool) -> tuple[LiveEngine, list[float]]:
    """Send all of a workload to one engine; gives it at the end, and the estimates of each."""
    one = instance("one", 200, 50.0, asynchronous=asynchronous)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    estimates = []
    for j in range(len(w)):
        engine.advance(w.arrivals[j])
        prompt, output = int(w.prompt_tokens[j]), int(w.output_tokens[j, 0])
        estimates.append(engine.ttft(prompt, float(output)))
        engine.send(prompt, output, float(output), float(w.arrivals[j]))
    engine.advance(1e9)
    return engine, estimates


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_live_engine_does_what_the_replay_of_all_does(seed: int, asynchronous: bool) -> None:
    # More requests than the room at first, so that those who are gone are left out on the way.
    w = workload(700, 1, seed, rate=18.0)
    engine, _ = served(w, asynchronous)
    one = instance("one", 200, 50.0, asynchronous=asynchronous)
    backlog = sortedf.Instance(w.prompt_tokens, w.output_tokens[:, 0], 200)
    truth = replay(backlog, one.settings, one.step_time, arrivals=w.arrivals, by="steps")
    ends = [engine.outcome(ticket) for ticket in range(len(w))]
    assert [end.first_token for end in ends] == truth.first_token.tolist()
    assert [end.completion for end in ends] == truth.completion.tolist()
    assert [end.preemptions for end in ends] == truth.preemptions.tolist()
    assert truth.preemptions.sum() > 0
    assert engine._all.requests.shape[0] < 700  # so its size is that of those who are there


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_an_estimate_with_exact_lengths_is_the_replay_without_whoever_comes_later(
    seed: int, asynchronous: bool
) -> None:
    w = workload(120, 1, seed, rate=18.0)
    one = instance("one", 200, 50.0, asynchronous=asynchronous)
    _, estimates = served(w, asynchronous)
    for j in range(len(w)):
        backlog = sortedf.Instance(w.prompt_tokens[: j + 1], w.output_tokens[: j + 1, 0], 200)
        arrivals = w.arrivals[: j + 1]
        truth = replay(backlog, one.settings, one.step_time, arrivals=arrivals, by="steps")
        assert estimates[j] == pytest.approx(truth.ttft[j], abs=1e-9)


def test_the_state_is_one_that_the_estimator_of_engines_takes() -> None:
    w = workload(60, 1, 5, rate=25.0, sigma=0.6)
    one = instance("one", 200, 50.0)
    engine = LiveEngine(one.settings, one.step_time, log_normal(0.6))
    for j in range(len(w)):
        engine.advance(w.arrivals[j])
        rows, n_running = engine.live()
        state = EngineState(
            one.settings,
            one.step_time,
            rows[:n_running],
            rows[n_running:, :3],
            busy=engine.busy,
        )
        asked = sortedf.Request("new", int(w.prompt_tokens[j]), 7)
        found = engine.ttft(asked.prompt_tokens, 7.0)
        assert found == pytest.approx(estimate_ttft(state, asked), abs=1e-12)
        engine.send(
            asked.prompt_tokens, int(w.output_tokens[j, 0]), w.predicted[j, 0], w.arrivals[j]
        )


def test_a_request_is_taken_back_and_the_others_go_on_as_if_it_had_left() -> None:
    one = instance("one", 400, 50.0)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    engine.advance(0.0)
    tickets = [engine.send(20, 20, 20.0, 0.0) for _ in range(3)]
    engine.advance(0.08)
    free = engine.free_share
    assert engine.withdraw(tickets[1])
    assert engine.free_share > free
    assert engine.n_present == 2
    assert not engine.withdraw(tickets[1])
    engine.advance(1e9)
    assert not engine.withdraw(tickets[0])
    assert engine.free_share == 1.0
    ends = [engine.outcome(ticket).completion for ticket in tickets]
    assert np.isnan(ends[1])
    assert np.isfinite([ends[0], ends[2]]).all()


def test_who_waits_beyond_its_deadline_is_told() -> None:
    one = instance("one", 200, 50.0, seats=1)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    engine.advance(0.0)
    engine.send(20, 30, 30.0, 0.0, deadline=0.05)
    late = engine.send(20, 30, 30.0, 0.0, deadline=0.05)
    engine.send(20, 30, 30.0, 0.0)
    engine.advance(0.04)
    assert engine.late() == []
    engine.advance(0.06)
    assert engine.late() == [late]


def test_what_is_seen_sets_a_replay_right() -> None:
    one = instance("one", 400, 50.0, seats=1)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    engine.advance(0.0)
    first, second = (engine.send(20, 40, 40.0, 0.0) for _ in range(2))
    engine.advance(0.05)
    assert engine.note_progress(first, 30)
    rows, n_running = engine.live()
    assert rows[:n_running].tolist() == [[20, 40, 30, 49]]
    assert not engine.note_progress(second, 3)  # there is one seat
    assert engine.withdraw(first)
    assert engine.note_progress(second, 3)
    rows, n_running = engine.live()
    assert rows[:n_running].tolist() == [[20, 40, 3, 22]]
    engine.advance(1e9)
    assert engine.free_share == 1.0
    assert np.isfinite(engine.outcome(second).completion)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "back", "note", "go"]), st.integers(0, 40)), max_size=60
    )
)
def test_whatever_is_done_no_block_is_lost(acts: list[tuple[str, int]]) -> None:
    one = instance("one", 120, 50.0, seats=4)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    engine.advance(0.0)
    sent: list[int] = []
    for act, number in acts:
        if act == "send":
            sent.append(engine.send(number + 1, 40, 40.0, engine.now))
        elif act == "go":
            engine.advance(engine.now + 0.01 * number)
        elif sent and act == "back":
            engine.withdraw(sent[number % len(sent)])
        elif sent:
            engine.note_progress(sent[number % len(sent)], number % 39 + 1)
        rows, n_running = engine.live()
        held = int((-(-rows[:n_running, 3] // 4)).sum())
        assert round((1 - engine.free_share) * 30) == held
    engine.advance(1e9)
    assert engine.n_present == 0
    assert engine.free_share == 1.0


def test_engines_that_the_replay_ahead_does_not_know_are_refused() -> None:
    model = StepTimeModel(fixed=0.01)
    for changed in ({"policy": "priority"}, {"enable_prefix_caching": True}):
        with pytest.raises(OptionError):
            LiveEngine(EngineSettings.for_budget(160, **changed), model, as_predicted())


def test_a_request_that_never_fits_is_refused() -> None:
    one = instance("one", 40, 50.0)
    engine = LiveEngine(one.settings, one.step_time, as_predicted())
    engine.advance(0.0)
    with pytest.raises(InfeasibleError):
        engine.send(30, 20, 20.0, 0.0)


def test_lengths_are_factors_above_0() -> None:
    with pytest.raises(OptionError):
        LengthModel("bad", np.zeros(193))
