"""Errors of predictions, counted by hand; a trial that looks only back."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from finished import drawn_history

from sortedf.instances.traits import History, Traits
from sortedf.orders.one_bit import Proxies
from sortedf.serving.prediction_errors import errors_of, try_out
from sortedf.serving.predictor import PredictedLengths


def test_errors_are_those_of_a_plain_loop() -> None:
    """Relative errors, coverage, widths and the bit, counted by hand."""
    history = History(
        traits=Traits(prompt_tokens=np.array([1, 1, 1, 1])), output_tokens=np.array([10, 20, 40, 5])
    )
    found = PredictedLengths(
        predicted=np.array([12.0, 20.0, 20.0, 6.0]),
        lower=np.array([10, 15, 10, 6]),
        upper=np.array([15, 19, 60, 8]),
        long=np.array([False, True, False, False]),
        proxies=Proxies(15, 8, 30),
        coverage=0.9,
    )
    errors = errors_of(found, history)
    assert errors.n == 4
    assert errors.mean_relative == pytest.approx((0.2 + 0 + 0.5 + 0.2) / 4)
    assert errors.median_relative == pytest.approx(0.2)
    assert errors.mean_absolute == pytest.approx((2 + 0 + 20 + 1) / 4)
    assert errors.coverage == 0.5
    assert errors.width == 4.5
    assert errors.bit_accuracy == 0.75
    assert errors.bit_guess == 0.5
    assert errors.rank_correlation == pytest.approx(0.9486832980505138)  # with one tie
    same = replace(found, predicted=np.full(4, 9.0))
    assert math.isnan(errors_of(same, history).rank_correlation)


def test_a_trial_looks_only_back() -> None:
    """The later part is predicted from the earlier alone: what it holds changes no prediction."""
    history = drawn_history(10, 400)
    changed = history.output_tokens.copy()
    changed[300:] *= 3
    other = replace(history, output_tokens=changed)
    first, second = try_out(history), try_out(other)
    assert first.learnt == second.learnt == 300
    assert first.proxies == second.proxies
    assert first.errors.coverage > second.errors.coverage
    assert first.overhead.alone > 0
    assert first.overhead.shares(2.0) == (first.overhead.together / 2, first.overhead.alone / 2)
