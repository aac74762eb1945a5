"""The simple orders, one small function each, and the table of their names.

An order takes an instance and returns its requests by rank: a permutation of 0..n-1, int64, shape
(n,). Sorting is stable: O(n log n), ties by input order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from sortedf.model import Instance
from sortedf.model.instance import IntArray
from sortedf.orders.one_bit import one_bit_volume

Order: TypeAlias = Callable[..., IntArray]


def first_come(instance: Instance) -> IntArray:
    """Rank by release, as serving engines do.

    On a backlog its ratio to the optimum has no bound [1].
    """
    return np.argsort(instance.release, kind="stable")


def shortest_output(instance: Instance) -> IntArray:
    """Rank by output tokens o: MC-SF [3].

    On the synthetic family of [3] its total latency is 1.005 times the optimum on average; with
    prompts of different lengths its ratio has no bound [1].
    """
    return np.argsort(instance.output_tokens, kind="stable")


def total_size(instance: Instance) -> IntArray:
    """Rank by total size s + o. Its ratio has no bound [1]."""
    return np.argsort(instance.prompt_tokens + instance.output_tokens, kind="stable")


def volume(instance: Instance, *, prefill_weight: float = 0.0) -> IntArray:
    """Rank by volume v = s o + o (o + 1) / 2, the token-steps a request occupies: SVF [2].

    Ratio <= 1 + 2 / (1 - alpha), alpha = max(s + o) / M, with strict admission [2].

    A weight w ranks by v + w s: what a prompt token costs the engine beyond its memory, in
    token-steps. Derived for this project.
    """
    if prefill_weight == 0:
        return np.argsort(instance.volume, kind="stable")
    return np.argsort(instance.volume + prefill_weight * instance.prompt_tokens, kind="stable")


def longest_first(instance: Instance) -> IntArray:
    """Rank by output tokens o, most first.

    Good for the makespan when memory is tight, bad for the mean latency: no claim for the latter.
    """
    return np.argsort(-instance.output_tokens, kind="stable")


def random_order(instance: Instance, *, seed: int = 0) -> IntArray:
    """Rank at random, every permutation alike (up to ties of 64-bit draws).

    The draws are raw output of PCG64, whose stream numpy guarantees for a seed, so that the same
    seed gives the same order on every version and platform.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(len(instance)), kind="stable")


ORDERS: dict[str, Order] = {
    "fcfs": first_come,
    "mcsf": shortest_output,
    "size": total_size,
    "svf": volume,
    "svf-1bit": one_bit_volume,
    "longest": longest_first,
    "random": random_order,
}
