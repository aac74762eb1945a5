"""UniBoost step by step: the figures of each step against those of the step before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isnan
from typing import Any

from sortedf.serving.metrics import ratio_interval

STEPS = ("fcfs", "uniboost-dist", "uniboost-space", "uniboost-guard", "uniboost")
"""First come, two queues by boost, one space of priorities, the memory guard, gamma learnt."""

COMPARED = ("mean_ttlt", "p50_ttlt", "p99_ttlt", "p99.9_ttlt", "mean_ttft", "p99_ttft", "mean_tbt")
"""Figures whose ratios are given, and the throughput."""


def ablation(
    served: Mapping[str, Sequence[Mapping[str, float]]], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Hold each step against the one before it, of those that were served.

    Parameters
    ----------
    served
        Figures of each run (one a seed) of each policy, by the policy's text.
    names
        The policy's name of each text. Of several texts of a step the first counts.

    Returns
    -------
    list
        For each step but the first: ``step``, ``against`` (texts), ``ratios`` by figure, each
        ``mean, low, high``; the bounds are ``None`` from a single seed. Empty without two steps of
        UniBoost, or one and first come.
    """
    firsts: dict[str, str] = {}
    for text in served:
        firsts.setdefault(names[text], text)
    chain = [firsts[name] for name in STEPS if name in firsts]
    return [
        {"step": after, "against": before, "ratios": _ratios(served[after], served[before])}
        for before, after in pairwise(chain)
    ]


def _ratios(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]]
) -> dict[str, dict[str, float | None]]:
    found = {}
    for name in (*COMPARED, "throughput"):
        one, other = ([run.get(name, 0.0) for run in runs] for runs in (ours, theirs))
        if min(one) > 0 and min(other) > 0:
            ratio = ratio_interval(one, other)
            known = not isnan(ratio.low)
            found[name] = {
                "mean": ratio.mean,
                "low": ratio.low if known else None,
                "high": ratio.high if known else None,
            }
    return found
