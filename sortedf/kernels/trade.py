"""Annealing between two workers: requests change places, or one goes over to the other worker.

Each worker has a sequence of its own; see :mod:`sortedf.kernels.anneal`. What one gains and the
other loses by a move counts together. A request that goes over waits for nobody any more, and
nobody of those it leaves for it. Derived for this project.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.kernels.anneal import (
    IntArray,
    Requests,
    Running,
    Solution,
    random,
    refresh,
    try_from,
)
from sortedf.kernels.jit import jit

EXCHANGES = 0.7  # share of the moves; the others send one request over


@jit
def trade(
    one: Solution,
    other: Solution,
    requests: Requests,
    kv_one: int,
    kv_other: int,
    temperature: float,
    reach: float,
    moves: int,
    state: npt.NDArray[Any],
    running: Running,
    counts: IntArray,
) -> tuple[int, int]:
    """Try ``moves`` moves at a temperature (steps); returns the changes of both sums of starts.

    ``reach`` is how far, in positions, two requests that change places stand apart on average, by
    their starts. A request goes only to a worker whose budget, ``kv_one`` or ``kv_other`` tokens,
    holds it. ``state`` is that of the random numbers, ``counts`` the moves tried and accepted.
    """
    changed_one = changed_other = 0
    fresh = np.empty(len(one.place), np.int64)
    fresh_other = np.empty(len(one.place), np.int64)
    for _ in range(moves):
        limit = -temperature * np.log(1.0 - random(state))
        if random(state) < EXCHANGES:
            if one.size[0] == 0 or other.size[0] == 0:
                continue
            low = int(random(state) * one.size[0])
            at = _near(other, one.start[low], reach, state)
            i, j = one.sequence[low], other.sequence[at]
            sizes = _size(requests, i) <= kv_other and _size(requests, j) <= kv_one
            if not sizes or _alike(requests, i, j):
                continue
            counts[0] += 1
            lost, gained = _exchange(
                one,
                other,
                requests,
                kv_one,
                kv_other,
                low,
                at,
                limit,
                temperature,
                running,
                fresh,
                fresh_other,
                counts,
            )
        else:
            # Either may be the one that gives.
            gives = random(state) < 0.5
            giver, taker = (one, other) if gives else (other, one)
            kv_giver, kv_taker = (kv_one, kv_other) if gives else (kv_other, kv_one)
            if giver.size[0] == 0:
                continue
            low = int(random(state) * giver.size[0])
            if _size(requests, giver.sequence[low]) > kv_taker:
                continue
            at = 0
            if taker.size[0] > 0:
                at = _near(taker, giver.start[low], reach, state) + int(random(state) * 2.0)
            counts[0] += 1
            lost, gained = _send(
                giver,
                taker,
                requests,
                kv_giver,
                kv_taker,
                low,
                at,
                limit,
                temperature,
                running,
                fresh,
                fresh_other,
                counts,
            )
            if not gives:
                lost, gained = gained, lost
        changed_one += lost
        changed_other += gained
    return changed_one, changed_other


@jit
def _size(requests: Requests, i: int) -> int:
    return requests.prompt[i] + requests.output[i]


@jit
def _alike(requests: Requests, i: int, j: int) -> bool:
    """Whether two requests can stand for each other."""
    return (
        requests.prompt[i] == requests.prompt[j]
        and requests.output[i] == requests.output[j]
        and requests.release[i] == requests.release[j]
    )


@jit
def _near(solution: Solution, start: int, reach: float, state: npt.NDArray[Any]) -> int:
    """Draw a position whose start lies near; the sequence is not empty."""
    n = solution.size[0]
    at = np.searchsorted(solution.start[:n], start)
    distance = int(-np.log(1.0 - random(state)) * reach)
    if random(state) < 0.5:
        distance = -distance
    return min(max(at + distance, 0), n - 1)


@jit
def _exchange(
    one: Solution,
    other: Solution,
    requests: Requests,
    kv_one: int,
    kv_other: int,
    low: int,
    at: int,
    limit: float,
    temperature: float,
    running: Running,
    fresh: IntArray,
    fresh_other: IntArray,
    counts: IntArray,
) -> tuple[int, int]:
    """Let the requests at ``low`` and ``at`` change places; returns the changes, 0 if refused."""
    i, j = one.sequence[low], other.sequence[at]
    wait_i, wait_j = one.waits[i], one.waits[j]
    settled = one.start[low] + requests.output[i]
    settled_other = other.start[at] + requests.output[j]
    _put(one, low, j)
    _put(other, at, i)
    one.waits[i] = one.waits[j] = -1
    # First where the request that comes holds less: there time is gained, and it says how much the
    # other worker may lose.
    if _volume(requests, j) <= _volume(requests, i):
        gain, end = try_from(one, requests, kv_one, running, low, low, np.inf, 0.0, settled, fresh)
        rest = limit - gain
        gain_other, end_other = try_from(
            other,
            requests,
            kv_other,
            running,
            at,
            at,
            rest,
            temperature,
            settled_other,
            fresh_other,
        )
        accepted = end_other >= 0 and gain + gain_other <= limit
    else:
        gain_other, end_other = try_from(
            other, requests, kv_other, running, at, at, np.inf, 0.0, settled_other, fresh_other
        )
        rest = limit - gain_other
        gain, end = try_from(
            one, requests, kv_one, running, low, low, rest, temperature, settled, fresh
        )
        accepted = end >= 0 and gain + gain_other <= limit
    if not accepted:
        _put(one, low, i)
        _put(other, at, j)
        one.waits[i], one.waits[j] = wait_i, wait_j
        return 0, 0
    counts[1] += 1
    _forget(one, i, low)
    _forget(other, j, at)
    _keep(one, requests, running, low, end, fresh)
    _keep(other, requests, running, at, end_other, fresh_other)
    return gain, gain_other


@jit
def _send(
    giver: Solution,
    taker: Solution,
    requests: Requests,
    kv_giver: int,
    kv_taker: int,
    low: int,
    at: int,
    limit: float,
    temperature: float,
    running: Running,
    fresh: IntArray,
    fresh_taker: IntArray,
    counts: IntArray,
) -> tuple[int, int]:
    """Send the request at ``low`` to position ``at``; returns the changes, 0 if refused."""
    i = giver.sequence[low]
    start, wait = giver.start[low], giver.waits[i]
    settled = start + requests.output[i]
    _take_out(giver, low)
    giver.waits[i] = -1
    gain, end = try_from(
        giver, requests, kv_giver, running, low, low - 1, np.inf, 0.0, settled, fresh
    )
    gain -= start
    _put_in(taker, at, i)
    rest = limit - gain
    gain_taker, end_taker = try_from(
        taker, requests, kv_taker, running, at, at, rest, temperature, 0, fresh_taker
    )
    if end_taker < 0 or gain + gain_taker > limit:
        _take_out(taker, at)
        _put_in(giver, low, i)
        giver.start[low] = start
        giver.waits[i] = wait
        return 0, 0
    counts[1] += 1
    _forget(giver, i, low)
    # All later checkpoints stand one position off.
    for q in range(low, end):
        giver.start[q] = fresh[q]
    refresh(giver, requests, running, low, giver.size[0])
    for q in range(at, end_taker):
        taker.start[q] = fresh_taker[q]
    refresh(taker, requests, running, at, taker.size[0])
    return gain, gain_taker


@jit
def _volume(requests: Requests, i: int) -> float:
    """Token-steps, as a float: only compared."""
    return (requests.prompt[i] + (requests.output[i] + 1) / 2) * requests.output[i]


@jit
def _put(solution: Solution, position: int, i: int) -> None:
    solution.sequence[position] = i
    solution.place[i] = position


@jit
def _take_out(solution: Solution, position: int) -> None:
    """Remove a position, with its start; those behind it move up."""
    solution.size[0] -= 1
    for q in range(position, solution.size[0]):
        _put(solution, q, solution.sequence[q + 1])
        solution.start[q] = solution.start[q + 1]


@jit
def _put_in(solution: Solution, position: int, i: int) -> None:
    """Insert a request at a position, its start 0 as yet; those behind it move back."""
    for q in range(solution.size[0], position, -1):
        _put(solution, q, solution.sequence[q - 1])
        solution.start[q] = solution.start[q - 1]
    solution.size[0] += 1
    _put(solution, position, i)
    solution.start[position] = 0


@jit
def _forget(solution: Solution, i: int, position: int) -> None:
    """Let nobody wait any more for a request that has left its position."""
    for q in range(position, solution.size[0]):
        if solution.waits[solution.sequence[q]] == i:
            solution.waits[solution.sequence[q]] = -1


@jit
def _keep(
    solution: Solution, requests: Requests, running: Running, low: int, end: int, fresh: IntArray
) -> None:
    """Take the new starts of the positions from ``low`` to before ``end``."""
    for q in range(low, end):
        solution.start[q] = fresh[q]
    refresh(solution, requests, running, low, end)
