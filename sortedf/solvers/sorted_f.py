"""Sorted-F [1, arXiv 2508.06133]: batches of least F in a row, run by list scheduling.

F(X) = (sum of o in X) / |X|^2. Phase 1 takes from the requests that remain the feasible batch of
least F, sorts it by output, appends it to the order, and repeats. Phase 2 is list scheduling by
that order. Total latency at most 48 times the optimum, if every batch is of least F [1].
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeAlias

import numpy as np

from sortedf.errors import InfeasibleError, OptionError
from sortedf.kernels.batch_fill import WEIGHT_UNIT
from sortedf.kernels.batch_select import select_by_quantiles, select_by_swaps, select_exactly
from sortedf.model import Instance
from sortedf.model.instance import IntArray
from sortedf.solvers.in_order import schedule_in_order
from sortedf.solvers.solver import Planned, Solver

Selector: TypeAlias = Callable[[IntArray, IntArray, IntArray, int], IntArray]
"""``select(prompt_tokens, output_tokens, left, kv_tokens)``: a batch out of what is left.

All requests by output ascending, shape (n,); the positions that remain, ascending; the budget. It
returns the positions of a feasible batch, ascending, at least one.
"""

QUANTILES = 16
SAMPLE = 256
"""Thresholds that ``quantile-greedy`` tries, and size of the sample that they come from; chosen by
``bench/quantile_sweep.py``."""

WEIGHTS = WEIGHT_UNIT >> 12 << np.arange(15)
"""Output tokens that a prompt token counts as in the starts of ``local-swap``: 2^-12 .. 4."""

EXACT_REQUESTS = 2_000
SWAP_REQUESTS = 20_000
"""Requests up to which ``exact-dp`` and ``local-swap`` are practical; see docs/solvers."""

MAX_NODES = 1 << 26
"""Takings that one search of ``exact-dp`` may remember, 16 bytes each."""


def sorted_f_order(instance: Instance, select: Selector) -> IntArray:
    """Rank the requests by phase 1 of Sorted-F, with the batches that ``select`` chooses.

    A batch has the memory of all workers together. Releases are not looked at: the order says who
    goes first among those that have come.

    Returns
    -------
    ndarray
        The requests by rank, int64 of shape (n,). Inside a batch by output, ties by input order.

    Raises
    ------
    InfeasibleError
        Naming the requests that are larger than the budget.
    """
    if len(oversized := instance.oversized):
        tokens = instance.prompt_tokens + instance.output_tokens
        raise InfeasibleError(
            [(i, instance.ids[i], int(tokens[i])) for i in oversized.tolist()], instance.kv_tokens
        )
    by_output = np.argsort(instance.output_tokens, kind="stable")
    prompt = instance.prompt_tokens[by_output]
    output = instance.output_tokens[by_output]
    # More memory than all requests together fill changes nothing, and keeps sums in int64.
    budget = min(instance.pooled.kv_tokens, int(prompt.sum() + output.sum()))
    left = np.arange(len(instance))
    batches = []
    while len(left):
        batch = select(prompt, output, left, budget)
        batches.append(batch)
        left = np.delete(left, np.searchsorted(left, batch))
    return by_output[np.concatenate(batches)]


def exact_batch(prompt: IntArray, output: IntArray, left: IntArray, kv_tokens: int) -> IntArray:
    """Select a batch of least F; of equal ones, one with the most requests.

    The dynamic program over (number taken, sum of s), kept small by dominance and price bounds; see
    :mod:`sortedf.kernels.batch_search`.

    Raises
    ------
    OptionError
        If a search would need more memory than ``MAX_NODES`` allows: this backlog is too hard.
    """
    s, o = prompt[left], output[left]
    start = select_by_swaps(s, o, kv_tokens, QUANTILES, WEIGHTS)
    batch = select_exactly(s, o, kv_tokens, start, MAX_NODES)
    if len(batch) == 0:
        raise OptionError(
            f"exact-dp runs out of memory on a batch out of {len(left)} requests; "
            "use local-swap for this backlog"
        )
    taken: IntArray = left[batch]
    return taken


def swap_batch(prompt: IntArray, output: IntArray, left: IntArray, kv_tokens: int) -> IntArray:
    """Select a batch by local swap search; see :func:`sortedf.kernels.batch_select`."""
    taken: IntArray = left[
        select_by_swaps(prompt[left], output[left], kv_tokens, QUANTILES, WEIGHTS)
    ]
    return taken


def quantile_batch(
    prompt: IntArray,
    output: IntArray,
    left: IntArray,
    kv_tokens: int,
    sample: int = SAMPLE,
    quantiles: int = QUANTILES,
) -> IntArray:
    """Select a batch by quantile greedy; see :func:`sortedf.kernels.batch_select`."""
    return select_by_quantiles(prompt, output, left, kv_tokens, sample, quantiles)


def _solver(name: str, title: str, select: Selector, most: float, fast_up_to: int) -> Solver:
    def plan(instance: Instance, seed: int, lookahead: int = 1) -> Planned:
        order = sorted_f_order(instance, select)
        return Planned(schedule_in_order(instance, order, lookahead), {"lookahead": lookahead})

    return Solver(
        name,
        title,
        plan,
        ("lookahead",),
        fast_up_to=fast_up_to,
        supports=lambda instance: len(instance) <= most,
        scope=f"up to {most} requests",
        instead="quantile-greedy",
    )


SOLVERS = (
    _solver("exact-dp", "Sorted-F, batches of least F", exact_batch, EXACT_REQUESTS, 500),
    _solver("local-swap", "Sorted-F, batches by local swap", swap_batch, SWAP_REQUESTS, 2000),
    _solver("quantile-greedy", "Sorted-F, batches by quantile greedy", quantile_batch, inf, 50_000),
)
