"""What bench/policies.py runs: policies with variants of the engine's side, and workloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortedf.model import Instance
from sortedf.serving.arrivals import burst, poisson, shifted, stretched
from sortedf.serving.knowledge import Knowledge, exact, interval, noisy, nothing, one_bit
from sortedf.serving.online_policy import OnlinePolicy, no_floor
from sortedf.serving.policies import policy
from sortedf.serving.workloads import LENGTHS, Workload, of_trace

BUDGETS = {"azure": 60_000, "mix": 40_000, "reasoning": 60_000, "pareto": 60_000}
REQUESTS = {"azure": 19_366, "mix": 8_000, "reasoning": 4_000, "pareto": 6_000}
KINDS = ("azure", "mix", "reasoning")
LOAD = "0.95"  # at which policies are judged
TRACE = "azure_2023_conversation.csv"
WATERMARKS = (1, 2, 3, 5, 8, 20)  # % of the blocks


@dataclass(frozen=True)
class Entry:
    """A line of the table; ``known`` makes what is known of a workload's lengths, by its seed."""

    label: str
    policy: OnlinePolicy
    known: Callable[[Instance, int], Knowledge] = lambda instance, seed: exact(instance)


def first_come(percent: int) -> str:
    """Label of first come with a watermark."""
    return f"fcfs, watermark {percent} %"


def entries() -> list[Entry]:
    """List the policies: published ones, variants of their engine's side, derived ones."""
    named: list[tuple[str, str, dict[str, Any]]] = [
        ("fcfs", "fcfs", {}),
        *((first_come(w), "fcfs", {"watermark": w / 100}) for w in WATERMARKS),
        ("fcfs, future check", "fcfs", {"future": True}),
        ("sjf", "sjf", {}),
        ("sjf, watermark 3 %", "sjf", {"watermark": 0.03}),
        ("mcsf", "mcsf", {}),
        ("svf", "svf", {}),
        ("svf-1bit", "svf-1bit", {}),
        ("svf-2", "svf-2", {}),
        ("svf-aged", "svf-aged", {}),
        ("svf-aged, nobody exempt", "svf-aged", {"exempt": 0.0}),
        ("sorted-f", "sorted-f", {}),
        ("srpt", "srpt", {}),
        ("srpt, free swap", "srpt", {"eviction": "swap"}),
        ("srpt, waiting evicts nobody", "srpt", {"displaces": False}),
        ("srpt-repaired", "srpt-repaired", {}),
        ("srpt-repaired, evicts nobody", "srpt-repaired", {"displaces": False}),
        ("ltr", "ltr", {}),
        ("ltr, free swap", "ltr", {"eviction": "swap"}),
        ("trail", "trail", {}),
        ("las", "las", {"displaces": False}),
        ("uniboost-dist", "uniboost-dist", {}),
        ("uniboost-dist, watermark 3 %", "uniboost-dist", {"watermark": 0.03}),
        ("uniboost-space", "uniboost-space", {}),
        ("uniboost-guard", "uniboost-guard", {}),
        ("uniboost", "uniboost", {}),
        ("uniboost, watermark 3 %", "uniboost", {"watermark": 0.03}),
        ("uniboost, free swap", "uniboost", {"eviction": "swap"}),
        ("boost-volume", "boost-volume", {}),
        ("auto", "auto", {}),
    ]
    exactly = [Entry(label, policy(name, **options)) for label, name, options in named]
    less = [
        Entry(f"{name}, {title}", policy(name), known)
        for name in ("svf", "boost-volume", "auto")
        for title, known in (("noise 0.7", _noise), ("one bit", _bit))
    ]
    bounded = [Entry(f"{name}, bounds", policy(name), _bounds) for name in ("a-min", "a-max")]
    unknown = Entry("auto, nothing known", policy("auto"), _nothing)
    return [*exactly, *less, *bounded, unknown]


def ablation() -> list[Entry]:
    """List what is run at one load only: the steps of UniBoost, and what each part of them does."""
    swapped = [
        Entry(f"{name}, free swap", policy(name, eviction="swap"))
        for name in ("uniboost-dist", "uniboost-space", "uniboost-guard")
    ]
    options: list[tuple[str, str, dict[str, Any]]] = [
        ("uniboost-space, hysteresis 0", "uniboost-space", {"hysteresis": 0.0}),
        ("uniboost-space, hysteresis 0.1 s", "uniboost-space", {"hysteresis": 0.1}),
        ("uniboost-guard, k 64", "uniboost-guard", {"guard": 64}),
        ("uniboost-guard, hysteresis 0", "uniboost-guard", {"hysteresis": 0.0}),
        ("uniboost-guard, no reserve", "uniboost-guard", {"reserve": False}),
        ("uniboost, from gamma 0.01", "uniboost", {"gamma": 0.01}),
        ("uniboost, from gamma 1", "uniboost", {"gamma": 1.0}),
        ("uniboost, from gamma 10", "uniboost", {"gamma": 10.0}),
        ("uniboost, gamma at least 1", "uniboost", {"least_gamma": 1.0}),
    ]
    made = [Entry(label, policy(name, **values)) for label, name, values in options]
    unfloored = replace(policy("uniboost-dist"), floor=no_floor)
    return [*made, *swapped, Entry("uniboost-dist, no floor", unfloored)]


def _noise(instance: Instance, seed: int) -> Knowledge:
    return noisy(instance, 0.7, longest=int(instance.output_tokens.max()), seed=seed)


def _bit(instance: Instance, seed: int) -> Knowledge:
    return one_bit(instance)


def _bounds(instance: Instance, seed: int) -> Knowledge:
    return interval(instance, 0.7, seed=seed)


def _nothing(instance: Instance, seed: int) -> Knowledge:
    return nothing(instance)


def workloads(
    kind: str, load: str, rate: float, seeds: int, count: int, traces: Path
) -> Iterator[Workload]:
    """Give the workload of each seed: at a load, as a burst, or from 0.7 to 1.1 half-way."""
    budget = BUDGETS[kind]
    for seed in range(seeds):
        if kind == "azure":
            whole = of_trace(traces / TRACE, kv_tokens=budget)
            first = Workload(whole.instance.select(np.arange(count)), whole.arrivals[:count])
        else:
            instance = LENGTHS[kind](count, seed=seed, kv_tokens=budget)
            first = Workload(instance, burst(count))
        if load == "burst":
            yield first.arriving(burst(count))
        elif load == "shift":
            times = poisson(count, 0.7 * rate, seed=seed)
            yield first.arriving(shifted(times, at=times[count // 2], factor=1.1 / 0.7))
        elif kind == "azure" and seed == 0:
            yield first.arriving(stretched(first.arrivals, float(load) * rate))
        else:
            yield first.arriving(poisson(count, float(load) * rate, seed=seed))
