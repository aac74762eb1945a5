"""Annealing: schedules into sequences with waits, one a worker, and back."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.anneal import (
    STRIDE,
    Requests,
    Running,
    Solution,
    add,
    anneal,
    decode,
    fit,
    new_running,
)
from sortedf.kernels.trade import trade
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

MOVES = 20_000
"""Moves of one iteration on up to 2,000 requests; fewer on more, so that it takes no longer."""


TRADES = 0.3
"""Of several workers: moves between two of them, for each move on one."""


class Annealer:
    """Sequences, one a worker, that are being annealed, and the best that they have been.

    Parameters
    ----------
    instance
        The backlog; every request fits some worker alone.
    schedule
        Where to begin: any feasible schedule; it is reproduced exactly.
    seed
        Of the moves.
    """

    def __init__(self, instance: Instance, schedule: Schedule, seed: int) -> None:
        n = len(instance)
        self.instance = instance
        self.requests = Requests(instance.prompt_tokens, instance.output_tokens, instance.release)
        # At most one completion a step ahead, and twice that room so that it is rarely tidied up.
        ahead = 2 * min(n, int(instance.output_tokens.max())) + 2
        self.running = new_running(ahead)
        self.state = np.array([2 * seed + 88172645463325253], np.uint64)
        self.rng = np.random.Generator(np.random.PCG64(seed))  # draws the pairs of workers
        self.counts = np.zeros(2, np.int64)
        place, waits, lags = (np.full(n, value, np.int64) for value in (0, -1, 0))
        self.solutions = []
        for worker, budget in enumerate(instance.budgets.tolist()):
            sequence = np.flatnonzero(schedule.workers == worker)
            sequence = sequence[np.argsort(schedule.starts[sequence], kind="stable")]
            set_waits(instance, schedule, sequence, budget, self.running, waits, lags)
            place[sequence] = np.arange(len(sequence))
            self.solutions.append(
                Solution(
                    np.array([len(sequence)]),
                    np.append(sequence, np.zeros(n - len(sequence), np.int64)),
                    np.zeros(n, np.int64),
                    place,
                    waits,
                    lags,
                    np.zeros((n // STRIDE + 1, 3 * ahead), np.int64),
                    np.zeros(n // STRIDE + 1, np.int64),
                )
            )
        # Sums of starts, by worker; the outputs are the same for all.
        self.now = self._decode()
        self._keep(sum(self.now))
        self.fixed = int(instance.output_tokens.sum() - instance.release.sum())

    @property
    def best_total(self) -> int:
        """Total latency of the best solution so far (steps)."""
        return self.best + self.fixed

    def run(self, temperature: float, reach: float) -> None:
        """Try some thousand moves at this temperature (steps); ``reach`` is their mean distance.

        On each worker in turn, then between pairs of workers.
        """
        n = len(self.instance)
        moves = int(MOVES * min(1.0, 2000 / n))
        budgets = self.instance.budgets.tolist()
        for worker, solution in enumerate(self.solutions):
            size = int(solution.size[0])
            if size == 0:
                continue
            sequence, waits, lags = best = self._copies(solution)
            self.now[worker], least = anneal(
                solution,
                self.requests,
                budgets[worker],
                self.now[worker],
                temperature,
                reach,
                max(1, moves * size // n),
                self.state,
                self.running,
                *best,
                self.now[worker],
                self.counts,
            )
            others = sum(self.now) - self.now[worker]
            if others + least < self.best:
                self._keep(others + least)
                self.best_sequences[worker] = sequence[:size]
                self.best_waits, self.best_lags = waits, lags
        if len(budgets) > 1:
            for _ in range(len(budgets)):
                self._trade(temperature, reach, int(TRADES * moves) // len(budgets) + 1, budgets)

    def _trade(self, temperature: float, reach: float, moves: int, budgets: list[int]) -> None:
        one, other = self.rng.choice(len(budgets), 2, replace=False).tolist()
        changes = trade(
            self.solutions[one],
            self.solutions[other],
            self.requests,
            budgets[one],
            budgets[other],
            temperature,
            reach,
            moves,
            self.state,
            self.running,
            self.counts,
        )
        self.now[one] += changes[0]
        self.now[other] += changes[1]
        if sum(self.now) < self.best:
            self._keep(sum(self.now))

    def back_to_best(self) -> None:
        """Go on from the best solution so far."""
        for solution, sequence in zip(self.solutions, self.best_sequences, strict=True):
            solution.size[0] = len(sequence)
            solution.sequence[: len(sequence)] = sequence
            solution.place[sequence] = np.arange(len(sequence))
            solution.waits[:] = self.best_waits
            solution.lags[:] = self.best_lags
        self.now = self._decode()

    def schedule(self) -> Schedule:
        """Decode the best solution so far; this is then the one that goes on."""
        self.back_to_best()
        starts = np.empty(len(self.instance), np.int64)
        workers = np.empty(len(self.instance), np.int64)
        for worker, sequence in enumerate(self.best_sequences):
            starts[sequence] = self.solutions[worker].start[: len(sequence)]
            workers[sequence] = worker
        return Schedule(starts, workers)

    def _copies(self, solution: Solution) -> tuple[IntArray, IntArray, IntArray]:
        return solution.sequence.copy(), solution.waits.copy(), solution.lags.copy()

    def _keep(self, total: int) -> None:
        """Keep the present sequences as the best, with this sum of starts."""
        self.best = total
        self.best_sequences = [s.sequence[: s.size[0]].copy() for s in self.solutions]
        _, self.best_waits, self.best_lags = self._copies(self.solutions[0])

    def _decode(self) -> list[int]:
        budgets = self.instance.budgets.tolist()
        return [
            decode(solution, self.requests, budget, self.running)
            for solution, budget in zip(self.solutions, budgets, strict=True)
        ]


def set_waits(
    instance: Instance,
    schedule: Schedule,
    sequence: IntArray,
    kv_tokens: int,
    running: Running,
    waits: IntArray,
    lags: IntArray,
) -> None:
    """Write the waits and lags, by request, with which a sequence decodes to a schedule exactly.

    ``sequence`` holds the requests of one worker of this budget by their starts: a request that
    starts later than it could waits for one that completes just then, or else for the last one that
    has started and still runs. If nothing runs it does not wait: to start earlier is better.
    """
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    starts = schedule.starts
    completes: dict[int, int] = {}
    running.ends[:] = 0
    step = 0
    for position, i in enumerate(sequence.tolist()):
        start = int(starts[i])
        if fit(running, s[i], o[i], max(step, int(a[i])), kv_tokens) < start:
            other = completes.get(start, -1)
            back = position - 1
            while other < 0 and back >= 0:
                if starts[sequence[back]] + o[sequence[back]] > start:
                    other = int(sequence[back])
                back -= 1
            if other >= 0:
                waits[i] = other
                lags[i] = start - starts[other]
        add(running, s[i], o[i], start)
        completes[start + int(o[i])] = i
        step = start
