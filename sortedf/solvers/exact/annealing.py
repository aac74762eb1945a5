"""A good schedule at first: annealing on the order of starts."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.exact_anneal import anneal
from sortedf.model import Schedule
from sortedf.solvers.exact.work import Work

STEPS = 1_000_000
"""Sum of output tokens that is decoded between two looks at the clock, about 20 ms."""


def by_annealing(work: Work, seed: int, rounds: int) -> None:
    """Anneal from the best schedule, ``rounds`` rounds of about 20 ms, ever cooler.

    Temperatures from 1e-3 to 1e-5 of the total latency: measured on the synthetic family of [3],
    where 20 rounds end within 1 % of the best known, ten times as many little nearer.
    """
    instance = work.instance
    prompt, output, release = instance.prompt_tokens, instance.output_tokens, instance.release
    best = work.schedule.starts.copy()
    best_sum = int(best.sum())
    sequence = np.argsort(best, kind="stable")
    # Every step before the last start has something running, once all are released.
    usage = np.zeros(int(best.max() + release.max() + output.sum()) + 2, np.int64)
    state = np.array([2 * seed + 1], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    moves = min(max(10, STEPS // int(output.sum())), 1000)
    hot, cold = 1e-3 * work.best, 1e-5 * work.best
    for k in range(rounds):
        best_sum = anneal(
            prompt,
            output,
            release,
            instance.kv_tokens,
            sequence,
            usage,
            moves,
            hot * (cold / hot) ** (k / rounds),
            hot * (cold / hot) ** ((k + 1) / rounds),
            state,
            best,
            best_sum,
        )
        work.tick()
        work.found(Schedule(best))
