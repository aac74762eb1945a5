"""The improvement search: how beams and annealing share the time.

All work is cut into iterations. One iteration is ``BEAMS`` beams with settings of their own, or
thousands of moves of annealing on each of ``LANES`` lanes. What they do depends on the seed, the
iteration and the share of the limit that is used up, never on which of them is ready first. So it
is the same on one thread or two.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle
from math import ceil
from typing import TypeVar

import numpy as np

from sortedf.lp.bounds import Bound, best_of, best_proof, lower_bounds
from sortedf.model import Instance, Schedule, StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers.improve.annealing import Annealer
from sortedf.solvers.improve.beams import random_settings
from sortedf.solvers.improve.shares import Share, shares_of
from sortedf.solvers.in_order import shortest_of_orders
from sortedf.solvers.solver import Planned, Progress, Solver
from sortedf.solvers.stop import Stop

LANES = 2
PRICES_UNTIL = 0.2  # share of the limit
BEAMS = 4  # of one iteration
WHOLE_BEAMS_UNTIL = 0.12  # share of the limit
BEAMS_UNTIL = 0.75  # share of the limit at which no more beams are begun
BEAMS_CUT = 0.85  # and at which those that run are given up, so that there is time to anneal
MARGINS = (0.01, 0.02, 0.05)  # see `Guide.search`
LARGEST_FOR_BEAMS = 30_000  # requests; beyond, a beam takes minutes
LONGEST_FOR_BEAMS = 1 << 22  # steps, for which there are tables
POLL_SECONDS = 0.1  # between two looks at the clock while beams run
HOT, COLD = (
    1.5,
    0.12,
)  # temperatures, in units of the steps that a request takes: makespan / (n / R)
REACH = 15.0  # mean distance of a move, in positions

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A schedule of the search and its total latency."""

    total: int
    schedule: Schedule


class Search:
    """One run of the improvement search."""

    def __init__(
        self,
        instance: Instance,
        seed: int,
        stop: Stop,
        report: Callable[[Progress], None],
        threads: int,
    ) -> None:
        self.instance = instance
        self.seed = seed
        self.stop = stop
        self.report = report
        self.threads = threads
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.iterations = 0
        _, schedule = shortest_of_orders(instance)
        self.best = Found(schedule.total_latency(instance), schedule)
        self.bound: Bound | None = None
        self.proof: Bound | None = None  # the best bound of prices
        self.cancelled = np.zeros(1, np.int64)  # what is 1 ends the beams

    def run(self) -> StopReason:
        """Search until told to stop; returns why."""
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                self._tell()
                bounds = lower_bounds(
                    self.instance, seed=self.seed, start=self.best.schedule, stop=self._priced
                )
                self.bound, self.proof = best_of(bounds), best_proof(bounds)
                self._tell()
                return self._beams(pool) or self._anneal(pool)
            except KeyboardInterrupt:
                return StopReason.INTERRUPTED
            finally:
                self.cancelled[0] = 1

    def _priced(self, iterations: int, best: int, bound: Fraction | None) -> bool:
        """Whether the prices have had their share of the time; iterations are counted later."""
        return self.stop.share(0) >= PRICES_UNTIL

    def _stopped(self) -> StopReason | None:
        """Count the iteration, tell where the search is, and ask whether it should stop."""
        self.iterations += 1
        self._tell()
        value = None if self.bound is None else self.bound.value
        if value is not None and self.best.total <= ceil(value):
            return StopReason.PROVED
        return self.stop(self.iterations, self.best.total, value)

    def _tell(self) -> None:
        value = None if self.bound is None else self.bound.value
        self.report(Progress(self.iterations, self.best.total, value))

    def _beams(self, pool: ThreadPoolExecutor) -> StopReason | None:
        """Run beams with random settings, at first from step 0, then from anywhere.

        Of several workers each in turn gets a round of beams on what it has been given.

        What a beam from the middle of the best schedule has gained or lost shortly after tends to
        be what it has at the end. So most are given up soon, and many can be tried.
        """
        instance = self.instance
        proof = self.proof
        if proof is None:
            return None
        found = [proof.prices_of(worker) for worker in range(len(instance.workers))]
        prices = [of_worker for of_worker in found if of_worker is not None]
        if len(prices) < len(found):
            return None
        if instance.release.any() or len(instance) > LARGEST_FOR_BEAMS:
            return None
        if self.best.schedule.makespan(instance) > LONGEST_FOR_BEAMS:
            return None
        shares = cycle(shares_of(instance, prices, self.best.schedule))
        while (used := self.stop.share(self.iterations)) < BEAMS_UNTIL:
            share = next(shares)
            chosen = [
                (random_settings(self.rng, len(share.instance)), *self._place(share, used))
                for _ in range(BEAMS)
            ]
            beams = [
                pool.submit(
                    share.guide.search, settings, share.known, begin, margin, self.cancelled
                )
                for settings, begin, margin in chosen
            ]
            while wait(beams, POLL_SECONDS).not_done:
                late = self.stop.share(self.iterations) >= BEAMS_CUT
                if late or self.stop(self.iterations, self.best.total, proof.value):
                    self.cancelled[0] = 1
            for shorter in [beam.result() for beam in beams]:
                if shorter is not None and share.keep(shorter):
                    whole = share.in_whole(self.best.schedule)
                    self._keep(Found(whole.total_latency(instance), whole))
            if reason := self._stopped():
                return reason
        return None

    def _place(self, share: Share, used: float) -> tuple[int, float]:
        """Draw the step at which a beam begins, and its margin (see :meth:`Guide.search`)."""
        if used < WHOLE_BEAMS_UNTIL:
            return 0, 1.0
        started = int(len(share.instance) * self.rng.random() ** 2)
        begin = int(np.sort(share.known.schedule.starts)[started])
        return begin, float(self.rng.choice(MARGINS))

    def _keep(self, found: Found) -> None:
        """Keep the shorter schedule."""
        if found.total < self.best.total:
            self.best = found

    def _anneal(self, pool: ThreadPoolExecutor) -> StopReason:
        """Anneal the best schedule, on each lane with other moves, from hot to cold."""
        if self.stop.share(self.iterations) >= 1.0 and (reason := self._stopped()):
            return reason
        annealers = [
            Annealer(self.instance, self.best.schedule, LANES * self.seed + lane)
            for lane in range(LANES)
        ]
        workers = len(self.instance.workers)
        unit = self.best.schedule.makespan(self.instance) * workers / len(self.instance)
        begin = self.stop.share(self.iterations)
        while True:
            share = self.stop.share(self.iterations)
            cooled = min(1.0, (share - begin) / max(1e-9, 1.0 - begin))
            temperature = unit * HOT * (COLD / HOT) ** cooled
            tasks = [pool.submit(a.run, temperature, REACH) for a in annealers]
            for task in tasks:
                task.result()
            for annealer in annealers:
                if annealer.best_total < self.best.total:
                    self._keep(Found(annealer.best_total, annealer.schedule()))
            if reason := self._stopped():
                return reason


def improve(
    instance: Instance,
    seed: int,
    *,
    stop: Stop,
    report: Callable[[Progress], None],
    threads: int = 2,
) -> Planned:
    """Search for a short schedule for as long as it is let; see the module."""
    search = Search(instance, seed, stop, report, threads)
    reason = search.run()
    bound = None if search.bound is None else search.bound.value
    return Planned(
        search.best.schedule,
        {"iterations": search.iterations},
        reason,
        bound,
        None if bound is None else BoundKind.CERTIFIED,
        search.proof,
    )


SOLVERS = (
    Solver(
        "improve",
        "anytime search: beams guided by prices, then annealing",
        improve,
        ("threads",),
        anytime=True,
        deterministic=False,
    ),
)
