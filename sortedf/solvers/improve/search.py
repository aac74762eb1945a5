"""The improvement search: how beams and annealing share the time.

All work is cut into iterations. One iteration is a task on each of ``LANES`` lanes: a beam with its
own settings, or some thousand moves of annealing. What the lanes do depends on the seed, the
iteration and the share of the limit that is used up, never on which of them is ready first. So it
is the same on one thread or two.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import TypeVar

import numpy as np

from sortedf.kernels.beam_nodes import Settings
from sortedf.lp.bounds import Bound, best_of, best_proof, lower_bounds
from sortedf.model import Instance, Schedule, StopReason
from sortedf.model.result import BoundKind
from sortedf.solvers.improve.annealing import Annealer
from sortedf.solvers.improve.beams import new_guide, random_settings, similar_settings
from sortedf.solvers.in_order import shortest_of_orders
from sortedf.solvers.solver import Planned, Progress, Solver
from sortedf.solvers.stop import Stop

LANES = 2
ELITE = 8  # schedules kept
BEAMS_UNTIL = 0.35  # share of the limit
TRIALS_SHARE = 0.5  # of what the beams leave, for annealing each of the elite
LARGEST_FOR_BEAMS = 30_000  # requests; beyond, a beam takes minutes
HOT, COLD = 1.5, 0.12  # temperatures, in units of the steps that a request takes: makespan / n
REACH = 15.0  # mean distance of a move, in positions

T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A schedule of the search, its total latency, and the settings of the beam that found it."""

    total: int
    schedule: Schedule
    settings: Settings | None = None


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
        self.elite = [Found(schedule.total_latency(instance), schedule)]
        self.bound: Bound | None = None
        self.proof: Bound | None = None  # the best bound of prices

    @property
    def best(self) -> Found:
        """The best schedule so far."""
        return self.elite[0]

    def run(self) -> StopReason:
        """Search until told to stop; returns why."""
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                start = self.best.schedule
                bounds = lower_bounds(self.instance, seed=self.seed, start=start)
                self.bound, self.proof = best_of(bounds), best_proof(bounds)
                return self._beams(pool) or self._anneal(pool)
            except KeyboardInterrupt:
                return StopReason.INTERRUPTED

    def _stopped(self) -> StopReason | None:
        """Count the iteration, tell where the search is, and ask whether it should stop."""
        self.iterations += 1
        value = None if self.bound is None else self.bound.value
        self.report(Progress(self.iterations, self.best.total, value))
        if value is not None and self.best.total <= ceil(value):
            return StopReason.PROVED
        return self.stop(self.iterations, self.best.total, value)

    def _beams(self, pool: ThreadPoolExecutor) -> StopReason | None:
        """Run beams with random settings, and with settings near those that did well."""
        instance = self.instance
        if self.bound is None or self.bound.prices is None:
            return None
        if instance.release.any() or len(instance) > LARGEST_FOR_BEAMS:
            return None
        guide = new_guide(instance, self.bound.prices, self.bound.value, self.best.schedule)
        # Beams give up what is no better than the best simple order.
        first = self.best
        while self.stop.share(self.iterations) < BEAMS_UNTIL:
            chosen = [self._settings() for _ in range(LANES)]
            found = pool.map(
                lambda settings: guide.search(settings, first.total, first.schedule, 0), chosen
            )
            for settings, schedule in zip(chosen, found, strict=True):
                if schedule is not None:
                    self._keep(Found(schedule.total_latency(instance), schedule, settings))
            if reason := self._stopped():
                return reason
        return None

    def _settings(self) -> Settings:
        known = [found.settings for found in self.elite if found.settings is not None]
        if known and self.rng.random() < 0.5:
            return similar_settings(self.rng, known[self.rng.integers(len(known))])
        return random_settings(self.rng, len(self.instance))

    def _keep(self, found: Found) -> None:
        """Keep the best few schedules, no two of one total latency, best first."""
        if all(found.total != other.total for other in self.elite):
            self.elite = sorted([*self.elite, found], key=lambda f: f.total)[:ELITE]

    def _anneal(self, pool: ThreadPoolExecutor) -> StopReason:
        """Anneal all of the elite in turn, then the best of them, each time from hot to cold.

        How much annealing gains differs from schedule to schedule, and shows only by trying.
        """
        annealers = [
            Annealer(self.instance, found.schedule, ELITE * self.seed + number)
            for number, found in enumerate(self.elite)
        ]
        begin = self.stop.share(self.iterations)
        if reason := self._cool(pool, annealers, begin, begin + (1.0 - begin) * TRIALS_SHARE):
            return reason
        annealers.sort(key=lambda annealer: annealer.best_total)
        for annealer in annealers[:LANES]:
            annealer.back_to_best()
        begin = self.stop.share(self.iterations)
        return self._cool(pool, annealers[:LANES], begin, 1.0) or StopReason.FINISHED

    def _cool(
        self, pool: ThreadPoolExecutor, annealers: list[Annealer], begin: float, end: float
    ) -> StopReason | None:
        """Anneal these in turn, a lane each, cooling until the share of the limit is ``end``."""
        unit = self.best.schedule.makespan(self.instance) / len(self.instance)
        turn = 0
        while (share := self.stop.share(self.iterations)) < end or end >= 1.0:
            cooled = min(1.0, (share - begin) / max(1e-9, end - begin))
            temperature = unit * HOT * (COLD / HOT) ** cooled
            chosen = [annealers[(turn + k) % len(annealers)] for k in range(LANES)]
            turn += LANES
            # With one annealer both lanes would be the same.
            tasks = [pool.submit(a.run, temperature, REACH) for a in dict.fromkeys(chosen)]
            for task in tasks:
                task.result()
            for annealer in dict.fromkeys(chosen):
                if annealer.best_total < self.best.total:
                    self._keep(Found(annealer.best_total, annealer.schedule()))
            if reason := self._stopped():
                return reason
        return None


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
