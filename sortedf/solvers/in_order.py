"""Schedules by list scheduling: one order, or the best of the simple ones."""

from __future__ import annotations

from functools import partial
from typing import Any

from sortedf.errors import OptionError, whole_number
from sortedf.kernels.list_schedule import list_schedule
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.orders import ORDERS, Proxies, burst_proxies
from sortedf.solvers.solver import Planned, Solver


def schedule_in_order(instance: Instance, order: IntArray, lookahead: int = 1) -> Schedule:
    """List-schedule an instance whose requests each fit the budget, by rank; see the kernel.

    Raises
    ------
    OptionError
        If lookahead is below 1.
    """
    whole_number("lookahead", lookahead, 1)
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    starts = list_schedule(
        instance.prompt_tokens,
        instance.output_tokens,
        instance.release,
        order,
        # More memory than all requests together fill changes nothing, and keeps sums in int64.
        min(instance.kv_tokens, needed),
        min(lookahead, len(instance)),
    )
    return Schedule(starts)


def schedule_by(name: str, instance: Instance, lookahead: int = 1, **options: Any) -> Schedule:
    """List-schedule an instance by the order of this name, with the order's own options."""
    return schedule_in_order(instance, ORDERS[name](instance, **options), lookahead)


def shortest_of_orders(instance: Instance, lookahead: int = 1) -> tuple[str, Schedule]:
    """Try every simple order but the random one; the least total latency wins, ties by name order.

    Returns the winner's name and its schedule.
    """
    schedules = {
        name: schedule_by(name, instance, lookahead) for name in ORDERS if name != "random"
    }
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


def _order(name: str, title: str, deterministic: bool = True) -> Solver:
    plan = partial(_in_order, name)
    return Solver(name, title, plan, ("lookahead",), deterministic=deterministic)


SOLVERS = (
    _order("fcfs", "first come, first served"),
    _order("mcsf", "shortest output first (MC-SF)"),
    _order("size", "smallest total size first"),
    _order("svf", "smallest volume first (SVF)"),
    Solver(
        "svf-1bit",
        "smallest volume first, outputs known by one bit",
        _one_bit,
        ("lookahead", "proxies"),
    ),
    _order("longest", "longest output first"),
    _order("random", "random order", deterministic=False),
)
