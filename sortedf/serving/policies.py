"""The policies by name, each a small function of its parameters.

Sources: SVF arXiv 2606.22327; MC-SF 2502.07115; Sorted-F 2508.06133; A_min 2508.14544; UniBoost
2606.18431 and gamma-Boost 2404.08826; LTR and TRAIL as these compare with them. What their texts
leave open is derived for this project; docs/serving.md says what.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.standing import BOOST, BOUND, FIXED, RANKED, REMAINING, Scoring
from sortedf.orders.one_bit import Proxies
from sortedf.serving.gamma import boosted_arrivals
from sortedf.serving.knowledge import Knowledge, one_bit
from sortedf.serving.online_policy import (
    FloatArray,
    Given,
    IntArray,
    OnlinePolicy,
    Replanning,
)
from sortedf.serving.option_ranges import check_ranges
from sortedf.serving.side import EngineSide, Eviction, Victim
from sortedf.serving.workloads import Workload

WATERMARK = 0.03
GAMMA_CLAMP = (0.001, 200.0)


def _arrival(given: Given) -> FloatArray:
    return np.asarray(given.workload.arrivals)


def _predicted(given: Given) -> FloatArray:
    return given.known.outputs


def _volume(given: Given) -> FloatArray:
    return given.volumes


def _prefill(given: Given) -> FloatArray:
    return given.prefill_seconds


def fcfs() -> OnlinePolicy:
    """First come, first served; the tail of running is preempted: vLLM's own."""
    return OnlinePolicy(name="fcfs", side=EngineSide(victim=Victim.TAIL), key=_arrival)


def sjf() -> OnlinePolicy:
    """Least predicted output first; running requests stay."""
    return OnlinePolicy(name="sjf", side=EngineSide(), key=_predicted)


def mcsf() -> OnlinePolicy:
    """Least predicted output first, admitted only with room at every later step (MC-SF)."""
    return OnlinePolicy(name="mcsf", side=EngineSide(future=True), key=_predicted)


def svf() -> OnlinePolicy:
    """Least predicted volume first, strictly, with room at every later step (SVF)."""
    return OnlinePolicy(name="svf", side=EngineSide(future=True), key=_volume)


def svf_one_bit(*, proxies: Proxies | None = None) -> OnlinePolicy:
    """SVF by the proxy volume of short and long outputs (1-bit SVF).

    ``proxies``: threshold, and output tokens of the short and the long; by default the predictions'
    median and the means on both sides. Of what is known more than the bit is not looked at.
    """

    def bit(workload: Workload, known: Knowledge) -> Knowledge:
        if known.kind == "one-bit" and proxies is None:
            return known
        return one_bit(workload.instance, proxies, predicted=known.outputs)

    return OnlinePolicy(name="svf-1bit", side=EngineSide(future=True), key=_volume, knows=bit)


def svf_two_resources() -> OnlinePolicy:
    """Least seconds first of cache and compute: volume / M full steps + prefill of the prompt.

    Derived for this project.
    """

    def key(given: Given) -> FloatArray:
        return given.volume_seconds + given.prefill_seconds

    return OnlinePolicy(name="svf-2", side=EngineSide(future=True), key=key)


def srpt() -> OnlinePolicy:
    """Least predicted remaining output first; evicts running requests, which recompute.

    The key does not count what is to be computed again. A request that outlives its prediction has
    nothing left and goes first.
    """
    return OnlinePolicy(
        name="srpt",
        side=EngineSide(displaces=True),
        key=_predicted,
        scoring=Scoring(kind=REMAINING),
    )


def srpt_repaired(*, weight: float = 0.5) -> OnlinePolicy:
    """SRPT whose key counts the known tokens not in cache, by ``weight``; with a watermark.

    Derived for this project.
    """
    return OnlinePolicy(
        name="srpt-repaired",
        side=EngineSide(displaces=True, watermark=WATERMARK),
        key=_predicted,
        scoring=Scoring(kind=REMAINING, weight=weight),
        parameters={"weight": weight},
    )


def ltr(*, patience: float = 30.0, quantum: int = 32) -> OnlinePolicy:
    """Least predicted output first, running requests included; who starves is promoted (LTR).

    After ``patience`` seconds of waiting a request goes before all that are not promoted, for
    ``quantum`` output tokens in which nobody evicts it for its rank.
    """
    return OnlinePolicy(
        name="ltr",
        side=EngineSide(displaces=True),
        key=_predicted,
        scoring=Scoring(kind=FIXED, patience=patience, quantum=quantum),
        parameters={"patience": patience, "quantum": quantum},
    )


def trail(*, share: float = 0.8) -> OnlinePolicy:
    """SRPT that does not evict after a share C of the predicted output (TRAIL)."""
    return OnlinePolicy(
        name="trail",
        side=EngineSide(displaces=True),
        key=_predicted,
        scoring=Scoring(kind=REMAINING, share=share),
        parameters={"share": share},
    )


def _boost(
    name: str, side: EngineSide, gamma: float, parameters: Mapping[str, Any], **scoring: Any
) -> OnlinePolicy:
    return OnlinePolicy(
        name=name,
        side=side,
        key=_arrival,
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


def sorted_f(*, select: str = "quantile-greedy", period: float = 5.0) -> OnlinePolicy:
    """Sorted-F on a receding horizon: planned anew as requests come, as far as admitted kept."""
    return OnlinePolicy(
        name="sorted-f",
        side=EngineSide(future=True),
        key=_arrival,
        scoring=Scoring(kind=FIXED),
        replanning=Replanning(select, period),
        parameters={"select": select, "period": period},
    )


def a_min() -> OnlinePolicy:
    """Least current lower bound first; evicts by the same, and an evicted request restarts."""
    return OnlinePolicy(
        name="a-min",
        side=EngineSide(future=True, eviction=Eviction.RESTART, victim=Victim.LEAST),
        key=lambda given: given.known.bounds()[0].astype(np.float64),
        scoring=Scoring(kind=BOUND),
        foresees=lambda given: given.known.bounds()[0],
        doubles=False,
    )


def a_max() -> OnlinePolicy:
    """Least upper bound first, and room for it: nobody is ever evicted."""

    def upper(given: Given) -> IntArray:
        return given.known.bounds()[1]

    return OnlinePolicy(
        name="a-max",
        side=EngineSide(future=True),
        key=lambda given: upper(given).astype(np.float64),
        foresees=upper,
    )


POLICIES: Mapping[str, Callable[..., OnlinePolicy]] = MappingProxyType(
    {
        "fcfs": fcfs,
        "sjf": sjf,
        "mcsf": mcsf,
        "svf": svf,
        "svf-1bit": svf_one_bit,
        "svf-2": svf_two_resources,
        "srpt": srpt,
        "srpt-repaired": srpt_repaired,
        "ltr": ltr,
        "trail": trail,
        "las": las,
        "uniboost-dist": uniboost_dist,
        "uniboost-space": uniboost_space,
        "uniboost-guard": uniboost_guard,
        "uniboost": uniboost,
        "boost-volume": boost_volume,
        "sorted-f": sorted_f,
        "a-min": a_min,
        "a-max": a_max,
    }
)

_SIDE = {field.name for field in fields(EngineSide)}


def policy(name: str, **options: Any) -> OnlinePolicy:
    """Make a policy by its name.

    Parameters
    ----------
    name
        One of :data:`POLICIES`.
    options
        The policy's own parameters; and of :class:`EngineSide`, to change the engine's side of it.

    Raises
    ------
    OptionError
        For a name, an option or a value that there is not.
    """
    if name not in POLICIES:
        close = get_close_matches(name, POLICIES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise OptionError(f"no policy is called {name!r}; {hint}there are {', '.join(POLICIES)}")
    make = POLICIES[name]
    own = {
        key: value for key, value in options.items() if key in inspect.signature(make).parameters
    }
    changes = {key: value for key, value in options.items() if key not in own}
    if unknown := changes.keys() - _SIDE:
        raise OptionError(
            f"the policy {name} has no {', '.join(sorted(unknown))}; it takes "
            f"{', '.join([*inspect.signature(make).parameters, *sorted(_SIDE)])}"
        )
    check_ranges(options)
    made = make(**own)
    side = replace(made.side, **changes)
    # Who may evict by a score needs one that the kernel knows.
    needs_score = side.displaces or side.victim == Victim.LEAST
    if needs_score and made.scoring.kind == RANKED:
        made = replace(made, scoring=made.scoring._replace(kind=FIXED))
    return replace(made, side=side)
