"""Prices of memory for workers that differ: a list each, and the bound that they prove, exactly.

Let worker w have the budget M_w and the prices lambda_w(t). No schedule has a total latency below

    sum_i min_{w: s_i + o_i <= M_w} min_p F_i(p; lambda_w) - sum_w M_w sum_t lambda_w(t),

F_i(p; lambda) the latency and memory of request i at start p: on each worker all pay at most
M_w sum_t lambda_w(t), and request i pays no less than on its cheapest worker at its cheapest start.

Workers on which the same requests fit may have one list together. Let their lists be replaced by
the mean, weighed by budgets. What all pay at most stays the same. F_i is linear in the prices, so
that min_p F_i at the mean is at least the mean of the minima, and so at least the least of them:
no request gets cheaper, and the bound does not fall. In particular one list is enough where every
request fits every worker, as on identical workers; the bound is then that of one worker with the
memory of all. Derived for this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.ascent import (
    FINE_PIECES_BY_GROUPS,
    SAMPLE,
    Stop,
    best_in_order,
    fine_ascent,
    quadratic_nodes,
)
from sortedf.lp.distinct import distinct
from sortedf.lp.dual import Dual, groups_of
from sortedf.lp.prices import Prices, beyond, exact_costs, rounded
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

PIECES = 2000
"""Most pieces of each list; one a step if that is less."""


@dataclass(frozen=True)
class WorkerPrices:
    """A list of prices for each worker; workers may share one.

    Parameters
    ----------
    lists
        The lists.
    of_worker
        The number of the list of each worker.
    """

    lists: tuple[Prices, ...]
    of_worker: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the keys of a certificate, all over one denominator."""
        common = lcm(*(prices.denominator for prices in self.lists))
        price_lists = [
            [
                [first, last, *(x * (common // prices.denominator) for x in (value, slope))]
                for first, last, value, slope in prices.pieces()
                if value or slope
            ]
            for prices in self.lists
        ]
        return {
            "denominator": common,
            "price_lists": [[p if p[3] else p[:3] for p in pieces] for pieces in price_lists],
            "worker_lists": list(self.of_worker),
        }


class Tiers(NamedTuple):
    """Workers by what fits on them, ascending: of one tier those that hold the same requests.

    ``of_worker`` is the tier of each worker; ``budgets`` (tiers,) the memory of all workers of a
    tier together, ``largest`` the size of the largest request that fits on one of them, in tokens.
    """

    of_worker: tuple[int, ...]
    budgets: list[int]
    largest: IntArray


def tiers_of(instance: Instance) -> Tiers:
    """Put the workers into tiers; a worker that no request fits on holds none of them."""
    sizes = np.unique(instance.prompt_tokens + instance.output_tokens)
    fitting = np.searchsorted(sizes, instance.budgets, side="right")
    counts, of_worker = np.unique(fitting, return_inverse=True)
    budgets = [0] * len(counts)
    for tier, worker in zip(of_worker.tolist(), instance.workers, strict=True):
        budgets[tier] += worker.kv_tokens
    largest = np.where(counts > 0, sizes[counts - 1], 0)
    return Tiers(tuple(of_worker.tolist()), budgets, largest)


def worker_price_bound(instance: Instance, prices: WorkerPrices) -> Fraction:
    """Lower bound on the total latency that these prices prove; exact; see the module.

    O(K) for each kind of request and each list of K pieces.
    """
    pooled = instance.pooled
    kinds = distinct(pooled)
    sizes = (kinds.prompt_tokens + kinds.output_tokens).tolist()
    common = lcm(*(of_list.denominator for of_list in prices.lists))
    least: list[int | None] = [None] * len(sizes)
    for number, of_list in enumerate(prices.lists):
        budgets = [
            worker.kv_tokens
            for worker, k in zip(instance.workers, prices.of_worker, strict=True)
            if k == number
        ]
        largest = max(budgets, default=0)
        costs, _ = exact_costs(pooled, of_list)
        scale = common // of_list.denominator
        for kind, (cost, size) in enumerate(zip(costs, sizes, strict=True)):
            known = least[kind]
            if size <= largest and (known is None or cost * scale < known):
                least[kind] = cost * scale
    total = sum(
        (cost or 0) * count for cost, count in zip(least, kinds.weight.tolist(), strict=True)
    )
    paid = sum(
        worker.kv_tokens * prices.lists[k].total()
        for worker, k in zip(instance.workers, prices.of_worker, strict=True)
    )
    return Fraction(total, common) - paid


class TieredDual:
    """The bound as a function of a list of prices for each tier, shape (tiers, K + 1).

    Each request takes the cheapest of the tiers that hold it; ``fits`` (tiers, groups) says which.
    """

    def __init__(self, duals: list[Dual], fits: npt.NDArray[np.bool_]) -> None:
        self.duals = duals
        self.fits = fits
        self.cells = 0

    def __call__(self, at_nodes: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient; O(tiers groups K)."""
        weight = self.duals[0].groups.weight
        costs = [dual.look(prices) for dual, prices in zip(self.duals, at_nodes, strict=True)]
        least = np.where(self.fits, costs, np.inf)
        cheapest = least.argmin(axis=0)
        bound = float(np.sum(least.min(axis=0) * weight))
        gradient = np.empty_like(at_nodes)
        for tier, dual in enumerate(self.duals):
            paid, gradient[tier] = dual.slopes(np.where(cheapest == tier, weight, 0.0))
            bound -= paid
        self.cells = sum(dual.cells for dual in self.duals)
        return bound, gradient


def ascend_by_worker(
    instance: Instance,
    prices: Prices,
    *,
    iterations: int | None = None,
    seed: int = 0,
    start: Schedule | None = None,
    stop: Stop | None = None,
) -> tuple[WorkerPrices, Fraction]:
    """Find good prices for each tier of workers, from those of all memory together on.

    Parameters
    ----------
    instance
        Of workers in several tiers; every request fits some.
    prices
        Good prices for one worker with all memory.
    iterations, seed, start, stop
        As for :func:`sortedf.lp.ascend`. Prices reach to the makespan of ``start``.
    """
    tiers = tiers_of(instance)
    pooled = instance.pooled
    groups = groups_of(pooled, SAMPLE, seed)
    schedule = best_in_order(instance) if start is None else start
    horizon = max(prices.horizon, schedule.makespan(instance))
    pieces = min(PIECES, FINE_PIECES_BY_GROUPS // (len(groups.weight) * len(tiers.budgets)))
    nodes = quadratic_nodes(horizon, max(pieces, 1))
    reach = beyond(pooled, horizon)
    duals = [Dual(groups, budget, nodes, reach) for budget in tiers.budgets]
    sizes = groups.prompt_tokens + groups.output_tokens
    function = TieredDual(duals, sizes <= tiers.largest[:, np.newaxis])
    first = np.tile(prices.at(np.maximum(nodes, 1)), (len(duals), 1))
    done = 0

    def stopped() -> bool:
        nonlocal done
        done += 1
        return stop is not None and bool(stop(done, 0, None))

    best = fine_ascent(function, first, iterations, stopped)
    lists = tuple(
        rounded(pooled, nodes, *dual.pieces(at)) for dual, at in zip(duals, best, strict=True)
    )
    found = WorkerPrices(lists, tiers.of_worker)
    return found, worker_price_bound(instance, found)
