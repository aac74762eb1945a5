"""Scores of the engine's requests: how they come about, and who goes by them.

Derived for this project, each rule from the description of a policy that uses it; docs/serving.md
says which.
"""

from __future__ import annotations

import numpy as np

from sortedf.kernels.jit import jit, lean_jit, rare_jit
from sortedf.kernels.replay_state import (
    ARRIVAL,
    CHUNK,
    COMPUTED,
    DONE,
    DONE_STEP,
    GOAL,
    GONE,
    HEAP,
    LAST,
    NONE,
    PATIENT,
    PATIENT_PLACE,
    PLACE,
    PROMPT,
    RANK,
    RUNNING,
    SCHEDULED,
    Engine,
    FloatArray,
    IntArray,
    Rules,
)
from sortedf.kernels.standing import (
    ATTAINED,
    BASE,
    BOOST,
    BOUND,
    CHANGES,
    DUE,
    ENDED,
    FIXED,
    FLOOR,
    GAMMA,
    NOW,
    PATIENCE,
    PROMOTED,
    PROMOTION,
    QUOTA,
    REMAINING,
    SCORE,
    THRESHOLD,
    WORK,
    boosted,
    put,
    take,
)
from sortedf.kernels.step_terms import (
    CHUNK_SQUARED,
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    PREFILL_WORK,
    STEPS,
)


@lean_jit
def score(rules: Rules, engine: Engine, request: int) -> float:
    """Score of a request as it stands. O(1)."""
    requests, standing, kind = engine.requests, engine.standing, rules.scoring.kind
    base = standing[request, BASE]
    if standing[request, PROMOTED] > 0:
        return engine.times[request, ARRIVAL] - PROMOTION
    if kind == FIXED:
        return base
    if kind == BOOST:
        return boosted(base, standing[request, WORK], engine.dials[GAMMA])
    goal = requests[request, GOAL]
    generated = float(goal - requests[request, PROMPT])
    if kind == BOUND:
        return max(base, generated + 1)
    uncached = float(goal - requests[request, COMPUTED])
    return max(base - generated, 0.0) + rules.scoring.weight * uncached


@lean_jit
def leaves(engine: Engine, request: int) -> bool:
    """Whether a running request has its last token, and gives its blocks back anyway. O(1)."""
    return engine.requests[request, COMPUTED] == engine.requests[request, LAST]


@lean_jit
def may_go(rules: Rules, engine: Engine, request: int) -> bool:
    """Whether a running request is not protected from eviction. O(1)."""
    requests, standing = engine.requests, engine.standing
    if standing[request, PROMOTED] > 0:
        return False
    generated = float(requests[request, GOAL] - requests[request, PROMPT])
    if rules.scoring.guard > 0:
        return generated >= rules.scoring.guard and 2 * generated == standing[request, THRESHOLD]
    if rules.scoring.kind == REMAINING:
        return generated < rules.scoring.share * standing[request, BASE]
    return True


@rare_jit
def worst_of_running(rules: Rules, engine: Engine, staying: bool) -> int:
    """Place in running of the worst score, ties by rank; protected ones if nobody else runs.

    Where the least score goes first, that of the least one. With ``staying`` those who leave are
    protected too. O(running).
    """
    standing, running = engine.standing, engine.lists[RUNNING]
    worst, open_to = NONE, False
    for place in range(engine.counts[RUNNING]):
        here, there = running[place], running[max(worst, 0)]
        may = may_go(rules, engine, here) and not (staying and leaves(engine, here))
        if worst == NONE or (may and not open_to):
            worst, open_to = place, may
            continue
        if may != open_to:
            continue
        more = standing[here, SCORE] - standing[there, SCORE]
        if rules.least_first:
            more = -more
        later = engine.requests[here, RANK] > engine.requests[there, RANK]
        if more > 0 or (more == 0 and later != rules.least_first):
            worst = place
    return worst


@rare_jit
def let_wait(rules: Rules, engine: Engine, request: int) -> None:
    """Note that a request, not yet enqueued, waits from now on, and with what score."""
    standing = engine.standing
    standing[request, DUE] = engine.dials[NOW] + standing[request, PATIENCE]
    standing[request, SCORE] = score(rules, engine, request)


@rare_jit
def note_restart(rules: Rules, engine: Engine, request: int) -> None:
    """Forget a request's sampled tokens; a bound on its output becomes their number, if less."""
    requests = engine.requests
    generated = requests[request, GOAL] - requests[request, PROMPT]
    if rules.scoring.kind == BOUND:
        standing = engine.standing
        standing[request, BASE] = max(standing[request, BASE], float(generated))
    requests[request, GOAL] = requests[request, PROMPT]


@rare_jit
def note_latencies(rules: Rules, engine: Engine, finished: IntArray, n: int) -> bool:
    """Keep the latencies of the first ``n`` of these; whether gamma is to be learnt anew."""
    scoring, dials = rules.scoring, engine.dials
    due = False
    for place in range(n):
        request = finished[place]
        if engine.requests[request, DONE_STEP] == 0:  # it was aborted
            continue
        ended = np.int64(dials[ENDED])
        engine.recent[ended % scoring.window] = (
            engine.times[request, DONE] - engine.times[request, ARRIVAL]
        )
        dials[ENDED] += 1
        if ended + 1 >= scoring.window and (ended + 1) % scoring.every == 0:
            due = True
    return due


@rare_jit
def promote(rules: Rules, engine: Engine) -> None:
    """Promote those who have waited for longer than their patience. O(log n) each."""
    lists, counts, standing = engine.lists, engine.counts, engine.standing
    ranks = engine.requests[:, RANK]
    while counts[PATIENT] > 0:
        request = lists[PATIENT, 0]
        if engine.dials[NOW] <= standing[request, DUE]:
            break
        dues, scores = standing[:, DUE], standing[:, SCORE]
        take(lists[PATIENT], lists[PATIENT_PLACE], counts[PATIENT], dues, ranks, request)
        counts[PATIENT] -= 1
        if engine.requests[request, GONE] == 1:
            continue
        take(lists[HEAP], lists[PLACE], counts[HEAP], scores, ranks, request)
        generated = engine.requests[request, GOAL] - engine.requests[request, PROMPT]
        standing[request, PROMOTED] = 1
        standing[request, QUOTA] = generated + rules.scoring.quantum
        standing[request, SCORE] = score(rules, engine, request)
        put(lists[HEAP], lists[PLACE], counts[HEAP] - 1, scores, ranks, request)


@rare_jit
def attain(engine: Engine, seconds: FloatArray) -> None:
    """Give each request of the step its share of the time, before the step is computed.

    What its own tokens cost, and an equal part of what the step costs besides: the shares of a step
    add up to its seconds. O(scheduled).
    """
    requests, counts = engine.requests, engine.counts
    part = seconds[STEPS] / max(counts[SCHEDULED], 1)
    for place in range(counts[SCHEDULED]):
        request = engine.lists[SCHEDULED, place]
        tokens = float(requests[request, CHUNK])
        before = float(requests[request, COMPUTED])
        if tokens == 1:
            own = (
                seconds[DECODE_TOKENS]
                + seconds[CONTEXT] * before
                + seconds[CONTEXT_SQUARED] * before * before
            )
        else:
            own = (
                seconds[PREFILL_TOKENS] * tokens
                + seconds[PREFILL_WORK] * (tokens * before + tokens * (tokens + 1) / 2)
                + seconds[CHUNK_SQUARED] * tokens * tokens
            )
        engine.standing[request, ATTAINED] += part + own


@rare_jit
def settle(rules: Rules, engine: Engine) -> None:
    """Bring the scores of the step's requests up to date, after it is computed. O(scheduled)."""
    requests, standing = engine.requests, engine.standing
    guard = rules.scoring.guard
    for place in range(engine.counts[SCHEDULED]):
        request = engine.lists[SCHEDULED, place]
        generated = float(requests[request, GOAL] - requests[request, PROMPT])
        moves = guard == 0
        if guard > 0 and generated >= standing[request, THRESHOLD]:
            standing[request, THRESHOLD] *= 2
            standing[request, CHANGES] += 1
            moves = True
        if moves:
            standing[request, WORK] = max(standing[request, ATTAINED], standing[request, FLOOR])
        if standing[request, PROMOTED] > 0 and generated >= standing[request, QUOTA]:
            standing[request, PROMOTED] = 0
            moves = True
        if moves:
            standing[request, SCORE] = score(rules, engine, request)


@jit
def rescore_all(rules: Rules, engine: Engine) -> None:
    """Bring every score up to date, and the queue into the new order. O(n + waiting log n)."""
    standing = engine.standing
    for request in range(len(standing)):
        standing[request, SCORE] = score(rules, engine, request)
    reorder(engine)


@jit
def reorder(engine: Engine) -> None:
    """Bring the waiting queue into the order of scores that were changed. O(waiting log n)."""
    lists, counts = engine.lists, engine.counts
    ranks, scores = engine.requests[:, RANK], engine.standing[:, SCORE]
    waiting = lists[HEAP, : counts[HEAP]].copy()
    for size in range(len(waiting)):
        put(lists[HEAP], lists[PLACE], size, scores, ranks, waiting[size])
