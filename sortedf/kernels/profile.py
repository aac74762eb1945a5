"""The KV memory that running requests will hold at every future step, kept for fast admission.

Let U(t) be the tokens that the requests placed so far hold at step t. Between completions U grows
by one token a step and request, so it is known everywhere from its value at the completion steps c:

    U(c) = base(c) + holders(c) c,   holders(c) = requests that complete at c or later,
                                     base(c) = sum of their s - p.

A request (s, o) started at p fits iff for every completion c in (p, p + o]
``W(c) = U(c) + c <= M - s + p``, and at its own last step ``U(p + o) + s + o <= M``: it is enough
to look at completion instants. Placing it adds (1, s - p) to (holders, base) of every c <= p + o.

The completions stand in ascending order in blocks of up to ``BLOCK``. A block holds what was added
to all of its entries once, and an upper bound on W over its entries (``peak``), which is made exact
only when it is too high to admit. With D different completions ahead one placement and one query
each look at D / BLOCK blocks and one block's entries: O(sqrt D) for D up to BLOCK squared. The
profiles of several workers lie behind each other in the same arrays. All
arithmetic is in int64; see :class:`sortedf.Instance` for the bound that keeps it from wrapping.
The structure is derived for this project.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit

IntArray = npt.NDArray[np.int64]

BLOCK = 128


class Profile(NamedTuple):
    """Arrays of the profiles of R workers; rows r w .. r (w + 1) - 1 of R r are those of worker w.

    ``completion``, ``holders``, ``base``: the entries, shape (R r, BLOCK). The others have shape
    (R r,) and are indexed by the block's place in time: ``row`` of its entries, their number
    ``size``, the ``last`` completion, ``added_holders`` and ``added_base`` (to be added to all of
    its entries), ``peak`` (upper bound on W over its entries). ``ends``, shape (R, 4), is for each
    worker the first block in use, the first entry in use of that block, the end of the blocks, and
    the place of the first one.
    """

    completion: IntArray
    holders: IntArray
    base: IntArray
    row: IntArray
    size: IntArray
    last: IntArray
    added_holders: IntArray
    added_base: IntArray
    peak: IntArray
    ends: IntArray


@jit
def new_profile(n: int, workers: int) -> Profile:
    """Build empty profiles, each for ``n`` requests over its life, O(R n / BLOCK)."""
    # A block is split only when full, into halves: BLOCK / 2 insertions pay for each new one.
    each = 2 * n // BLOCK + 2
    rows = workers * each
    ends = np.zeros((workers, 4), np.int64)
    for worker in range(workers):
        ends[worker, 0] = ends[worker, 2] = ends[worker, 3] = worker * each
    return Profile(
        np.empty((rows, BLOCK), np.int64),
        np.empty((rows, BLOCK), np.int64),
        np.empty((rows, BLOCK), np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.int64),
        ends,
    )


@jit
def advance(profile: Profile, worker: int, step: int) -> None:
    """Forget a worker's completions at or before ``step``; amortised O(1) a request."""
    ends = profile.ends[worker]
    while ends[0] < ends[2]:
        block, entry = ends[0], ends[1]
        if profile.last[block] <= step:
            ends[0] += 1
            ends[1] = 0
            continue
        completions = profile.completion[profile.row[block]]
        while completions[entry] <= step:
            entry += 1
        ends[1] = entry
        return
    # Empty: begin again with the first row, so that rows are only ever used up by splits.
    ends[0] = ends[2] = ends[3]
    ends[1] = 0


@jit
def earliest_start(
    profile: Profile, worker: int, prompt: int, output: int, start: int, budget: int
) -> int:
    """First step >= ``start`` at which (prompt, output) fits beside what the worker has already.

    Each round finds the completions c that forbid the present p. Such a c goes on forbidding until
    it has passed (p >= c) or the request is small enough when c comes (p >= W(c) + s - M): one step
    of waiting makes it one token smaller there. p jumps to the last of these, never step by step.
    The budget must hold the request alone.
    """
    last = profile.last
    peak = profile.peak
    ends = profile.ends[worker]
    first_block, first_entry, blocks = ends[0], ends[1], ends[2]
    p = start
    while True:
        end = p + output
        slack = budget - prompt + p
        jump = p
        block = first_block
        while block < blocks and last[block] <= end:
            if peak[block] > slack and last[block] > p:
                first = first_entry if block == first_block else 0
                jump = max(jump, _wait_in_block(profile, block, first, p, slack))
            block += 1
        if block < blocks:
            row = profile.row[block]
            completions = profile.completion[row]
            holders = profile.holders[row]
            bases = profile.base[row]
            more, extra = profile.added_holders[block], profile.added_base[block]
            entry = first_entry if block == first_block else 0
            while completions[entry] <= end:
                c = completions[entry]
                w = bases[entry] + extra + (holders[entry] + more + 1) * c
                if w > slack and c > p:
                    jump = max(jump, min(c, w - slack + p))
                entry += 1
            # The request's own last step lies before this completion; the usage there rises
            # until it, so that a violation ends only as one at the completion does.
            c = completions[entry]
            held_by = holders[entry] + more
            base = bases[entry] + extra
            if base + held_by * end + prompt + output > budget:
                jump = max(jump, min(c, base + (held_by + 1) * c - slack + p))
        if jump == p:
            return p
        p = jump


@jit
def _wait_in_block(profile: Profile, block: int, first: int, p: int, slack: int) -> int:
    """Step until which the entries after p of a block forbid a start at p; makes its peak exact.

    ``first`` is the first entry in use.
    """
    row = profile.row[block]
    completions = profile.completion[row]
    holders = profile.holders[row]
    bases = profile.base[row]
    more, extra = profile.added_holders[block] + 1, profile.added_base[block]
    jump = p
    exact = np.int64(0)
    for entry in range(first, profile.size[block]):
        c = completions[entry]
        if c > p:
            w = bases[entry] + extra + (holders[entry] + more) * c
            exact = max(exact, w)
            if w > slack:
                jump = max(jump, min(c, w - slack + p))
    # Completions at or before p never bind again, if p is the present; a p in the future leaves
    # the peak as it is.
    if completions[first] > p:
        profile.peak[block] = exact
    return jump


@jit
def place(profile: Profile, worker: int, prompt: int, output: int, start: int) -> None:
    """Add a request that starts at ``start``, no earlier than the worker's last ``advance``."""
    end = start + output
    base = prompt - start
    last = profile.last
    ends = profile.ends[worker]
    block = ends[0]
    while block < ends[2] and last[block] <= end:
        profile.added_holders[block] += 1
        profile.added_base[block] += base
        profile.peak[block] += base + last[block]
        block += 1
    if block > ends[0] and last[block - 1] == end:
        return
    if block == ends[2]:
        # No completion at or after the end: a new last entry, held by this request alone.
        if block == ends[3]:
            for array in (profile.size, profile.added_holders, profile.added_base, profile.peak):
                array[block] = 0
            profile.row[block] = block
            block += 1
            ends[2] = block
        _insert(profile, worker, block - 1, profile.size[block - 1], end, 1, base)
        return
    row = profile.row[block]
    completions = profile.completion[row]
    holders = profile.holders[row]
    bases = profile.base[row]
    entry = ends[1] if block == ends[0] else 0
    more, extra = profile.added_holders[block] + 1, profile.added_base[block]
    highest = profile.peak[block]
    while completions[entry] <= end:
        holders[entry] += 1
        bases[entry] += base
        highest = max(highest, bases[entry] + extra + (holders[entry] + more) * completions[entry])
        entry += 1
    profile.peak[block] = highest
    if entry > 0 and completions[entry - 1] == end:
        return
    # Until now `end` was no completion; from the next one on held_by and base are known.
    held_by = holders[entry] + more
    _insert(profile, worker, block, entry, end, held_by, bases[entry] + extra + base)


@jit
def _insert(
    profile: Profile, worker: int, block: int, entry: int, end: int, held_by: int, base: int
) -> None:
    """Put a completion with its (holders, base) before an entry of a block; split a full block."""
    row = profile.row[block]
    size = profile.size[block]
    completions = profile.completion[row]
    holders = profile.holders[row]
    bases = profile.base[row]
    for i in range(size, entry, -1):
        completions[i] = completions[i - 1]
        holders[i] = holders[i - 1]
        bases[i] = bases[i - 1]
    completions[entry] = end
    holders[entry] = held_by - profile.added_holders[block]
    bases[entry] = base - profile.added_base[block]
    size += 1
    profile.size[block] = size
    profile.last[block] = completions[size - 1]
    profile.peak[block] = max(profile.peak[block], base + (held_by + 1) * end)
    if size == BLOCK:
        _split(profile, profile.ends[worker], block)


@jit
def _split(profile: Profile, ends: IntArray, block: int) -> None:
    """Move the later half of a full block into a new block behind it."""
    blocks = ends[2]
    for array in (
        profile.row,
        profile.size,
        profile.last,
        profile.added_holders,
        profile.added_base,
        profile.peak,
    ):
        for i in range(blocks, block, -1):
            array[i] = array[i - 1]
    ends[2] = blocks + 1
    old = profile.row[block]
    new = blocks  # rows are given out in the order in which blocks are made
    half = BLOCK // 2
    for array in (profile.completion, profile.holders, profile.base):
        array[new, : BLOCK - half] = array[old, half:]
    profile.row[block + 1] = new
    profile.size[block + 1] = BLOCK - half
    profile.size[block] = half
    profile.last[block] = profile.completion[old, half - 1]
    if block == ends[0] and ends[1] >= half:
        ends[0] = block + 1
        ends[1] -= half
