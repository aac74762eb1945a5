"""Annealing on the sequence of starts, decoded strictly, with deliberate waits.

A solution is a sequence of the requests; each starts at the earliest step at which it fits and that
is not before the start of its predecessor. A request may also wait for another one that stands
before it: it starts no earlier than so many steps after that one's start, most often when that one
completes. With such waits a sequence reproduces any schedule. Derived for this project.

A move changes the sequence or a wait; the schedule is decoded anew from there on, until it is again
what it was, or so much worse that the move will not be accepted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit

IntArray = npt.NDArray[Any]

STRIDE = 32  # positions between two checkpoints


class Running(NamedTuple):
    """Completions ahead, ascending, those of equal step merged: arrays of shape (A,) and ends (2,).

    ``holders`` and ``base`` are sums over the requests that complete at this step or later: these
    hold base + holders c tokens at the completion c. ``ends`` holds the first entry in use and the
    number of entries.
    """

    completion: IntArray
    holders: IntArray
    base: IntArray
    ends: IntArray


@jit
def new_running(ahead: int) -> Running:
    """Nothing running, with room for this many different completions ahead."""
    return Running(
        np.empty(ahead, np.int64),
        np.empty(ahead, np.int64),
        np.empty(ahead, np.int64),
        np.zeros(2, np.int64),
    )


@jit
def fit(running: Running, prompt: int, output: int, step: int, kv_tokens: int) -> int:
    """First step >= ``step`` at which the request fits; completions before it are left as they are.

    The reasoning is that of :func:`sortedf.kernels.profile.earliest_start`.
    """
    completion = running.completion
    count = running.ends[1]
    first = running.ends[0]
    while first < count and completion[first] <= step:
        first += 1
    running.ends[0] = first
    p = step
    while True:
        while first < count and completion[first] <= p:
            first += 1
        end = p + output
        slack = kv_tokens - prompt + p
        jump = p
        j = first
        while j < count and completion[j] <= end:
            c = completion[j]
            w = running.base[j] + (running.holders[j] + 1) * c
            if w > slack:
                jump = max(jump, min(c, w - slack + p))
            j += 1
        if j < count:
            c = completion[j]
            if running.base[j] + running.holders[j] * end + prompt + output > kv_tokens:
                w = running.base[j] + (running.holders[j] + 1) * c
                jump = max(jump, min(c, w - slack + p))
        if jump == p:
            return p
        p = jump


@jit
def add(running: Running, prompt: int, output: int, step: int) -> None:
    """Start a request at this step; completions up to it are forgotten."""
    completion, holders, base = running.completion, running.holders, running.base
    first = running.ends[0]
    while first < running.ends[1] and completion[first] <= step:
        first += 1
    running.ends[0] = first
    if first > 0 and running.ends[1] == len(completion):
        # Room at the end: move what is in use to the front.
        count = running.ends[1] - first
        for k in range(count):
            completion[k] = completion[first + k]
            holders[k] = holders[first + k]
            base[k] = base[first + k]
        running.ends[0] = 0
        running.ends[1] = count
        first = 0
    count = running.ends[1]
    end = step + output
    extra = prompt - step
    j = first
    while j < count and completion[j] <= end:
        holders[j] += 1
        base[j] += extra
        j += 1
    if j > first and completion[j - 1] == end:
        return
    for k in range(count, j, -1):
        completion[k] = completion[k - 1]
        holders[k] = holders[k - 1]
        base[k] = base[k - 1]
    completion[j] = end
    holders[j] = 1
    base[j] = extra
    if j < count:
        holders[j] += holders[j + 1]
        base[j] += base[j + 1]
    running.ends[1] = count + 1


class Requests(NamedTuple):
    """s, o (tokens) and a (steps) by request, shape (n,)."""

    prompt: IntArray
    output: IntArray
    release: IntArray


class Solution(NamedTuple):
    """The sequence of one worker, the waits, and what they decode to.

    ``sequence`` and ``start`` go by position; the first ``size[0]`` are in use. By request, for all
    workers: ``place`` (the inverse of the sequence),
    ``waits`` (for which other one, or -1) and ``lags`` (how many steps after that one's start, at
    most its output). ``marks`` and ``mark_ends`` are the checkpoints: row k is what runs before
    position k STRIDE (the end, too), its completion, holders and base one after the other.
    """

    size: IntArray
    sequence: IntArray
    start: IntArray
    place: IntArray
    waits: IntArray
    lags: IntArray
    marks: IntArray
    mark_ends: IntArray


@jit
def decode(solution: Solution, requests: Requests, kv_tokens: int, running: Running) -> int:
    """Decode all of a solution, set its checkpoints; returns the sum of the starts."""
    running.ends[:] = 0
    step = 0
    total = 0
    for q in range(solution.size[0] + 1):
        if q % STRIDE == 0:
            _save(solution, running, q // STRIDE)
        if q == solution.size[0]:
            break
        i = solution.sequence[q]
        step = fit(
            running,
            requests.prompt[i],
            requests.output[i],
            _not_before(solution, requests, i, q, step),
            kv_tokens,
        )
        add(running, requests.prompt[i], requests.output[i], step)
        solution.start[q] = step
        total += step
    return total


@jit
def _not_before(solution: Solution, requests: Requests, i: int, position: int, step: int) -> int:
    """Earliest step for request i: after its predecessor's start, and what it waits for.

    A wait for a request of another worker does not count.
    """
    step = max(step, requests.release[i])
    other = solution.waits[i]
    if other >= 0:
        at = solution.place[other]
        if at < position and solution.sequence[at] == other:
            return max(step, solution.start[at] + solution.lags[i])
    return step


@jit
def _save(solution: Solution, running: Running, mark: int) -> None:
    first, count = running.ends[0], running.ends[1]
    row = solution.marks[mark]
    size = count - first
    for k in range(size):
        row[3 * k] = running.completion[first + k]
        row[3 * k + 1] = running.holders[first + k]
        row[3 * k + 2] = running.base[first + k]
    solution.mark_ends[mark] = size


@jit
def _load(solution: Solution, running: Running, mark: int) -> None:
    row = solution.marks[mark]
    size = solution.mark_ends[mark]
    for k in range(size):
        running.completion[k] = row[3 * k]
        running.holders[k] = row[3 * k + 1]
        running.base[k] = row[3 * k + 2]
    running.ends[0] = 0
    running.ends[1] = size


@jit
def anneal(
    solution: Solution,
    requests: Requests,
    kv_tokens: int,
    total: int,
    temperature: float,
    reach: float,
    moves: int,
    state: npt.NDArray[Any],
    running: Running,
    best_sequence: IntArray,
    best_waits: IntArray,
    best_lags: IntArray,
    best_total: int,
    counts: IntArray,
) -> tuple[int, int]:
    """Try ``moves`` moves at a temperature (steps).

    Returns the sum of starts of the solution and the best seen, kept in ``best_sequence`` and
    ``best_waits``. ``reach`` is the mean distance of a move in positions. ``state`` is that of the
    random numbers (one word).
    """
    n = solution.size[0]
    fresh = np.empty(n, np.int64)  # new starts by position, while a move is tried
    for _ in range(moves):
        limit = -temperature * np.log(1.0 - random(state))
        # The move: positions low..high are permuted, or one wait is changed.
        kind = random(state)
        low = int(random(state) * n)
        other_wait = -1
        changed = -1
        old_wait = -1
        old_lag = 0
        if kind < 0.15:
            changed = solution.sequence[low]
            high = low
            if solution.waits[changed] < 0:
                # Wait for one of those that run at its start: the place before tells of some.
                back = 1 + int(-np.log(1.0 - random(state)) * 3.0 * reach)
                if back > low:
                    continue
                other_wait = solution.sequence[low - back]
                if solution.start[low - back] + requests.output[other_wait] <= solution.start[low]:
                    continue
            old_wait = solution.waits[changed]
            old_lag = solution.lags[changed]
        else:
            distance = 1 + int(-np.log(1.0 - random(state)) * reach)
            high = low + distance
            if high >= n or solution.start[low] == solution.start[high]:
                continue
        # From `settled` on nothing runs as it was placed before, of what the move displaces.
        settled = 0
        for q in range(low, high + 1):
            completes = solution.start[q] + requests.output[solution.sequence[q]]
            settled = max(settled, completes)
        # Do it.
        backwards = False
        if changed >= 0:
            solution.waits[changed] = other_wait
            if other_wait >= 0:
                solution.lags[changed] = requests.output[other_wait]
        elif kind < 0.5:
            _swap(solution, low, high)
        else:
            backwards = kind < 0.75
            _rotate(solution, low, high, backwards)
        counts[0] += 1
        gain, end = try_from(
            solution, requests, kv_tokens, running, low, high, limit, temperature, settled, fresh
        )
        if end >= 0 and gain <= limit:
            counts[1] += 1
            total += gain
            for q in range(low, end):
                solution.start[q] = fresh[q]
            refresh(solution, requests, running, low, end)
            if total < best_total:
                best_total = total
                best_sequence[:n] = solution.sequence[:n]
                best_waits[:] = solution.waits
                best_lags[:] = solution.lags
            continue
        if changed >= 0:
            solution.waits[changed] = old_wait
            solution.lags[changed] = old_lag
        elif kind < 0.5:
            _swap(solution, low, high)
        else:
            _rotate(solution, low, high, not backwards)
    return total, best_total


@jit
def try_from(
    solution: Solution,
    requests: Requests,
    kv_tokens: int,
    running: Running,
    low: int,
    high: int,
    limit: float,
    temperature: float,
    settled: int,
    fresh: IntArray,
) -> tuple[int, int]:
    """Decode the changed sequence from ``low``: change of the sum of starts, and where it ends.

    ``settled`` is the last completion, before the change, of the requests at low..high.
    The end is the first position from which on nothing changes; -1 when the move was given up.
    """
    n = solution.size[0]
    mark = low // STRIDE
    _load(solution, running, mark)
    for q in range(mark * STRIDE, low):
        i = solution.sequence[q]
        add(running, requests.prompt[i], requests.output[i], solution.start[q])
    step = solution.start[low - 1] if low > 0 else 0
    gain = 0
    margin = limit + 3.0 * temperature
    for q in range(low, n):
        i = solution.sequence[q]
        floor = max(step, requests.release[i])
        other = solution.waits[i]
        if other >= 0:
            at = solution.place[other]
            if at < q and solution.sequence[at] == other:
                began = fresh[at] if at >= low else solution.start[at]
                floor = max(floor, began + solution.lags[i])
        step = fit(running, requests.prompt[i], requests.output[i], floor, kv_tokens)
        add(running, requests.prompt[i], requests.output[i], step)
        fresh[q] = step
        gain += step - solution.start[q]
        if q <= high:
            if step + requests.output[i] > settled:
                settled = step + requests.output[i]
            continue
        if step == solution.start[q]:
            if step >= settled:
                return gain, q
        else:
            settled = max(settled, max(step, solution.start[q]) + requests.output[i])
            if gain > margin:
                return gain, -1
    return gain, n


@jit
def refresh(
    solution: Solution,
    requests: Requests,
    running: Running,
    low: int,
    end: int,
) -> None:
    """Set the checkpoints anew that lie after ``low`` and up to ``end``."""
    mark = low // STRIDE
    _load(solution, running, mark)
    for q in range(mark * STRIDE, min(end + STRIDE, solution.size[0] + 1)):
        if q % STRIDE == 0 and q > low:
            _save(solution, running, q // STRIDE)
            if q >= end:
                return
        if q == solution.size[0]:
            return
        i = solution.sequence[q]
        add(running, requests.prompt[i], requests.output[i], solution.start[q])


@jit
def _swap(solution: Solution, low: int, high: int) -> None:
    sequence, place = solution.sequence, solution.place
    sequence[low], sequence[high] = sequence[high], sequence[low]
    place[sequence[low]] = low
    place[sequence[high]] = high


@jit
def _rotate(solution: Solution, low: int, high: int, backwards: bool) -> None:
    """Move the request at ``low`` to ``high``, or backwards that at ``high`` to ``low``."""
    sequence, place = solution.sequence, solution.place
    if backwards:
        moved = sequence[high]
        for q in range(high, low, -1):
            sequence[q] = sequence[q - 1]
            place[sequence[q]] = q
        sequence[low] = moved
        place[moved] = low
    else:
        moved = sequence[low]
        for q in range(low, high):
            sequence[q] = sequence[q + 1]
            place[sequence[q]] = q
        sequence[high] = moved
        place[moved] = high


@jit
def random(state: npt.NDArray[Any]) -> float:
    """Next number of a xorshift64* stream, uniform in [0, 1)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return float((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * 2.0**-53
