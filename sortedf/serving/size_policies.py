"""Policies by arrival, or by size: output, volume, bounds on them, a plan of Sorted-F.

Sources: MC-SF arXiv 2502.07115; SVF 2606.22327; Sorted-F 2508.06133; A_min 2508.14544.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.standing import BOUND, FIXED, Scoring
from sortedf.orders.one_bit import Proxies
from sortedf.serving.knowledge import Knowledge, one_bit
from sortedf.serving.online_policy import (
    FloatArray,
    Given,
    IntArray,
    OnlinePolicy,
    Replanning,
    arrival,
    predicted,
)
from sortedf.serving.side import EngineSide, Eviction, Victim
from sortedf.serving.workloads import Workload


def _volume(given: Given) -> FloatArray:
    return given.volumes


def fcfs() -> OnlinePolicy:
    """First come, first served; the tail of running is preempted: vLLM's own."""
    return OnlinePolicy(name="fcfs", side=EngineSide(victim=Victim.TAIL), key=arrival)


def sjf() -> OnlinePolicy:
    """Least predicted output first; running requests stay."""
    return OnlinePolicy(name="sjf", side=EngineSide(), key=predicted)


def mcsf() -> OnlinePolicy:
    """Least predicted output first, admitted only with room at every later step (MC-SF)."""
    return OnlinePolicy(name="mcsf", side=EngineSide(future=True), key=predicted)


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
    return OnlinePolicy(name="svf-2", side=EngineSide(future=True), key=lambda given: given.seconds)


def sorted_f(*, select: str = "quantile-greedy", period: float = 5.0) -> OnlinePolicy:
    """Sorted-F on a receding horizon: planned anew as requests come, as far as admitted kept."""
    return OnlinePolicy(
        name="sorted-f",
        side=EngineSide(future=True),
        key=arrival,
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
