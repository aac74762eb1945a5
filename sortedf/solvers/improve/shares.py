"""What each worker has been given: a backlog of its own, on which beams are run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sortedf.lp.prices import Prices, price_bound
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.solvers.improve.beams import Known, new_guide


class Share:
    """The requests of one worker, as an instance, and the best that is known of them.

    Prices of memory guide beams on any part of a backlog: what a schedule of the part loses is
    counted from the bound that these prices prove of the part.

    Parameters
    ----------
    instance
        The whole backlog.
    prices
        Those of the worker's memory.
    schedule
        A feasible schedule of the whole.
    members
        Positions of the worker's requests.
    kv_tokens
        Its budget.
    """

    def __init__(
        self,
        instance: Instance,
        prices: Prices,
        schedule: Schedule,
        members: IntArray,
        kv_tokens: int,
    ) -> None:
        self.members = members
        self.instance = instance.select(members).replace(kv_tokens=kv_tokens)
        first = Schedule(schedule.starts[members])
        bound = price_bound(self.instance, prices)
        self.guide = new_guide(self.instance, prices, bound, first)
        self.known = self._known(first)

    def keep(self, found: Schedule) -> bool:
        """Keep a schedule of the share if it is shorter than the one known."""
        if found.total_latency(self.instance) >= self.known.total:
            return False
        self.known = self._known(found)
        return True

    def in_whole(self, schedule: Schedule) -> Schedule:
        """Put what is known of the share into a schedule of the whole."""
        starts = schedule.starts.copy()
        starts[self.members] = self.known.schedule.starts
        return Schedule(starts, schedule.workers)

    def _known(self, schedule: Schedule) -> Known:
        total = schedule.total_latency(self.instance)
        return Known(schedule, total, self.guide.losses(schedule))


def shares_of(instance: Instance, prices: Sequence[Prices], schedule: Schedule) -> Iterator[Share]:
    """Give the share of each worker that has any requests, prepared when its turn comes.

    ``prices`` are those of each worker.
    """
    for worker, budget in enumerate(instance.budgets.tolist()):
        members = np.flatnonzero(schedule.workers == worker)
        if len(members):
            yield Share(instance, prices[worker], schedule, members, budget)
