"""Beam searches with random settings, guided by the prices of the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.kernels.beam import beam
from sortedf.kernels.beam_nodes import Costs, Settings
from sortedf.lp.prices import Prices, cost_tables, min_costs
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

NODE_BUDGET = 400_000
"""Width times requests of the widest beam: about two seconds of work at n = 2,000."""


@dataclass(frozen=True)
class Guide:
    """What beams need to know of an instance: costs by rank, the ranks, and how far they reach."""

    kv_tokens: int
    costs: Costs
    order: IntArray
    bound: float
    horizon: int
    ahead: int

    def search(
        self,
        settings: Settings,
        best: int,
        schedule: Schedule,
        begin: int,
        cancelled: IntArray | None = None,
    ) -> Schedule | None:
        """Run one beam; a schedule better than ``best`` (steps, sum of completions), or nothing.

        What starts before step ``begin`` is taken from ``schedule``. Nothing is found when another
        thread sets ``cancelled``, shape (1,), to 1.
        """
        starts, total = beam(
            self.costs,
            self.kv_tokens,
            settings,
            best - self.bound,
            self.horizon,
            self.ahead,
            schedule.starts[self.order],
            begin,
            np.zeros(1, np.int64) if cancelled is None else cancelled,
        )
        if not 0 <= total < best:
            return None
        by_request = np.empty_like(starts)
        by_request[self.order] = starts
        return Schedule(by_request)


def new_guide(instance: Instance, prices: Prices, bound: Fraction, schedule: Schedule) -> Guide:
    """Prepare beams on these prices; ``schedule`` tells how long and how wide schedules are."""
    cheapest = min_costs(instance, prices)
    tables = cost_tables(prices)
    order = np.lexsort((instance.volume, cheapest.latest))
    costs = Costs(
        instance.prompt_tokens[order],
        instance.output_tokens[order],
        tables.total,
        tables.moment,
        cheapest.cost[order],
        cheapest.latest[order],
    )
    return Guide(
        kv_tokens=instance.kv_tokens,
        costs=costs,
        order=order,
        bound=float(bound),
        horizon=schedule.makespan(instance) * 6 // 5 + 1,
        ahead=completions_ahead(instance, schedule),
    )


def completions_ahead(instance: Instance, schedule: Schedule) -> int:
    """Room for the different completions ahead: half more than requests run at once, and some.

    Never more than the longest output, since a completion lies at most so many steps ahead.
    """
    events = np.concatenate([schedule.starts, schedule.starts + instance.output_tokens])
    changes = np.repeat([1, -1], len(instance))
    # Completions first: a request may start in the step in which another one ends.
    running = np.cumsum(changes[np.lexsort((changes, events))])
    return int(min(running.max() * 3 // 2 + 64, instance.output_tokens.max() + 1))


def random_settings(rng: np.random.Generator, n: int) -> Settings:
    """Draw the settings of a beam; wider is not better, other settings are."""
    widest = float(np.clip(NODE_BUDGET / n, 16, 1000))
    return Settings(
        width=int(np.exp(rng.uniform(np.log(widest / 12), np.log(widest)))) + 1,
        bucket=int(rng.choice([1, 1, 1, 2, 2, 4, 8])),
        candidates=int(rng.choice([4, 6, 8, 12, 16, 24])),
        branches=int(rng.choice([2, 3, 4, 6, 8])),
        waste=float(rng.uniform(0.0, 0.08)),
    )


def similar_settings(rng: np.random.Generator, settings: Settings) -> Settings:
    """Draw settings near those that did well."""
    return Settings(
        width=max(2, int(settings.width * rng.uniform(0.7, 1.3))),
        bucket=settings.bucket,
        candidates=max(2, settings.candidates + int(rng.integers(-2, 3))),
        branches=max(1, settings.branches + int(rng.integers(-1, 2))),
        waste=float(np.clip(settings.waste + rng.normal(0.0, 0.01), 0.0, 0.1)),
    )
