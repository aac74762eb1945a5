"""The optimum of a handful of requests, all released at 0, by a search through every schedule.

Derived for this project. A node of the search has fixed the starts of some requests, the *placed*
P; each of the others, R, has a *first start*: the schedules of the node are those in which it
starts then or later. Why nothing better is missed, deliberate waits included:

*Branching.* The request of the least first start e either starts at e or later; the two children
hold all schedules of the node. First starts are moved on to the next step at which the request fits
beside P: in between it does not fit beside P and more.

*Bounds.* A node is left when a bound on its schedules reaches the best one found. R can have the
free memory M - U(t) that P leaves after the least first start, and no more:

- the j-th earliest completion of R is not before the j-th least sum of first start and o, nor
  before the j least volumes of R fit into the free memory;
- a request that completes at c holds its token-steps at c - d on average, each taken at the middle
  of its step (d as in ``mean_busy_time_bound``). Let y be this mean time its volume, and G(x) the
  least sum of times of x free token-steps. Any j of R have sum y >= G(V_j), V_j the sum of the j
  least volumes. As 1 / v falls along the volumes, summation by parts gives
  sum y / v >= sum_j (G(V_j) - G(V_j-1)) / v_j.

*Left shifts.* A node is left when none of its schedules is optimal:

- all of R start after the last completion of P, or after 0 without P: one step earlier all of R fit
  as well;
- a request w, placed or not, was let wait at a step a at which it fitted, fits there beside P
  still, and all others of R start at a + o_w or later: then these hold nothing where w would be,
  and w starting at a makes every schedule of the node better.

*Equal requests* may exchange their starts, so that schedules in which they start in the order of
the input are enough.

No smaller set of starts is known to be enough. Some optimum need not have each start at 0 or at the
completion of another request: with M = 10, (s, o) = (4, 3) and (2, 6), the one optimal schedule
starts the second at 2. Nor need it start each request, in some sequence, as early as those before
it allow: with M = 7, two requests (1, 2) and two (1, 4), the best such schedule has a total latency
of 19, and the optimum, which starts at 0, 1, 1, 4, of 18.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.exact_anneal import first_fit
from sortedf.kernels.jit import jit
from sortedf.kernels.profile import IntArray

SCALE = 1 << 20
"""Parts of a step that mean times are rounded down to."""

PROMPT, OUTPUT, VOLUME, TAIL, TWIN = 0, 1, 2, 3, 4
"""Rows of the array of requests, by volume ascending: TAIL is d in parts of a step, TWIN the next
equal request, -1 for none."""

FREE = -1
"""Start of a request that is not placed."""


@jit
def search(
    prompt_tokens: IntArray, output_tokens: IntArray, kv_tokens: int, most: int, starts: IntArray
) -> tuple[int, int]:
    """Find the least total latency and a schedule of it; also the number of nodes looked at.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s, o (tokens), int64 of shape (n,); s + o <= kv_tokens, volumes below 2^42.
    kv_tokens
        The budget M in tokens.
    most
        Nodes to look at. If they do not suffice the result is -1.
    starts
        Where the starts go, shape (n,): of an optimal schedule, or of the best one found.

    Notes
    -----
    Exponential in n and in o. Eight requests and M up to 20: half a millisecond on average, some
    thousand nodes.
    """
    n = len(prompt_tokens)
    order = np.argsort(
        prompt_tokens * output_tokens + output_tokens * (output_tokens + 1) // 2, kind="mergesort"
    )
    requests = _requests(prompt_tokens[order], output_tokens[order])
    start = np.full(n, FREE, np.int64)
    # Starts are at or before the last completion of P, first starts at most one step later; one
    # after the other, all complete by the sum of o.
    usage = np.zeros(2 * output_tokens.sum() + 2, np.int64)
    # First starts, and the last step at which a request was let wait though it fitted (FREE: none),
    # by the number of placed requests.
    first = np.zeros((n, n), np.int64)
    waited = np.full((n, n), FREE, np.int64)
    chosen = np.empty(n, np.int64)
    room = np.empty(n, np.int64)
    best = np.iinfo(np.int64).max
    fixed = 0  # sum of the completions of P
    depth = 0
    nodes = 0
    while depth >= 0:
        nodes += 1
        if nodes > most:
            return -1, nodes
        i = _earliest(start, first[depth])
        now = first[depth, i]
        if (
            now <= _last_completion(requests, start)
            and _bound(requests, start, first[depth], now, kv_tokens, fixed, usage, room) < best
            and not _waits_in_vain(requests, start, first[depth], waited[depth], kv_tokens, usage)
        ):
            start[i] = now
            if depth == n - 1:
                # Once found, the bound of this node is no longer below it.
                best = fixed + now + requests[OUTPUT, i]
                starts[order] = start
                start[i] = FREE
                continue
            chosen[depth] = i
            fixed += now + requests[OUTPUT, i]
            depth += 1
            _place(requests, i, start, first, waited, depth, kv_tokens, usage)
            continue
        depth -= 1
        if depth >= 0:
            i = chosen[depth]
            fixed -= start[i] + requests[OUTPUT, i]
            _let_wait(requests, i, start, first[depth], waited[depth], kv_tokens, usage)
    return best, nodes


@jit
def _requests(prompt: IntArray, output: IntArray) -> IntArray:
    n = len(prompt)
    requests = np.empty((5, n), np.int64)
    for i in range(n):
        s, o = prompt[i], output[i]
        volume = s * o + o * (o + 1) // 2
        requests[PROMPT, i] = s
        requests[OUTPUT, i] = o
        requests[VOLUME, i] = volume
        requests[TAIL, i] = _parts(s * o * o + o * (o + 1) * (2 * o + 1) // 6, 2 * volume)
        requests[TWIN, i] = -1
        for j in range(n - 1, i, -1):
            if prompt[j] == s and output[j] == o:
                requests[TWIN, i] = j
    return requests


@jit
def _parts(numerator: int, denominator: int) -> int:
    """Round a fraction down to parts of a step."""
    return numerator // denominator * SCALE + numerator % denominator * SCALE // denominator


@jit
def _earliest(start: IntArray, first: IntArray) -> int:
    """Return the request of R with the least first start."""
    i = -1
    for j in range(len(start)):
        if start[j] == FREE and (i < 0 or first[j] < first[i]):
            i = j
    return i


@jit
def _last_completion(requests: IntArray, start: IntArray) -> int:
    last = 0
    for i in range(len(start)):
        if start[i] != FREE:
            last = max(last, start[i] + requests[OUTPUT, i])
    return last


@jit
def _bound(
    requests: IntArray,
    start: IntArray,
    first: IntArray,
    now: int,
    kv_tokens: int,
    fixed: int,
    usage: IntArray,
    room: IntArray,
) -> int:
    """Bound the total latency of the schedules of a node; ``now`` is the least first start."""
    left = 0
    for i in range(len(start)):
        if start[i] == FREE:
            completion = first[i] + requests[OUTPUT, i]
            place = left
            while place > 0 and room[place - 1] > completion:
                room[place] = room[place - 1]
                place -= 1
            room[place] = completion
            left += 1
    by_completions = fixed
    by_means = 0
    step = now
    free = 0
    left = 0
    for i in range(len(start)):
        if start[i] != FREE:
            continue
        need = requests[VOLUME, i]
        twice = 0  # sum of the middles of steps, doubled
        while need > 0:
            if free == 0:
                step += 1
                free = kv_tokens - usage[step]
            taken = min(free, need)
            twice += taken * (2 * step - 1)
            need -= taken
            free -= taken
        by_completions += max(step, room[left])
        by_means += _parts(twice, 2 * requests[VOLUME, i]) + requests[TAIL, i]
        left += 1
    return max(by_completions, fixed - (-by_means // SCALE))


@jit
def _waits_in_vain(
    requests: IntArray,
    start: IntArray,
    first: IntArray,
    waited: IntArray,
    kv_tokens: int,
    usage: IntArray,
) -> bool:
    """Whether a request could go back to where it was let wait, whatever the others of R do."""
    n = len(start)
    for w in range(n):
        begin = waited[w]
        if begin == FREE:
            continue
        output = requests[OUTPUT, w]
        possible = True
        for j in range(n):
            if j != w and start[j] == FREE and first[j] < begin + output:
                possible = False
        k = output
        while possible and k > 0:
            held = usage[begin + k] + requests[PROMPT, w] + k
            if start[w] != FREE and begin + k > start[w]:
                held -= requests[PROMPT, w] + begin + k - start[w]
            possible = held <= kv_tokens
            k -= 1
        if possible:
            return True
    return False


@jit
def _place(
    requests: IntArray,
    i: int,
    start: IntArray,
    first: IntArray,
    waited: IntArray,
    depth: int,
    kv_tokens: int,
    usage: IntArray,
) -> None:
    """Let request i run from its start, and fill the rows of the child, which is at ``depth``."""
    for k in range(1, requests[OUTPUT, i] + 1):
        usage[start[i] + k] += requests[PROMPT, i] + k
    for j in range(len(start)):
        waited[depth, j] = waited[depth - 1, j]
        if start[j] == FREE:
            first[depth, j] = first_fit(
                requests[PROMPT, j], requests[OUTPUT, j], kv_tokens, first[depth - 1, j], usage
            )


@jit
def _let_wait(
    requests: IntArray,
    i: int,
    start: IntArray,
    first: IntArray,
    waited: IntArray,
    kv_tokens: int,
    usage: IntArray,
) -> None:
    """Take back the start of request i: it starts later, and so do those equal to it."""
    s, o = requests[PROMPT, i], requests[OUTPUT, i]
    for k in range(1, o + 1):
        usage[start[i] + k] -= s + k
    waited[i] = start[i]
    step = first_fit(s, o, kv_tokens, start[i] + 1, usage)
    start[i] = FREE
    while i >= 0:
        # Equal ones before it are placed already; those after it are not.
        first[i] = max(first[i], step)
        i = requests[TWIN, i]
