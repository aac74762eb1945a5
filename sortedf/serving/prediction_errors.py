"""How far predictions are off, on later requests than they were learnt from; and what they cost."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sortedf.instances.traits import History, Traits
from sortedf.orders.one_bit import Proxies
from sortedf.serving.predictor import PredictedLengths, Predictor, learn, learners

HELD_OUT = 0.25
"""The later share of a history on which a predictor is tried."""

SINGLES = 30
"""Requests that are predicted one by one to tell what one costs."""

PAPER_SHARES = (0.0006, 0.0001)
"""What papers say of predictors of lengths: shares of the end-to-end time."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Predictions against outputs of n requests.

    Parameters
    ----------
    mean_relative, median_relative
        Mean and median of |predicted - output| / output.
    mean_absolute
        Mean of |predicted - output|, tokens.
    rank_correlation
        Spearman's, of predictions and outputs: 1 orders as outputs do, 0 as chance does; nan where
        all of either are equal.
    coverage
        Share of outputs within their intervals.
    width, relative_width
        Median of upper - lower, tokens, and as a share of the prediction.
    bit_accuracy
        Share of outputs whose one bit is right.
    bit_guess
        What always saying the more frequent one would reach.
    """

    n: int
    mean_relative: float
    median_relative: float
    mean_absolute: float
    rank_correlation: float
    coverage: float
    width: float
    relative_width: float
    bit_accuracy: float
    bit_guess: float


def errors_of(prediction: PredictedLengths, history: History) -> Errors:
    """Hold predictions against the outputs of the same requests."""
    outputs = history.output_tokens
    off = np.abs(prediction.predicted - outputs)
    long = outputs > prediction.proxies.threshold
    width = prediction.upper - prediction.lower
    return Errors(
        n=len(outputs),
        mean_relative=float((off / outputs).mean()),
        median_relative=float(np.median(off / outputs)),
        mean_absolute=float(off.mean()),
        rank_correlation=_rank_correlation(prediction, history),
        coverage=float(((prediction.lower <= outputs) & (outputs <= prediction.upper)).mean()),
        width=float(np.median(width)),
        relative_width=float(np.median(width / prediction.predicted)),
        bit_accuracy=float((prediction.long == long).mean()),
        bit_guess=float(max(long.mean(), 1 - long.mean())),
    )


def constant_errors(earlier: History, later: History) -> tuple[float, float]:
    """Mean and median relative error of saying the earlier median of all: what features beat."""
    off = np.abs(np.median(earlier.output_tokens) - later.output_tokens) / later.output_tokens
    return float(off.mean()), float(np.median(off))


@dataclass(frozen=True, kw_only=True)
class Overhead:
    """Seconds of one core that predicting takes.

    Parameters
    ----------
    learning
        To train, once.
    together
        For each request of many that are predicted together.
    alone
        For a request that is predicted by itself.
    """

    learning: float
    together: float
    alone: float

    def shares(self, mean_latency: float) -> tuple[float, float]:
        """Give together and alone as shares of a mean end-to-end time (seconds)."""
        return self.together / mean_latency, self.alone / mean_latency


def overhead_of(predictor: Predictor, traits: Traits, learning: float) -> Overhead:
    """Predict requests together, and some alone, for the time that it takes."""
    singles = [traits.select(slice(i, i + 1)) for i in range(min(SINGLES, len(traits)))]
    predictor.predict(traits)  # what is done once only
    together = _seconds(lambda: predictor.predict(traits)) / len(traits)
    alone = _seconds(lambda: [predictor.predict(one) for one in singles]) / len(singles)
    return Overhead(learning=learning, together=together, alone=alone)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A predictor that has learnt the earlier part of a history, on the later part.

    Parameters
    ----------
    learnt
        Requests of the earlier part.
    traits
        What it goes by.
    errors
        On the later part.
    proxies
        Of its one bit.
    constant
        Mean and median relative error of the earlier median, said of all.
    overhead
        What it takes.
    """

    learnt: int
    traits: list[str]
    errors: Errors
    proxies: Proxies
    constant: tuple[float, float]
    overhead: Overhead

    def to_dict(self) -> dict[str, Any]:
        """Give everything in values of JSON; what is no number is ``None``."""
        found = asdict(self) | {"proxies": self.proxies._asdict()}
        if np.isnan(self.errors.rank_correlation):
            found["errors"]["rank_correlation"] = None
        return found


def try_out(history: History, *, share: float = HELD_OUT, **options: Any) -> Trial:
    """Learn from the earlier requests of a history and predict the later ``share`` of them.

    Parameters
    ----------
    options
        As :func:`sortedf.serving.predictor.learn` takes them.

    Raises
    ------
    InputError, OptionError
        As :func:`sortedf.serving.predictor.learn`, of the earlier part.
    """
    earlier, later = history.split(share)
    learners()  # importing is not learning
    begin = time.process_time()
    predictor = learn(earlier, **options)
    learning = time.process_time() - begin
    return Trial(
        learnt=len(earlier),
        traits=history.traits.names,
        errors=errors_of(predictor.predict(later.traits), later),
        proxies=predictor.proxies,
        constant=constant_errors(earlier, later),
        overhead=overhead_of(predictor, later.traits, learning),
    )


def _rank_correlation(prediction: PredictedLengths, history: History) -> float:
    from scipy.stats import spearmanr

    predicted, outputs = prediction.predicted, history.output_tokens
    if np.ptp(predicted) == 0 or np.ptp(outputs) == 0:
        return float("nan")
    return float(spearmanr(predicted, outputs).statistic)


def _seconds(work: Any) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin
