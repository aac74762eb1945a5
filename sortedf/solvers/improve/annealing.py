"""Annealing of one solution: schedules into sequences with waits, and back."""

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
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

MOVES = 20_000
"""Moves of one iteration on up to 2,000 requests; fewer on more, so that it takes no longer."""


class Annealer:
    """A solution that is being annealed, and the best that it has been.

    Parameters
    ----------
    instance
        The backlog; every request fits the budget alone.
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
        self.counts = np.zeros(2, np.int64)
        sequence, waits, lags = sequence_of(instance, schedule, self.running)
        self.solution = Solution(
            sequence,
            np.zeros(n, np.int64),
            np.argsort(sequence),
            waits,
            lags,
            np.zeros((n // STRIDE + 1, 3 * ahead), np.int64),
            np.zeros(n // STRIDE + 1, np.int64),
        )
        # Sums of starts; the outputs are the same for all.
        self.now = self.best = self._decode()
        self.best_parts = sequence.copy(), waits.copy(), lags.copy()
        self.fixed = int(instance.output_tokens.sum() - instance.release.sum())

    @property
    def best_total(self) -> int:
        """Total latency of the best solution so far (steps)."""
        return self.best + self.fixed

    def run(self, temperature: float, reach: float) -> None:
        """Try some thousand moves at this temperature (steps); ``reach`` is their mean distance."""
        moves = int(MOVES * min(1.0, 2000 / len(self.instance)))
        self.now, self.best = anneal(
            self.solution,
            self.requests,
            self.instance.kv_tokens,
            self.now,
            temperature,
            reach,
            moves,
            self.state,
            self.running,
            *self.best_parts,
            self.best,
            self.counts,
        )

    def back_to_best(self) -> None:
        """Go on from the best solution so far."""
        for part, best in zip(
            (self.solution.sequence, self.solution.waits, self.solution.lags),
            self.best_parts,
            strict=True,
        ):
            part[:] = best
        self.solution.place[self.solution.sequence] = np.arange(len(self.instance))
        self.now = self._decode()

    def schedule(self) -> Schedule:
        """Decode the best solution so far; this is then the one that goes on."""
        self.back_to_best()
        starts = np.empty(len(self.instance), np.int64)
        starts[self.solution.sequence] = self.solution.start
        return Schedule(starts)

    def _decode(self) -> int:
        return decode(self.solution, self.requests, self.instance.kv_tokens, self.running)


def sequence_of(
    instance: Instance, schedule: Schedule, running: Running
) -> tuple[IntArray, IntArray, IntArray]:
    """Write a feasible schedule as a sequence with waits that decodes to it exactly.

    Returns the sequence (by position), and the waits and lags (by request): a request that starts
    later than it could waits for one that completes just then, or else for the last one that has
    started and still runs. If nothing runs it does not wait: to start earlier is better.
    """
    s, o, a = instance.prompt_tokens, instance.output_tokens, instance.release
    starts = schedule.starts
    n = len(instance)
    sequence = np.lexsort((np.arange(n), starts))
    waits = np.full(n, -1, np.int64)
    lags = np.zeros(n, np.int64)
    completes: dict[int, int] = {}
    running.ends[:] = 0
    step = 0
    for position, i in enumerate(sequence.tolist()):
        start = int(starts[i])
        if fit(running, s[i], o[i], max(step, int(a[i])), instance.kv_tokens) < start:
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
    return sequence, waits, lags
