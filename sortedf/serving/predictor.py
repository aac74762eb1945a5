"""A predictor of output lengths, trained on finished requests.

Quantile gradient boosting of the logarithm of outputs, made an interval that holds by split
conformal calibration, and a classifier of one bit. Source of the calibration: *Conformalized
Quantile Regression*, Romano, Patterson, Candes, arXiv 1905.03222 (NeurIPS 2019).
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import Fault, InputError, OptionError
from sortedf.instances.traits import FloatArray, History, IntArray, Traits
from sortedf.model import Instance
from sortedf.model.instance import MAX_TOKENS
from sortedf.orders.one_bit import Proxies
from sortedf.serving.features import Features
from sortedf.serving.knowledge import Knowledge, class_means

LEAVES = 50
"""Least share of the requests in a leaf of a tree is one in so many; from 5 to 30 requests."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]

LEAST_HISTORY = 40
"""Finished requests below which there is nothing to learn from."""

CALIBRATION = 0.25
"""The later share of a history that calibrates what the earlier part has trained."""

MOST_SEED = 2**32 - 1
"""What scikit-learn takes."""

_BOOSTING = {
    "learning_rate": 0.2,
    "max_iter": 40,  # a request by itself costs some microseconds a tree
    "max_leaf_nodes": 15,
    "early_stopping": False,  # it would draw its own random part of the history
}


@dataclass(frozen=True, kw_only=True)
class PredictedLengths:
    """What a predictor says of n requests.

    Parameters
    ----------
    predicted
        Median of each output, shape (n,), tokens.
    lower, upper
        Interval that holds the output with probability ``coverage``, shape (n,), tokens; the median
        lies in it.
    long
        The one bit of each output, shape (n,).
    proxies
        What the bit stands for.
    coverage
        Share of outputs that their intervals hold.
    """

    predicted: FloatArray
    lower: IntArray
    upper: IntArray
    long: BoolArray
    proxies: Proxies
    coverage: float

    def known(self, instance: Instance) -> Knowledge:
        """Give medians and intervals to the policies; no request of a workload is above M - s."""
        room = np.maximum(instance.kv_tokens - instance.prompt_tokens, 1)
        return Knowledge(
            kind="learned",
            predicted=np.minimum(self.predicted, room),
            lower=np.minimum(self.lower, room),
            upper=np.minimum(self.upper, room),
            parameters={"coverage": self.coverage},
        )

    def known_bit(self) -> Knowledge:
        """Give the one bit alone to the policies."""
        threshold, short, long = self.proxies
        return Knowledge(
            kind="one-bit",
            predicted=np.where(self.long, long, short),
            parameters={"threshold": threshold, "short": short, "long": long},
        )


class Predictor:
    """Predicts outputs of requests by their traits. Made by :func:`learn`.

    Attributes
    ----------
    widening
        By how much the calibration moves both ends of an interval outward, in logarithms.
    proxies
        Threshold of the one bit, and the tokens that it stands for.
    coverage
        Share of outputs that their intervals hold.
    """

    def __init__(
        self, features: Features, quantiles: list[Any], bit: Any, proxies: Proxies, coverage: float
    ) -> None:
        self.widening = 0.0
        self.proxies = proxies
        self.coverage = coverage
        self._features = features
        self._quantiles = quantiles
        self._bit = bit

    def predict(self, traits: Traits) -> PredictedLengths:
        """Predict requests, together; O(n) after about a millisecond."""
        matrix = self._features.matrix(traits)
        with _one_thread():
            low, middle, high = self._logarithms(matrix)
            long = self._bits(matrix)
        ends = low - self.widening, high + self.widening
        most = np.full(len(traits), float(MAX_TOKENS))
        if traits.limits is not None:
            most = np.minimum(most, traits.limits)
        # A negative widening can turn ends round; what they enclose then is more than asked for.
        lower = np.clip(np.floor(np.exp(np.minimum(*ends))), 1, most)
        upper = np.clip(np.ceil(np.exp(np.maximum(*ends))), 1, most)
        return PredictedLengths(
            predicted=np.clip(np.exp(middle), lower, upper),
            lower=lower.astype(np.int64),
            upper=upper.astype(np.int64),
            long=long,
            proxies=self.proxies,
            coverage=self.coverage,
        )

    def calibrate(self, calibration: History) -> None:
        """Set the widening by requests that have trained nothing; see :func:`learn`."""
        matrix = self._features.matrix(calibration.traits)
        with _one_thread():
            low, _, high = self._logarithms(matrix)
        outputs = np.log(calibration.output_tokens)
        scores = np.sort(np.maximum(low - outputs, outputs - high))
        self.widening = float(scores[calibration_rank(len(scores), self.coverage) - 1])

    def _logarithms(self, matrix: FloatArray) -> FloatArray:
        """Lower ends, medians and upper ends, sorted; shape (3, n)."""
        if not len(matrix):
            return np.empty((3, 0))
        found: FloatArray = np.sort([model.predict(matrix) for model in self._quantiles], axis=0)
        return found

    def _bits(self, matrix: FloatArray) -> BoolArray:
        if not len(matrix):
            return np.empty(0, np.bool_)
        if isinstance(self._bit, bool):
            return np.full(len(matrix), self._bit)
        return np.asarray(self._bit.predict(matrix), np.bool_)


def learn(
    history: History,
    *,
    coverage: float = 0.9,
    proxies: Proxies | None = None,
    seed: int = 0,
) -> Predictor:
    """Train a predictor on finished requests.

    The earlier three quarters train, the later quarter calibrates. Both ends of an interval are
    moved by the k-th smallest of the m scores max(low - y, y - high) of the calibration, y the
    logarithm of an output, k = ceil((m + 1) coverage). If the calibration's requests and a new one
    are exchangeable, the interval holds the new output with probability at least ``coverage`` (and,
    where no two scores are equal, below coverage + 1 / (m + 1)), whatever the learner is worth
    [Romano, Patterson, Candes 2019, theorem 1]. Rounding outward to whole tokens adds to that;
    cutting at a limit that outputs keep takes nothing away.

    Parameters
    ----------
    history
        At least 40 requests, and enough to calibrate: k <= m.
    coverage
        Share of outputs that intervals are to hold, above 0 and below 1.
    proxies
        Of the one bit: by default the threshold is the median output, and the proxies are the mean
        outputs of the requests of the calibration that are taken for short and for long, errors
        included. Those of the theory: :meth:`sortedf.orders.one_bit.Proxies.burst`,
        :func:`sortedf.orders.geometric_proxies`.
    seed
        Same history, same seed: same predictions.

    Raises
    ------
    OptionError
        For a coverage or a seed that is none, or where scikit-learn is not installed.
    InputError
        When the history is too short.

    Notes
    -----
    About a second for 20,000 requests without texts. There is no file of a predictor: history and
    seed make it again.
    """
    if not 0 < coverage < 1:
        raise OptionError(f"the coverage is {coverage}; it must be above 0 and below 1")
    if not 0 <= seed <= MOST_SEED:
        raise OptionError(f"the seed is {seed}; learning takes one from 0 to {MOST_SEED}")
    regressor, classifier = learners()
    _check_length(history, coverage)
    train, calibration = history.split(CALIBRATION)
    features = Features(train.traits)
    options: dict[str, Any] = {
        **_BOOSTING,
        "min_samples_leaf": min(max(len(train) // LEAVES, 5), 30),
        "random_state": seed,
        "categorical_features": features.categorical,
    }
    matrix, outputs = features.matrix(train.traits), np.log(train.output_tokens)
    given = (
        class_means(train.output_tokens.astype(np.float64))
        if proxies is None
        else proxies.checked()
    )
    long = train.output_tokens > given.threshold
    with _one_thread():
        quantiles = [
            regressor(loss="quantile", quantile=share, **options).fit(matrix, outputs)
            for share in ((1 - coverage) / 2, 0.5, (1 + coverage) / 2)
        ]
        # Where all are of one class there is nothing to tell apart.
        bit = classifier(**options).fit(matrix, long) if 0 < long.mean() < 1 else bool(long[0])
    predictor = Predictor(features, quantiles, bit, given, coverage)
    predictor.calibrate(calibration)
    if proxies is None:
        predictor.proxies = _means_of_taken(predictor, calibration)
    return predictor


def calibration_rank(m: int, coverage: float) -> int:
    """Which of m sorted scores the interval is widened by: ceil((m + 1) coverage), from 1."""
    # Products such as 10 * 0.9 may come out a hair above the whole number that they are.
    return math.ceil((m + 1) * coverage - 1e-9)


def _means_of_taken(predictor: Predictor, calibration: History) -> Proxies:
    """Mean output of those that are taken for short and for long, where there are both."""
    taken = predictor.predict(calibration.traits).long
    if taken.all() or not taken.any():
        return predictor.proxies
    short = float(calibration.output_tokens[~taken].mean())
    long = float(calibration.output_tokens[taken].mean())
    return Proxies(predictor.proxies.threshold, min(short, long), max(short, long))


def _check_length(history: History, coverage: float) -> None:
    n = len(history)
    # Of m scores the k-th must be there: k <= m from coverage / (1 - coverage) on.
    scores = math.ceil(coverage / (1 - coverage) - 1e-9)
    least = max(LEAST_HISTORY, math.ceil(scores / CALIBRATION))
    if n < least:
        noun = "request" if n == 1 else "requests"
        text = f"{n} finished {noun}; a predictor with coverage {coverage:g} needs at least {least}"
        raise InputError([Fault(history.source, None, text)])


def learners() -> tuple[Any, Any]:
    """Import scikit-learn's regressor and classifier; an :class:`OptionError` where it is not."""
    try:
        from sklearn import ensemble
    except ImportError as error:
        raise OptionError(
            f'learning lengths needs scikit-learn ({error}): pip install "sortedf[learn]"'
        ) from None
    return ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier


def _one_thread() -> AbstractContextManager[Any]:
    """Let scikit-learn use one thread: for its loops here, several cost many times the work."""
    limit: AbstractContextManager[Any] = _threads().limit(limits=1, user_api="openmp")
    return limit


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
