"""What more KV memory could buy at most, by the prices, and what it buys by one simple order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from sortedf.lp import Prices, lower_bound, price_bound
from sortedf.model import Instance
from sortedf.model.instance import OVERFLOW_BOUND
from sortedf.model.workers import Worker
from sortedf.solvers import solve

MULTIPLES = (1, 2, 4, 8)
ORDER = "svf"

Track = Callable[[Sequence[int]], Iterable[int]]


class Unit(NamedTuple):
    """An amount of memory: what to call it, and how many tokens it holds."""

    name: str
    tokens: int


def moved_bound(value: Fraction, prices: Prices, added: int) -> Fraction:
    """Bound for ``added`` tokens more, from a bound that prices prove.

    In the price bound the budget M stands in the term - M sum_t price(t) alone, so that the same
    prices prove ``value`` - added sum_t price(t) for M + added. No schedule on the larger budget
    has a total latency below that.
    """
    return value - added * prices.total()


def extra_memory(
    instance: Instance,
    block_size: int,
    prices: Prices,
    value: Fraction,
    unit: Unit,
    track: Track = iter,
) -> dict[str, Any]:
    """Compare budgets of 1, 2, 4 and 8 units more: what no schedule beats, what an order reaches.

    Parameters
    ----------
    instance, block_size
        As planned, not padded to blocks. Each of several workers gets more; budgets and tokens
        here are those of all together.
    prices, value
        Prices, and the bound that they prove for the instance in blocks.
    unit
        How much memory to add.

    Returns
    -------
    dict
        Plain data (tokens, steps). Each of ``rows`` has the bound by the same prices (``floor``,
        rounded up, and ``floor_exact``); the same evaluated anew, which must be equal
        (``anew_exact``); a bound with prices of its own (``direct``); the least that is proved
        (``least``, the larger of both); and the total latency of a list schedule by volume there
        (``order_latency``). ``holds``: the two evaluations agree and the schedule is above both
        bounds.
    """
    planned = instance.in_blocks(block_size)
    here = solve(instance, solver=ORDER, block_size=block_size)
    total = prices.total()
    rows = []
    for multiple in track(MULTIPLES):
        added = multiple * unit.tokens
        budget = instance.pooled.kv_tokens + added * len(instance.workers)
        if budget >= OVERFLOW_BOUND:
            break
        larger = instance.on_workers([Worker(name, m + added) for name, m in instance.workers])
        in_blocks = larger.in_blocks(block_size)
        before, after = planned.pooled, in_blocks.pooled
        floor = moved_bound(value, prices, after.kv_tokens - before.kv_tokens)
        anew = price_bound(after, prices)
        direct = lower_bound(in_blocks)
        reached = solve(larger, solver=ORDER, block_size=block_size).total_latency
        rows.append(
            {
                "extra_tokens": added * len(instance.workers),
                "kv_tokens": budget,
                "floor": ceil(floor),
                "floor_exact": _exact(floor),
                "anew_exact": _exact(anew),
                "direct": ceil(direct.value),
                "direct_kind": direct.kind,
                "least": max(ceil(floor), ceil(direct.value)),
                "order_latency": reached,
                "holds": floor == anew and max(floor, direct.value) <= reached,
            }
        )
    return {
        "unit": unit.name,
        "unit_tokens": unit.tokens,
        "kv_tokens": instance.pooled.kv_tokens,
        "price_sum": float(total),
        "price_sum_exact": _exact(total),
        "per_unit": float(unit.tokens * total),
        "per_unit_mean": float(unit.tokens * total / len(instance)),
        "order": ORDER,
        "order_latency": here.total_latency,
        "rows": rows,
    }


def _exact(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"
