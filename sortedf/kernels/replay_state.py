"""What the engine's scheduler knows: its rules, the requests, who runs and who waits.

The state is few arrays with named columns, because what a compiled function is handed costs more
than what it reads.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit
from sortedf.kernels.standing import (
    DIALS,
    RANKED,
    RECOMPUTES,
    STANDINGS,
    Scoring,
)

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

NONE = -1

# Columns of Engine.requests.
COMPUTED = 0  # tokens whose KV is there
GOAL = 1  # tokens known: the prompt and the sampled outputs; reaching it samples one more
HELD = 2  # blocks
CHUNK = 3  # tokens in this step
PROMPT = 4  # tokens s
LAST = 5  # goal that the last output is sampled at, s + o - 1
MARKED = 6  # leading blocks that prefix caching can find
SAMPLED = 7  # number of the call that scheduled the last sampling
PREEMPTIONS = 8
GONE = 9  # 1 when finished or aborted
RANK = 10  # place in the waiting queue
SENIORITY = 11  # order of (priority, stamp), ties equal: the largest is the priority victim
SHARED = 12  # leading blocks whose content all prompts share
TABLE = 13  # where its blocks stand in Engine.table
OWN = 14  # its block j has content OWN + j, or j if it is a shared one
ADMITTED_STEP = 15  # steps in which anything ran, from 1 on; 0 while it has not come to that
FIRST_STEP = 16
DONE_STEP = 17
LOST = 18  # tokens whose KV was there and is computed again
COLUMNS = 19

# Columns of Engine.room, read by the policy planned alone.
FORESEEN = 0  # goal that the last output is predicted to be sampled at
SHIFT = 1  # of a running one: at call k it needs k + SHIFT slots, at most FORESEEN
UNTIL = 2  # of a running one: last call at which it holds its blocks
USED = 3  # of a running one: blocks that all those running will then need
ROOM_COLUMNS = 4

# Columns of Engine.times, in seconds.
ARRIVAL = 0
ABORT = 1  # inf for never
ADMITTED = 2  # the call of the first admission; this and the next nan while it has not come to that
FIRST_TOKEN = 3
DONE = 4
MOMENTS = 5

# Rows of Engine.lists.
RUNNING = 0  # in the order of admission
HEAP = 1  # ranks of the waiting requests (by score: these), least first, some of them stale
SCHEDULED = 2  # requests of this step
VICTIMS = 3  # preempted in this step
FIRSTS = 4  # whose first token this step brings
FINISHED = 5  # whose last token this step brings
BY_RANK = 6
BY_ARRIVAL = 7
BY_ABORT = 8
PASSED = 9  # waiting requests that did not fit in this step, set aside
PLACE = 10  # by score: where each request is in HEAP; NONE where it is not
PATIENT = 11  # by score: the waiting requests that are not promoted, the earliest due first
PATIENT_PLACE = 12
LISTS = 13

# Engine.counts: first the lengths of the lists, by their rows.
WAITING = LISTS  # requests that wait; HEAP less the stale entries
FREE = LISTS + 1  # blocks
CONTINUED = LISTS + 2  # of those scheduled, the leading ones that ran before
ARRIVED = LISTS + 3  # of BY_ARRIVAL, those that the engine has been given
ABORTED = LISTS + 4  # of BY_ABORT, those that have been carried out
TOKENS = LISTS + 5  # that this step samples
MOVED = LISTS + 6  # tokens whose KV this step swaps out or in
COUNTS = LISTS + 7

# Columns of Engine.blocks; its last row is start and end of the list of free blocks.
BEFORE = 0
AFTER = 1
HOLDERS = 2  # requests that hold the block
CONTENT = 3  # what it holds in full and can be found by; NONE for nothing
TWIN = 4  # next block with the same content
BLOCK_COLUMNS = 5


class Rules(NamedTuple):
    """The engine's settings, as the scheduler reads them; sizes in tokens or blocks."""

    blocks: int  # that requests can get
    block_size: int
    token_budget: int  # of one step
    seats: int
    chunk_cap: int  # most tokens of one request in a step; 0 for no cap
    cap_alone: bool  # the cap holds also where there is but one request
    cap_shared: bool  # the cap is at least an even share of the budget
    chunked: bool
    watermark: int  # blocks left free by an admission beside running requests
    gate: bool  # an admission needs room for the whole known sequence
    by_priority: bool  # the victim is the largest (priority, stamp), not the tail of running
    planned: bool  # an admission needs room for the predicted outputs, until all have ended
    lookahead: int  # how many that do not fit end the admissions of a step
    longest: int  # most tokens that a request can hold
    skip_after_victim: bool  # an unscheduled victim before the current request makes it be skipped
    asynchronous: bool  # one step is scheduled while another runs
    caching: bool  # prefix caching
    fresh_first: bool  # blocks that cannot be found by content are reused before all others
    doubles: bool = True  # planned: who outlives its prediction is to generate as much again, not 1
    keeps: int = RECOMPUTES  # what an evicted request keeps
    swap_seconds: float = 0.0  # for each token that is swapped out or in
    displaces: bool = False  # by score: the head of the queue evicts running requests of more
    hysteresis: float = 0.0  # by so much more
    least_first: bool = False  # by score: the victim is the one of least score
    scoring: Scoring = Scoring()


class Engine(NamedTuple):
    """Requests and state, changed by every step."""

    requests: IntArray  # (n, COLUMNS)
    room: IntArray  # (n, ROOM_COLUMNS)
    times: FloatArray  # (n, MOMENTS)
    lists: IntArray  # (LISTS, n)
    counts: IntArray  # (COUNTS,)
    blocks: IntArray  # (blocks + 1, BLOCK_COLUMNS), of one row without caching
    found: IntArray  # (contents,) first block with a content; NONE for none
    table: IntArray  # blocks of each request, in order, from its TABLE on
    standing: FloatArray  # (n, STANDINGS) by score, of no row by rank
    dials: FloatArray  # (DIALS,)
    recent: FloatArray  # (window,) latencies of requests completed of late, in seconds


@jit
def new_engine(
    rules: Rules,
    prompt: IntArray,
    output: IntArray,
    rank: IntArray,
    seniority: IntArray,
    arrival: FloatArray,
    by_arrival: IntArray,
    abort: FloatArray,
    by_abort: IntArray,
    shared: IntArray,
) -> Engine:
    """Engine before anything has arrived: all blocks free, nobody running or waiting.

    Arrays of shape (n,) by position, as the columns above say; ``by_arrival`` is the order in which
    the engine is given the requests, ``by_abort`` those with a finite abort, in its order.
    O(n + blocks + blocks of all requests).
    """
    n = len(prompt)
    requests = np.zeros((n, COLUMNS), np.int64)
    requests[:, PROMPT] = prompt
    requests[:, GOAL] = prompt
    requests[:, LAST] = prompt + output - 1
    requests[:, RANK] = rank
    requests[:, SENIORITY] = seniority
    requests[:, SHARED] = shared
    requests[:, SAMPLED] = -2  # before call -1, which call 0 takes for the one still running
    room = np.zeros((n, ROOM_COLUMNS), np.int64)
    room[:, FORESEEN] = requests[:, LAST]
    times = np.full((n, MOMENTS), np.nan)
    times[:, ARRIVAL] = arrival
    times[:, ABORT] = abort
    lists = np.empty((LISTS, n), np.int64)
    counts = np.zeros(COUNTS, np.int64)
    for request in range(n):
        lists[BY_RANK, rank[request]] = request
        lists[BY_ARRIVAL, request] = by_arrival[request]
    for place in range(len(by_abort)):
        lists[BY_ABORT, place] = by_abort[place]
    counts[BY_ABORT] = len(by_abort)
    counts[FREE] = rules.blocks
    places, contents = 0, 0
    if rules.caching:
        for request in range(n):
            contents = max(contents, shared[request])
        for request in range(n):
            requests[request, TABLE] = places
            requests[request, OWN] = contents - shared[request]
            most = (requests[request, LAST] + rules.block_size - 1) // rules.block_size
            places += most
            contents += most - shared[request]
    ring = rules.blocks + 1 if rules.caching else 1
    blocks = np.zeros((ring, BLOCK_COLUMNS), np.int64)
    for block in range(ring):
        blocks[block, BEFORE] = (block + ring - 1) % ring
        blocks[block, AFTER] = (block + 1) % ring
        blocks[block, CONTENT] = NONE
        blocks[block, TWIN] = NONE
    found = np.full(contents, NONE, np.int64)
    lists[PLACE] = NONE
    lists[PATIENT_PLACE] = NONE
    return Engine(
        requests,
        room,
        times,
        lists,
        counts,
        blocks,
        found,
        np.empty(places, np.int64),
        np.zeros((0 if rules.scoring.kind == RANKED else n, STANDINGS)),
        np.zeros(DIALS),
        np.zeros(rules.scoring.window),
    )
