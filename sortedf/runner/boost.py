"""UniBoost in a live engine: scores that change with service, and gamma learnt from the tail.

The definitions are those of :mod:`sortedf.serving`, which docs/serving.md has in words (arXiv
2606.18431, 2404.08826): score arrival - b_gamma(work), least first; work in engine seconds, no less
than the prompt takes alone, brought up to date at k, 2k, 4k, ... output tokens only. The compiled
engine serves a workload that it knows; here requests come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.kernels.step_terms import (
    CHUNK_SQUARED,
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    PREFILL_WORK,
    STEPS,
)
from sortedf.serving.alone import prompt_seconds
from sortedf.serving.gamma import boosted_arrivals, next_gamma
from sortedf.serving.online_policy import OnlinePolicy

FloatArray: TypeAlias = npt.NDArray[np.float64]


@dataclass(eq=False, slots=True)
class Standing:
    """What a request's score comes from; seconds, and output tokens for the threshold.

    Parameters
    ----------
    arrival
        On the clock of the scores.
    floor
        Seconds that its prompt takes alone.
    work
        That the score is of: no less than the floor.
    attained
        Engine seconds in service, its share of each step's time.
    threshold
        Output tokens at which the work is next brought up to date.
    score
        Least first.
    """

    arrival: float
    floor: float
    work: float
    attained: float
    threshold: int
    score: float


class Boosted(Protocol):
    """A request with a standing: ``priority`` is its score, ``predicted_tokens`` its threshold."""

    standing: Standing
    priority: float
    predicted_tokens: int


class Boost:
    """Gives scores to requests, and learns gamma.

    Parameters
    ----------
    policy
        ``uniboost`` or ``uniboost-guard``, as :func:`sortedf.serving.policies.policy` makes them.
    chunk
        Most tokens of a prompt in a step.
    seconds
        Per unit of each term of a step, shape (TERMS,); may be changed in place as more is known.
    """

    def __init__(self, policy: OnlinePolicy, chunk: int, seconds: FloatArray) -> None:
        self.scoring = policy.scoring
        self.hysteresis = policy.side.hysteresis
        self.gamma = policy.gamma
        self.seconds = seconds
        self._chunk = chunk
        self._recent = np.zeros(policy.scoring.window)
        self._ended = 0

    def arrive(self, request: Boosted, prompt_tokens: int, arrival: float) -> None:
        """Give a request its first standing. O(1)."""
        floor = float(prompt_seconds(np.array([prompt_tokens]), self._chunk, self.seconds)[0])
        request.standing = Standing(arrival, floor, floor, 0.0, self.scoring.guard, 0.0)
        request.predicted_tokens = self.scoring.guard
        self.rescore((request,))

    def pass_threshold(self, request: Boosted) -> None:
        """Bring the work of a request up to date, which has come to its threshold. O(1)."""
        standing = request.standing
        standing.threshold *= 2
        standing.work = max(standing.attained, standing.floor)
        request.predicted_tokens = standing.threshold
        self.rescore((request,))

    def rescore(self, requests: Iterable[Boosted]) -> None:
        """Bring scores up to date with work and gamma. O(requests)."""
        listed = list(requests)
        arrivals = np.array([request.standing.arrival for request in listed])
        work = np.array([request.standing.work for request in listed])
        scores = boosted_arrivals(arrivals, work, self.gamma).tolist()
        for request, score in zip(listed, scores, strict=True):
            request.standing.score = request.priority = score

    def end(self, latency: float) -> bool:
        """Note the latency of a request that has completed; whether gamma is to be learnt anew."""
        window, every = self.scoring.window, self.scoring.every
        if window == 0:
            return False
        self._recent[self._ended % window] = latency
        self._ended += 1
        return self._ended >= window and self._ended % every == 0

    def learn(self) -> None:
        """Learn gamma; all scores are to be brought up to date then. O(window)."""
        self.gamma = next_gamma(self.scoring, self._recent, self.gamma)

    def shares(self, tokens: FloatArray, before: FloatArray) -> FloatArray:
        """Give each request its share of a step's time, shape (n,), seconds.

        What its own tokens cost, and an equal part of what the step costs besides.

        Parameters
        ----------
        tokens
            Of each in the step, shape (n,); none of them 0.
        before
            Tokens of each that were computed before, shape (n,).
        """
        s, n = self.seconds, tokens
        part = s[STEPS] / max(len(n), 1)
        own = s[DECODE_TOKENS] + s[CONTEXT] * before + s[CONTEXT_SQUARED] * before * before
        chunk = np.flatnonzero(n != 1)
        if len(chunk):
            n, before = n[chunk], before[chunk]
            own[chunk] = (
                s[PREFILL_TOKENS] * n
                + s[PREFILL_WORK] * (n * before + n * (n + 1) / 2)
                + s[CHUNK_SQUARED] * n * n
            )
        shares: FloatArray = part + own
        return shares
