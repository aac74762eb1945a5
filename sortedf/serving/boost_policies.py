"""Policies by boosted arrival: UniBoost in its steps, least attained service, boost by volume.

Sources: UniBoost arXiv 2606.18431, gamma-Boost 2404.08826.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sortedf.kernels.standing import BOOST, Scoring
from sortedf.serving.gamma import boosted_arrivals
from sortedf.serving.online_policy import FloatArray, Given, OnlinePolicy, arrival
from sortedf.serving.side import WATERMARK, EngineSide

GAMMA_CLAMP = (0.001, 200.0)


def _prefill(given: Given) -> FloatArray:
    return given.prefill_seconds


def _boost(
    name: str, side: EngineSide, gamma: float, parameters: Mapping[str, Any], **scoring: Any
) -> OnlinePolicy:
    return OnlinePolicy(
        name=name,
        side=side,
        key=arrival,
        floor=_prefill,
        gamma=gamma,
        scoring=Scoring(kind=BOOST, **scoring),
        parameters={"gamma": gamma, **parameters},
    )


def uniboost_dist(*, gamma: float = 0.1) -> OnlinePolicy:
    """UniBoost's first step, DistBoost: boost orders who waits and who is preempted, apart."""
    return _boost("uniboost-dist", EngineSide(), gamma, {})


def uniboost_space(*, gamma: float = 0.1, hysteresis: float = 10.0) -> OnlinePolicy:
    """UniBoost's second step: one space of priorities, with hysteresis (seconds)."""
    side = EngineSide(displaces=True, hysteresis=hysteresis)
    return _boost("uniboost-space", side, gamma, {})


def uniboost_guard(
    *, gamma: float = 0.1, hysteresis: float = 10.0, guard: int = 256, reserve: bool = True
) -> OnlinePolicy:
    """UniBoost's third step, MemGuard: scores change at k, 2k, 4k, ... output tokens only.

    No request is evicted between its thresholds. With ``reserve`` memory is kept for each up to its
    next one, and who reaches it without room for the next stretch waits; without, blocks may run
    out before, and then the worst goes, protected or not.
    """
    return _guarded("uniboost-guard", gamma, hysteresis, guard, reserve, {})


def uniboost(
    *,
    gamma: float = 0.1,
    hysteresis: float = 10.0,
    guard: int = 256,
    reserve: bool = True,
    window: int = 500,
    every: int = 100,
    smoothing: float = 0.3,
    least_gamma: float = GAMMA_CLAMP[0],
    most_gamma: float = GAMMA_CLAMP[1],
) -> OnlinePolicy:
    """UniBoost whole: MemGuard, and gamma learnt from the tail of completed requests (gamma-Ada).

    After every so many completions gamma is taken from the slope between P95 and P99 of the last
    ``window`` latencies, smoothed in logarithms by that weight, clamped.
    """
    names = ("window", "every", "smoothing", "least_gamma", "most_gamma")
    values = (window, every, smoothing, least_gamma, most_gamma)
    learning = dict(zip(names, values, strict=True))
    return _guarded("uniboost", gamma, hysteresis, guard, reserve, learning)


def _guarded(
    name: str,
    gamma: float,
    hysteresis: float,
    guard: int,
    reserve: bool,
    learning: Mapping[str, Any],
) -> OnlinePolicy:
    side = EngineSide(displaces=True, hysteresis=hysteresis, future=reserve)
    parameters = {"guard": guard, **learning}
    made = _boost(name, side, gamma, parameters, guard=guard, **learning)
    return replace(made, foresees=lambda given: np.full(len(given.workload), guard))


def las(*, hysteresis: float = 0.0) -> OnlinePolicy:
    """Least attained service first: the boost with gamma 0."""
    return _boost("las", EngineSide(displaces=True, hysteresis=hysteresis), 0.0, {})


def boost_volume(*, gamma: float = 0.1) -> OnlinePolicy:
    """Arrival, boosted by predicted volume in seconds of the whole cache; never changes.

    SVF for requests that came at about the same time, first come for those far apart, 1 / gamma
    seconds being far. Derived for this project.
    """

    def key(given: Given) -> FloatArray:
        return boosted_arrivals(given.workload.arrivals, given.volume_seconds, gamma)

    side = EngineSide(watermark=WATERMARK)
    return OnlinePolicy(name="boost-volume", side=side, key=key, parameters={"gamma": gamma})
