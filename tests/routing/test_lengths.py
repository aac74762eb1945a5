"""What is foreseen of outputs, against samples and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf.errors import OptionError
from sortedf.kernels.replay_live import foreseen_output
from sortedf.routing.lengths import as_predicted, learnt, log_normal


def test_as_predicted_leaves_every_old_request_one_token_from_done() -> None:
    longer = as_predicted().longer
    assert [foreseen_output(100.0, g, longer) for g in (0, 50, 99, 100, 500)] == [
        100,
        100,
        100,
        101,
        501,
    ]


@pytest.mark.parametrize("sigma", [0.2, 0.5, 1.0])
def test_log_normal_is_the_mean_of_those_that_are_longer(sigma: float) -> None:
    rng = np.random.default_rng(1)
    outputs = 400 * np.exp(sigma * rng.standard_normal(400_000))
    longer = log_normal(sigma).longer
    for sampled in (0, 200, 400, 700):
        left = outputs[outputs > sampled]
        expected = left.mean()
        # Of those that may be met; the grid is a sixteenth wide in the logarithm.
        assert foreseen_output(400.0, sampled, longer) == pytest.approx(expected, rel=0.01)


def test_an_outlived_prediction_leaves_more_than_a_token() -> None:
    longer = log_normal(0.4).longer
    assert foreseen_output(100.0, 300, longer) > 310


@given(st.floats(0.1, 1e6), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 0.7, 2.0]))
def test_more_is_foreseen_than_there_is(predicted: float, sampled: int, sigma: float) -> None:
    assert foreseen_output(predicted, sampled, log_normal(sigma).longer) > sampled


def test_what_is_learnt_is_the_mean_of_the_history_that_is_longer() -> None:
    longer = learnt([0.5, 1.0, 1.5, 2.0]).longer
    assert foreseen_output(1000.0, 0, longer) == 1250
    assert foreseen_output(1000.0, 1200, longer) == pytest.approx(1750, abs=5)
    # Longer than anything before: an eighth more.
    assert foreseen_output(1000.0, 4000, longer) == pytest.approx(4500, rel=0.01)


def test_learnt_comes_to_what_the_history_is_drawn_from() -> None:
    ratios = np.exp(0.5 * np.random.default_rng(0).standard_normal(200_000))
    known, found = log_normal(0.5).longer, learnt(ratios).longer
    middle = slice(70, 115)  # logarithms from -1.6 to 1.2
    assert found[middle] == pytest.approx(known[middle], rel=0.02)


@pytest.mark.parametrize("sigma", [-1.0, float("nan"), float("inf")])
def test_a_deviation_is_a_number(sigma: float) -> None:
    with pytest.raises(OptionError):
        log_normal(sigma)


@pytest.mark.parametrize("history", [[], [0.0], [-1.0]])
def test_a_history_is_of_ratios(history: list[float]) -> None:
    with pytest.raises(OptionError):
        learnt(history)
