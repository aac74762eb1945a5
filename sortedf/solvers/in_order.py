"""Schedules by list scheduling: one order, or the best of the simple ones."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sortedf.errors import OptionError, whole_number
from sortedf.kernels.list_schedule import list_schedule
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.orders import ORDERS, Proxies, burst_proxies
from sortedf.solvers.solver import Planned, Solver

PACES = (0.95, 1.0, 1.025, 1.05, 1.075, 1.1)
"""Tried by ``shortest_of_orders``: the best on backlogs of equal outputs lie there."""


AHEAD = 8
"""Lookahead tried on workers of different budgets."""


def schedule_in_order(
    instance: Instance, order: IntArray, lookahead: int = 1, earliest: IntArray | None = None
) -> Schedule:
    """List-schedule an instance whose requests each fit some worker, by rank; see the kernel.

    ``earliest`` are first starts, steps of shape (n,), not before the releases, which they are if
    left out.

    Raises
    ------
    OptionError
        If lookahead is below 1.
    """
    whole_number("lookahead", lookahead, 1)
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    starts, workers = list_schedule(
        instance.prompt_tokens,
        instance.output_tokens,
        instance.release if earliest is None else earliest,
        order,
        # More memory than all requests together fill changes nothing, and keeps sums in int64.
        np.minimum(instance.budgets, needed),
        min(lookahead, len(instance)),
    )
    return Schedule(starts, workers)


def schedule_by(name: str, instance: Instance, lookahead: int = 1, **options: Any) -> Schedule:
    """List-schedule an instance by the order of this name, with the order's own options."""
    return schedule_in_order(instance, ORDERS[name](instance, **options), lookahead)


def schedule_paced(instance: Instance, pace: float, lookahead: int = 1) -> Schedule:
    """List-schedule by volume, each request held back until step pace x (volumes before it) / M.

    M is the memory of all workers. What starts together needs its most memory together. Where
    outputs are alike, starts spread over time keep memory evenly full, at pace 1 on average: a
    quarter less total latency than any order on equal requests with s = o / 3. O(n log n). Derived
    for this project.
    """
    order = ORDERS["svf"](instance)
    # Floats, since the sum may be beyond int64; over M it is at most the sum of outputs.
    before = np.cumsum(instance.volume[order], dtype=np.float64) - instance.volume[order]
    earliest = instance.release.copy()
    held_back = (pace / instance.pooled.kv_tokens * before).astype(np.int64)
    earliest[order] = np.maximum(earliest[order], held_back)
    return schedule_in_order(instance, order, lookahead, earliest)


def shortest_of_orders(instance: Instance, lookahead: int = 1) -> tuple[str, Schedule]:
    """Try every simple order but the random one, and some paces; the least total latency wins.

    On workers of different budgets, where a large request at the head would hold up those on which
    it does not fit, volume with a lookahead of at least ``AHEAD`` too. Returns the winner's name,
    ``svf-paced`` for the paces, ``svf-ahead`` for that, and its schedule; ties by the order of the
    names.
    """
    schedules = {
        name: schedule_by(name, instance, lookahead) for name in ORDERS if name != "random"
    }
    paced = [schedule_paced(instance, pace, lookahead) for pace in PACES]
    schedules["svf-paced"] = min(paced, key=lambda schedule: schedule.total_latency(instance))
    if len(set(instance.budgets.tolist())) > 1:
        schedules["svf-ahead"] = schedule_by("svf", instance, max(lookahead, AHEAD))
    best = min(schedules, key=lambda name: schedules[name].total_latency(instance))
    return best, schedules[best]


def _in_order(name: str, instance: Instance, seed: int, lookahead: int = 1) -> Planned:
    options = {"seed": seed} if name == "random" else {}
    return Planned(schedule_by(name, instance, lookahead, **options), {"lookahead": lookahead})


def _one_bit(
    instance: Instance, seed: int, lookahead: int = 1, proxies: Proxies | None = None
) -> Planned:
    try:
        used = burst_proxies(instance) if proxies is None else Proxies(*map(float, proxies))
    except (TypeError, ValueError):
        raise OptionError(
            f"proxies is {proxies!r}; it takes three numbers: threshold, short, long"
        ) from None
    schedule = schedule_by("svf-1bit", instance, lookahead, proxies=used)
    return Planned(schedule, {"lookahead": lookahead, "proxies": list(used)})


def _by_volume(
    instance: Instance, seed: int, lookahead: int = 1, prefill_weight: float = 0.0
) -> Planned:
    number = isinstance(prefill_weight, int | float) and not isinstance(prefill_weight, bool)
    if not number or not 0 <= prefill_weight < float("inf"):
        raise OptionError(
            f"prefill_weight is {prefill_weight!r}; it takes token-steps for a prompt token, >= 0"
        )
    schedule = schedule_by("svf", instance, lookahead, prefill_weight=prefill_weight)
    weight = {"prefill_weight": prefill_weight} if prefill_weight else {}
    return Planned(schedule, {"lookahead": lookahead} | weight)


def _order(name: str, title: str, deterministic: bool = True) -> Solver:
    plan = partial(_in_order, name)
    return Solver(name, title, plan, ("lookahead",), deterministic=deterministic)


SOLVERS = (
    _order("fcfs", "first come, first served"),
    _order("mcsf", "shortest output first (MC-SF)"),
    _order("size", "smallest total size first"),
    Solver(
        "svf",
        "smallest volume first (SVF)",
        _by_volume,
        ("lookahead", "prefill_weight"),
    ),
    Solver(
        "svf-1bit",
        "smallest volume first, outputs known by one bit",
        _one_bit,
        ("lookahead", "proxies"),
    ),
    _order("longest", "longest output first"),
    _order("random", "random order", deterministic=False),
)
