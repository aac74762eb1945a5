"""Beam searches with random settings, guided by the prices of the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.kernels.beam import beam
from sortedf.kernels.beam_follow import losses
from sortedf.kernels.beam_nodes import Costs, FloatArray, Settings
from sortedf.lp.prices import Prices, cost_tables, min_costs
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

NODE_BUDGET = 200_000
"""Width times requests of wide beams: about two seconds of work at n = 2,000."""

LOSSES = 10_000
"""Most steps at which losses of a schedule are taken exactly; in between by a straight line."""


@dataclass(frozen=True)
class Known:
    """A schedule that beams start from, its total latency, and what it has lost by each step."""

    schedule: Schedule
    total: int
    losses: FloatArray


@dataclass(frozen=True)
class Guide:
    """What beams need to know of an instance: costs by rank, the ranks, and how far they reach."""

    kv_tokens: int
    costs: Costs
    order: IntArray
    bound: float
    horizon: int
    ahead: int

    def losses(self, schedule: Schedule) -> FloatArray:
        """Follow a schedule: its loss at each step, overdue requests included; (horizon + 1,)."""
        stride = self.horizon // LOSSES + 1
        return losses(
            self.costs,
            self.kv_tokens,
            self.ahead,
            schedule.starts[self.order],
            self.horizon,
            stride,
        )

    def search(
        self,
        settings: Settings,
        known: Known,
        begin: int,
        margin: float,
        cancelled: IntArray | None = None,
    ) -> Schedule | None:
        """Run one beam; a schedule shorter than the known one, or nothing.

        What starts before step ``begin`` is taken from the known schedule. A beam is given up where
        it has lost more than the known schedule had at that step, by ``margin`` times what that
        lost from ``begin`` on; or when another thread sets ``cancelled``, shape (1,), to 1.
        """
        whole = known.total - self.bound
        allowed = np.minimum(whole, known.losses + margin * (whole - known.losses[begin]))
        starts, total = beam(
            self.costs,
            self.kv_tokens,
            settings,
            allowed,
            self.ahead,
            known.schedule.starts[self.order],
            begin,
            np.zeros(1, np.int64) if cancelled is None else cancelled,
        )
        if not 0 <= total < known.total:
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
    widest = float(np.clip(NODE_BUDGET / n, 20, 150))
    return Settings(
        width=int(np.exp(rng.uniform(np.log(widest / 7), np.log(1.5 * widest)))) + 1,
        bucket=int(rng.choice([1, 2, 2, 3])),
        candidates=int(rng.choice([8, 12, 16, 24, 32])),
        branches=int(rng.choice([3, 4, 6, 8])),
        waste=max(0.0, float(rng.uniform(-0.06, 0.06))),
    )
