"""The batch of a given size and least sum of outputs: the dynamic program of [1], kept small.

The requests are gone through by output descending. A state is what the ones taken so far add up to:
their number, their prompt tokens S and their outputs V. One more request (s, o), the k-th, has the
shortest output of all so far, and may be taken iff ``S + s + k o <= M``: nothing else about the
past matters. So of two states with equally many taken, one with no less S and no less V is never
needed (dominance), nor is one from which no batch within the limit can be reached by the price
bound of :func:`~sortedf.kernels.batch_prices.reduced_costs`. Requests that the same bound rules in
or out beforehand branch nothing. Derived for this project; the plain program of the paper takes
O(n^2 M) time.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.batch_fill import IntArray, order_by
from sortedf.kernels.batch_prices import FAR, reduced_costs
from sortedf.kernels.jit import jit

OUT, FREE, IN = 0, 1, 2
PROMPT, OUTPUT, COST, NODE = 0, 1, 2, 3  # rows of the array of states

NOT_FOUND = -1
TOO_MANY = -2


@jit
def search_size(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    kv_tokens: int,
    count: int,
    most: int,
    price: IntArray,
    scale: int,
    max_nodes: int,
) -> tuple[int, IntArray, int]:
    """Find the batch of ``count`` requests of least sum of outputs, if that is at most ``most``.

    Parameters
    ----------
    prompt_tokens, output_tokens
        s and o by output ascending, int64 of shape (n,).
    kv_tokens
        The budget M.
    count, most
        Size of the batch, 1..n, and the greatest sum of outputs that is of interest.
    price, scale
        Integer prices, shape (n,), and their unit: any will do, good ones keep the states few.
    max_nodes
        Takings remembered at most (16 bytes each).

    Returns
    -------
    tuple
        Sum of outputs, positions ascending, shape (count,), and takings remembered at the end.
        The sum is ``NOT_FOUND`` when there is no such batch, ``TOO_MANY`` when the search was
        given up.
    """
    nobody = np.empty(0, np.int64)
    cost = reduced_costs(prompt_tokens, output_tokens, price, scale)
    paid = kv_tokens * price.sum()
    kind = _fix(cost, count, most * scale + paid)
    if len(kind) == 0:
        return NOT_FOUND, nobody, 0
    forced = 0
    rest = np.int64(0)  # reduced costs of those still to be taken in any case
    for i in range(len(kind)):
        if kind[i] == IN:
            forced += 1
            rest += cost[i]
    picks = count - forced
    sums = _least_sums(cost, kind, picks)

    # States by picks made; those of g picks are the columns first[g] .. first[g + 1], S ascending.
    states = np.zeros((4, 64), np.int64)
    spare = np.zeros((4, 64), np.int64)
    states[NODE, 0] = -1
    first = np.ones(picks + 2, np.int64)
    first[0] = 0
    nodes = np.empty((2, 64), np.int64)  # (node before, position taken)
    used = done = row = 0
    best, batch = NOT_FOUND, nobody
    allowed = most * scale + paid
    for i in range(len(kind) - 1, -1, -1):
        if kind[i] == OUT:
            continue
        width = first[picks + 1]
        if kind[i] == IN:
            rest -= cost[i]
            _take_in_all(
                states, first, done, prompt_tokens[i], output_tokens[i], cost[i], kv_tokens
            )
            done += 1
        else:
            row += 1
            if 2 * width > spare.shape[1]:
                spare = np.empty((4, 4 * width), np.int64)
            if used + width > nodes.shape[1]:
                used = _forget(nodes, used, states[NODE, :width])
                if 2 * (used + width) > nodes.shape[1]:
                    if used + width > max_nodes:
                        return TOO_MANY, nobody, used
                    wider = np.empty((2, 4 * (used + width)), np.int64)
                    wider[:, :used] = nodes[:, :used]
                    nodes = wider
            used = _branch(
                states,
                spare,
                first,
                done,
                i,
                prompt_tokens[i],
                output_tokens[i],
                cost[i],
                kv_tokens,
                allowed - rest,
                sums[row],
                nodes,
                used,
            )
            states, spare = spare, states
        if done == forced and first[picks + 1] > first[picks]:
            # Complete batches: the last has the least sum. From now on only a lesser one counts.
            last = first[picks + 1] - 1
            if states[OUTPUT, last] <= most:
                best = states[OUTPUT, last]
                batch = _recover(nodes, states[NODE, last], kind)
                most = best - 1
                allowed = most * scale + paid
            first[picks + 1] = first[picks]
        if first[picks + 1] == 0:
            break
    return best, batch, used


@jit
def _recover(nodes: IntArray, node: int, kind: IntArray) -> IntArray:
    """Positions, ascending, of the requests taken up to a node and of those that are in anyway."""
    inside = kind == IN
    while node >= 0:
        inside[nodes[1, node]] = True
        node = nodes[0, node]
    return np.flatnonzero(inside)


@jit
def _forget(nodes: IntArray, used: int, ends: IntArray) -> int:
    """Drop the nodes that lead to none of ``ends``, both changed in place; returns how many stay.

    A node comes after the one before it, so that one pass back finds those that stay and one pass
    forward moves them: O(used).
    """
    moved = np.full(used, -1, np.int64)
    for end in ends:
        if end >= 0:
            moved[end] = 0
    for node in range(used - 1, -1, -1):
        if moved[node] == 0 and nodes[0, node] >= 0:
            moved[nodes[0, node]] = 0
    kept = 0
    for node in range(used):
        if moved[node] == 0:
            before = nodes[0, node]
            nodes[0, kept] = moved[before] if before >= 0 else -1
            nodes[1, kept] = nodes[1, node]
            moved[node] = kept
            kept += 1
    for x in range(len(ends)):
        if ends[x] >= 0:
            ends[x] = moved[ends[x]]
    return kept


@jit
def _fix(cost: IntArray, count: int, allowed: int) -> IntArray:
    """OUT, FREE or IN for each request, shape (n,); of shape (0,) when no batch is within reach.

    The ``count`` least reduced costs are the bound; to leave one of them out, or to take another
    in, raises it by at least the difference to the next one, or to the last one.
    """
    n = len(cost)
    order = order_by(cost)
    slack = np.int64(allowed)
    for rank in range(count):
        slack -= cost[order[rank]]
    if slack < 0:
        return np.empty(0, np.int64)
    kind = np.full(n, FREE, np.int64)
    for rank in range(n):
        i = order[rank]
        if rank >= count:
            if cost[i] - cost[order[count - 1]] > slack:
                kind[i] = OUT
        elif count == n or cost[order[count]] - cost[i] > slack:
            kind[i] = IN
    return kind


@jit
def _least_sums(cost: IntArray, kind: IntArray, picks: int) -> IntArray:
    """Least sum of q reduced costs among the free requests from the r-th on, in row r, column q.

    By output descending. Shape (free + 1, picks + 1); ``FAR`` where there are not enough of them.
    """
    row = 0
    for i in range(len(kind)):
        if kind[i] == FREE:
            row += 1
    sums = np.full((row + 1, picks + 1), FAR, np.int64)
    sums[row, 0] = 0
    least = np.empty(row, np.int64)
    size = 0
    for i in range(len(kind)):
        if kind[i] != FREE:
            continue
        place = size
        while place > 0 and least[place - 1] > cost[i]:
            least[place] = least[place - 1]
            place -= 1
        least[place] = cost[i]
        size += 1
        row -= 1
        total = np.int64(0)
        sums[row, 0] = 0
        for q in range(1, min(size, picks) + 1):
            total += least[q - 1]
            sums[row, q] = total
    return sums


@jit
def _take_in_all(
    states: IntArray, first: IntArray, done: int, prompt: int, output: int, cost: int, budget: int
) -> None:
    """Take a request in every state, in place; drop those in which it does not fit."""
    kept = 0
    for picks in range(len(first) - 1):
        begin, end = first[picks], first[picks + 1]
        first[picks] = kept
        room = budget - prompt - (picks + done + 1) * output
        for x in range(begin, end):
            if states[PROMPT, x] > room:
                break  # the others of this size hold more
            states[PROMPT, kept] = states[PROMPT, x] + prompt
            states[OUTPUT, kept] = states[OUTPUT, x] + output
            states[COST, kept] = states[COST, x] + cost
            states[NODE, kept] = states[NODE, x]
            kept += 1
    first[-1] = kept


@jit
def _branch(
    states: IntArray,
    new: IntArray,
    first: IntArray,
    done: int,
    position: int,
    prompt: int,
    output: int,
    cost: int,
    budget: int,
    allowed: int,
    sums: IntArray,
    nodes: IntArray,
    used: int,
) -> int:
    """Write the states with and without a request into ``new``; returns the nodes used.

    For each number of picks the states that leave it and those that take it are merged by S; a
    state is kept if it has less output than all before it and can still lead within the limit. One
    that cannot still dominates others, which then cannot either.
    """
    kept = 0
    begin = end = before = 0
    for picks in range(len(first) - 1):
        # States with one pick less, which may take the request, and with as many, which leave it.
        before, begin, end = begin, first[picks], first[picks + 1]
        first[picks] = kept
        more = len(first) - 2 - picks
        if sums[more] >= FAR:
            continue
        limit = allowed - sums[more]
        room = budget - prompt - (picks + done) * output
        take, leave = before, begin
        lowest = FAR
        while True:
            takes = take < begin and states[PROMPT, take] <= room
            if leave < end and not (
                takes and states[PROMPT, take] + prompt < states[PROMPT, leave]
            ):
                if states[OUTPUT, leave] < lowest:
                    lowest = states[OUTPUT, leave]
                    if states[COST, leave] <= limit:
                        for row in range(4):
                            new[row, kept] = states[row, leave]
                        kept += 1
                leave += 1
            elif takes:
                if states[OUTPUT, take] + output < lowest:
                    lowest = states[OUTPUT, take] + output
                    if states[COST, take] + cost <= limit:
                        new[PROMPT, kept] = states[PROMPT, take] + prompt
                        new[OUTPUT, kept] = lowest
                        new[COST, kept] = states[COST, take] + cost
                        new[NODE, kept] = used
                        nodes[0, used] = states[NODE, take]
                        nodes[1, used] = position
                        used += 1
                        kept += 1
                take += 1
            else:
                break
    first[-1] = kept
    return used
