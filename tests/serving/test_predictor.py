"""Learnt lengths: intervals that hold, the same predictions for the same history, honest errors."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from finished import drawn_history, of_two_kinds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom, binom
from small_workloads import MODEL, small

from sortedf.errors import InputError, OptionError
from sortedf.instances.traits import History, Traits, history_of, traits_of
from sortedf.model import Instance
from sortedf.orders.one_bit import Proxies
from sortedf.serving.features import Features
from sortedf.serving.front import simulate
from sortedf.serving.policies import POLICIES
from sortedf.serving.prediction_errors import try_out
from sortedf.serving.predictor import CALIBRATION, PredictedLengths, calibration_rank, learn

SEEDS = st.integers(0, 2**31)
RARE = 1e-7
"""A probability that no test of an exact law meets by chance."""


def covered(found: PredictedLengths, outputs: np.ndarray) -> int:
    """Count the outputs that lie in their intervals."""
    return int(((found.lower <= outputs) & (outputs <= found.upper)).sum())


@settings(max_examples=12)
@given(SEEDS, st.sampled_from([0.5, 0.8, 0.9]), st.booleans())
def test_coverage_follows_its_law(seed: int, coverage: float, informative: bool) -> None:
    """As many of k new requests are covered as the beta-binomial law of the rank says.

    They are exchangeable with the m of the calibration; whether prompts tell anything or not.
    """
    history, new = (
        drawn_history(seed + part, n, informative=informative)
        for part, n in ((0, 240), (2**32, 400))
    )
    found = learn(history, coverage=coverage).predict(new.traits)
    m = round(CALIBRATION * len(history))
    rank = calibration_rank(m, coverage)
    law = betabinom(len(new), rank, m + 1 - rank)
    count = covered(found, new.output_tokens)
    assert law.cdf(count) > RARE
    assert law.sf(count - 1) > RARE  # outputs are long, so that rounding outward hardly matters


def test_coverage_of_single_requests() -> None:
    """With calibration and request drawn anew, a request is covered as often as asked.

    By the binomial law, at least so often and not much more, though the learner has seen quite
    another world.
    """
    predictor = learn(drawn_history(1, 200, noise=0.1), coverage=0.8)
    times, hits = 400, 0
    for seed in range(times):
        world = drawn_history(1_000 + seed, 20, noise=0.9)
        predictor.calibrate(world.select(slice(19)))
        one = world.select(slice(19, None))
        hits += covered(predictor.predict(one.traits), one.output_tokens)
    assert binom.cdf(hits, times, 0.8) > RARE
    assert binom.sf(hits - 1, times, 0.8 + 1 / 20) > RARE


@given(st.integers(1, 500), st.integers(1, 99))
def test_rank_of_the_calibration(m: int, percent: int) -> None:
    """It is ceil((m + 1) coverage), in exact arithmetic."""
    assert calibration_rank(m, percent / 100) == math.ceil((m + 1) * Fraction(percent, 100))


@settings(max_examples=8)
@given(SEEDS)
def test_widening_is_the_least(seed: int) -> None:
    """So many of the calibration as its rank says are covered, and fewer with a little less."""
    history = drawn_history(seed, 200)
    predictor = learn(history, coverage=0.9)
    _, calibration = history.split(CALIBRATION)
    rank = calibration_rank(len(calibration), 0.9)
    outputs = calibration.output_tokens
    assert covered(predictor.predict(calibration.traits), outputs) >= rank
    predictor.widening -= 0.05
    assert covered(predictor.predict(calibration.traits), outputs) < rank


@settings(max_examples=6)
@given(SEEDS, st.integers(40, 120))
def test_same_history_same_predictions(seed: int, n: int) -> None:
    """Nothing but history and seed decides; and requests are predicted each for itself."""
    history, new = drawn_history(seed, n), drawn_history(seed + 1, 30)
    first, second = (learn(history, seed=seed).predict(new.traits) for _ in range(2))
    alone = [learn(history, seed=seed).predict(new.traits.select(slice(i, i + 1))) for i in (0, 7)]
    for name in ("predicted", "lower", "upper", "long"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
        one = [getattr(found, name)[0] for found in alone]
        np.testing.assert_array_equal(one, getattr(first, name)[[0, 7]])
    assert first.proxies == second.proxies
    assert (first.lower <= first.predicted).all()
    assert (first.predicted <= first.upper).all()
    assert (first.lower >= 1).all()


@pytest.mark.parametrize("what", ["columns", "texts", "hours"])
def test_what_is_known_is_learnt(what: str) -> None:
    """A column, the words of a prompt or the hour tell two kinds apart; prompt lengths do not."""
    history = of_two_kinds(3, 600)
    kept = Traits(
        prompt_tokens=history.traits.prompt_tokens, **{what: getattr(history.traits, what)}
    )
    trial = try_out(replace(history, traits=kept))
    blind = try_out(replace(history, traits=Traits(prompt_tokens=kept.prompt_tokens)))
    assert trial.errors.median_relative < 0.15 < blind.errors.median_relative
    assert trial.errors.bit_accuracy > 0.95  # the median lies within one of the kinds
    assert trial.errors.rank_correlation > 0.7 > 0.2 > blind.errors.rank_correlation
    assert blind.errors.bit_accuracy < 0.7
    assert trial.proxies.short == pytest.approx(50, rel=0.1)
    assert trial.proxies.long == pytest.approx(800, rel=0.1)
    assert trial.constant == pytest.approx(blind.constant)


def test_unseen_kinds_and_missing_values() -> None:
    """A kind that was never met counts as not known; so does a column that is not there."""
    history = of_two_kinds(4, 300)
    predictor = learn(history)
    asked = history.traits.select(slice(3))
    unseen = predictor.predict(replace(asked, columns={"task": ["poem", "poem", "poem"]}))
    unknown = predictor.predict(replace(asked, columns={"task": [None, "", None]}))
    absent = predictor.predict(replace(asked, columns={}))
    for found in (unknown, absent):
        np.testing.assert_array_equal(unseen.predicted, found.predicted)
        np.testing.assert_array_equal(unseen.upper, found.upper)
    bare = predictor.predict(Traits(prompt_tokens=asked.prompt_tokens))
    assert (bare.upper >= bare.lower).all()
    assert len(predictor.predict(asked.select(slice(0))).predicted) == 0


def test_features() -> None:
    """Kinds are numbered from the most frequent, numbers taken as they are; else nan."""
    columns: dict[str, list[Any]] = {
        "kind": ["b", "a", "b", None],
        "size": ["1", 2.5, "", "7"],
        "none": [None] * 4,
    }
    traits = Traits(prompt_tokens=np.array([4, 5, 6, 7]), columns=columns, texts=["1 a?\n"] * 4)
    features = Features(traits)
    nan = np.nan
    expected = [[4, 0, 1, nan], [5, 1, 2.5, nan], [6, 0, nan, nan], [7, nan, 7, nan]]
    matrix = features.matrix(traits)
    np.testing.assert_array_equal(matrix[:, :4], expected)
    np.testing.assert_array_equal(matrix[0, 4:9], [5, 2, 2, 1, 1])
    assert features.categorical[:4] == [False, True, False, False]
    limited = Traits(prompt_tokens=np.array([4, 5]), limits=np.array([9.0, np.inf]))
    np.testing.assert_array_equal(Features(limited).matrix(limited), [[4, 9], [5, nan]])
    new = Traits(
        prompt_tokens=np.array([8]), columns={"kind": ["c"], "size": ["big"], "none": ["x"]}
    )
    np.testing.assert_array_equal(features.matrix(new)[0, :4], [8, nan, nan, nan])


def test_numbers_and_rare_kinds() -> None:
    """A column of numbers is split by size; of many kinds the rare ones count as unknown."""
    rng = np.random.default_rng(0)
    size = rng.integers(1, 1_000, 400)
    traits = Traits(
        prompt_tokens=np.full(400, 9),
        columns={"size": [str(value) for value in size], "user": [f"u{i}" for i in range(400)]},
    )
    predictor = learn(History(traits=traits, output_tokens=size))
    asked = Traits(
        prompt_tokens=np.full(3, 9), columns={"size": [50, "500", 950.0], "user": [None] * 3}
    )
    np.testing.assert_allclose(predictor.predict(asked).predicted, [50, 500, 950], rtol=0.2)


def test_limits_are_kept() -> None:
    """No prediction and no bound is above what a request may generate."""
    history = drawn_history(5, 200)
    limits = np.where(np.arange(200) % 2, 70.0, np.inf)
    limited = replace(history.traits, limits=limits)
    outputs = np.minimum(history.output_tokens, limits).astype(np.int64)
    found = learn(History(traits=limited, output_tokens=outputs)).predict(limited)
    assert (found.upper <= limits).all()
    assert (found.predicted <= limits).all()
    assert (found.predicted[::2] > 70).any()


def test_the_bit_and_its_proxies() -> None:
    """Proxies are means of the requests taken for each class, or those that are given."""
    history = drawn_history(6, 400)
    predictor = learn(history)
    _, calibration = history.split(CALIBRATION)
    taken = predictor.predict(calibration.traits).long
    outputs = calibration.output_tokens
    threshold, short, long = predictor.proxies
    assert threshold == np.median(history.split(CALIBRATION)[0].output_tokens)
    assert short == pytest.approx(outputs[~taken].mean())
    assert long == pytest.approx(outputs[taken].mean())
    burst = Proxies.burst(20_000)
    found = learn(history, proxies=burst).predict(calibration.traits)
    known = found.known_bit()
    assert known.kind == "one-bit"
    assert (known.outputs == burst.long).all()  # as all outputs are above its threshold
    some = learn(history, proxies=Proxies(5_000, 3, 99)).predict(calibration.traits)
    assert 0 < some.long.mean() < 1
    np.testing.assert_array_equal(some.known_bit().outputs, np.where(some.long, 99, 3))
    alike = History(traits=history.traits, output_tokens=np.full(400, 7))
    found = learn(alike).predict(calibration.traits)
    assert not found.long.any()
    np.testing.assert_allclose(found.predicted, 7)
    assert (found.known_bit().outputs == 7).all()


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_runs_on_learnt_lengths(name: str) -> None:
    """All requests are served, however wrong the predictions are."""
    workload, engine = small(7, late=False)
    past, _ = small(8, n=80)
    found = learn(history_of(past.instance)).predict(traits_of(workload.instance))
    known = found.known_bit() if name == "svf-1bit" else found.known(workload.instance)
    served = simulate(workload, name, engine, MODEL, known=known)
    assert not np.isnan(served.completion).any()
    assert ("one-bit" if name == "svf-1bit" else "learned (coverage 0.9)") in served.describe()


def test_what_is_known_fits_the_budget() -> None:
    """Predictions given to the policies are at most M - s."""
    history = drawn_history(9, 100)
    tight = Instance([900, 10], [5, 5], 1_000)
    known = learn(history).predict(traits_of(tight)).known(tight)
    lower, upper = known.bounds()
    assert (np.maximum(known.outputs, upper) + tight.prompt_tokens <= 1_000).all()
    assert (lower <= upper).all()


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little history, a coverage that is none, and no scikit-learn: a line each."""
    with pytest.raises(InputError, match=r"^drawn: 39 finished requests; .* needs at least 40$"):
        learn(drawn_history(0, 39))
    with pytest.raises(InputError, match="needs at least 396"):
        learn(drawn_history(0, 395), coverage=0.99)
    learn(drawn_history(0, 396), coverage=0.99)
    for coverage in (0, 1, float("nan")):
        with pytest.raises(OptionError, match="coverage is"):
            learn(drawn_history(0, 40), coverage=coverage)
    with pytest.raises(OptionError, match="later share"):
        drawn_history(0, 40).split(1.0)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(OptionError, match=r'pip install "sortedf\[learn\]"'):
        learn(drawn_history(0, 40))


def test_traits_are_of_all_requests() -> None:
    """A trait of another number of requests is refused; so are outputs."""
    with pytest.raises(OptionError, match="of all 2 requests"):
        Traits(prompt_tokens=np.array([1, 2]), texts=["a"])
    two = Traits(prompt_tokens=np.array([1, 2]))
    with pytest.raises(OptionError, match="outputs must be 2"):
        History(traits=two, output_tokens=np.array([1]))
    with pytest.raises(OptionError, match="at least 1"):
        History(traits=two, output_tokens=np.array([1, 0]))


def test_workloads_take_halves() -> None:
    """A workload's history has its requests in order of arrival."""
    workload, _ = small(11)
    history = history_of(workload.instance)
    earlier, later = history.split(0.25)
    assert (len(earlier), len(later)) == (30, 10)
    both = np.concatenate([earlier.output_tokens, later.output_tokens])
    np.testing.assert_array_equal(both, workload.instance.output_tokens)
