"""The independent checker of a schedule.

Standard library only, nothing of the package, plain sequences of integers in: this one file, copied
anywhere, is all that has to be read to believe a schedule. It rests on the model [3] alone:

- A request of s prompt and o output tokens, started at step p, holds s + k tokens at step p + k for
  k = 1..o, nothing at p and nothing after its completion c = p + o, when another may start.
- It does not start before its release a.
- At every step the active requests together hold at most the KV budget; where there are several
  workers, those of each worker at most its own. A request runs on one worker from start to end.
- The objective is the total latency, the sum of c - a.

[3] Online Scheduling for LLM Inference with KV Cache Constraints, arXiv 2502.07115.
"""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard

_LIMIT = 2**62
"""Integers of this size or more are refused: the model has none, and sums stay printable."""

_NAMED = 10
"""Requests that a message names at most; the violation itself holds all of them."""

_NO_INTEGER = "not an integer below 2^62"


class Kind(StrEnum):
    """What can be wrong with a schedule, or with the instance that it is for."""

    INVALID_REQUEST = "invalid request"
    NOT_AN_INTEGER = "not an integer"
    UNKNOWN_REQUEST = "unknown request"
    UNKNOWN_WORKER = "unknown worker"
    REPEATED_REQUEST = "repeated request"
    MISSING_REQUEST = "missing request"
    START_BEFORE_RELEASE = "start before release"
    INVALID_BUDGET = "invalid budget"
    BUDGET_EXCEEDED = "budget exceeded"
    WRONG_OBJECTIVE = "wrong objective"


class Violation(NamedTuple):
    """One thing that is wrong; ``str()`` of it is one line for a person.

    ``requests`` are positions in the instance. ``used`` is what there is, ``limit`` what it is held
    against: tokens and the budget, start and release, recorded and true objective, the number of an
    unknown request or worker and how many there are. ``None`` where a kind has no such thing.
    """

    kind: Kind
    step: int | None
    requests: tuple[int, ...]
    used: int | None
    limit: int | None
    message: str

    def __str__(self) -> str:
        return self.message


class Report(NamedTuple):
    """What :func:`verify` found.

    ``violations`` holds the first ones in full, ``total`` counts all. ``total_latency`` (steps) is
    recomputed; ``None`` unless every request is valid and placed exactly once, by an integer, and
    nothing else is placed. ``makespan`` (last completion, a step) and ``peak`` (most tokens held at
    any step by one worker) are those of all valid placements, 0 without any; ``peaks`` is the most
    that each worker holds.
    """

    violations: tuple[Violation, ...]
    total: int
    total_latency: int | None
    makespan: int
    peak: int
    peaks: tuple[int, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing at all is wrong."""
        return not self.total


def verify(
    prompt_tokens: Sequence[Any],
    output_tokens: Sequence[Any],
    release: Sequence[Any] | None,
    kv_tokens: Any,
    starts: Sequence[Any],
    *,
    requests: Sequence[Any] | None = None,
    workers: Sequence[Any] | None = None,
    total_latency: Any = None,
    ids: Sequence[str] | None = None,
    max_violations: int = 100,
) -> Report:
    """Check a schedule against the model. Odd values are reported, never raised.

    Parameters
    ----------
    prompt_tokens, output_tokens, release
        s and o (tokens, >= 1) and a (step, >= 0) of each request, length n; no release: all 0.
    kv_tokens
        The KV budget in tokens, >= 1; of several workers the sequence of their budgets.
    starts, requests
        ``starts[k]`` is the start step of request ``requests[k]``; of request k if left out.
    workers
        ``workers[k]`` is the worker that it runs on, by position in ``kv_tokens``; 0 if left out.
    total_latency
        The recorded objective; not checked if left out.
    ids
        Names of the requests for the messages, length n; numbers if left out.
    max_violations
        How many violations are given in full; the others are counted.

    Returns
    -------
    Report
        Violations in the order of the checks: requests, entries of the plan, missing requests,
        releases, budget (one for each maximal run of steps over it: its first step, what is used
        there and by whom), objective.

    Raises
    ------
    ValueError
        If sequences that belong together differ in length.

    Notes
    -----
    An integer is an ``int``: no bool, no float, no NumPy scalar, whose sums could wrap around.
    O(n log n + n max_violations) time, O(n) memory.
    """
    s, o, n = prompt_tokens, output_tokens, len(prompt_tokens)
    a = [0] * n if release is None else release
    names = range(n) if ids is None else ids
    log = _Log(max_violations, names)

    # The instance. An invalid request may be placed, but takes no part in what follows.
    invalid = set()
    for i, (si, oi, ai, _) in enumerate(zip(s, o, a, names, strict=True)):
        whole = _is_integer(si) and _is_integer(oi) and _is_integer(ai)
        if not (whole and si > 0 and oi > 0 and ai >= 0):
            invalid.add(i)
            values = f"prompt {_show(si)}, output {_show(oi)}, release {_show(ai)}"
            log.add(Kind.INVALID_REQUEST, f"{values}; must be integers >= 1, 1, 0", (i,))

    # The plan: (request, start) pairs. A repeated request counts each time, as it would be run.
    several = isinstance(kv_tokens, list | tuple) and kv_tokens
    budgets = list(kv_tokens) if several else [kv_tokens]
    placed: list[tuple[int, int]] = []
    on_worker: list[list[tuple[int, int]]] = [[] for _ in budgets]
    seen = [False] * n
    entries = range(len(starts)) if requests is None else requests
    places = [0] * len(starts) if workers is None else workers
    for k, (i, p, w) in enumerate(zip(entries, starts, places, strict=True)):
        if not _is_integer(i):
            log.add(Kind.NOT_AN_INTEGER, f"entry {k}: its request is {_show(i)}, {_NO_INTEGER}")
        elif not 0 <= i < n:
            text = f"entry {k}: its request is {i}, but the {n} requests count from 0"
            log.add(Kind.UNKNOWN_REQUEST, text, used=i, limit=n)
        else:
            if not _is_integer(p):
                log.add(Kind.NOT_AN_INTEGER, f"its start is {_show(p)}, {_NO_INTEGER}", (i,))
            else:
                if seen[i]:
                    log.add(Kind.REPEATED_REQUEST, f"placed again, at step {p}", (i,), p)
                known = _is_integer(w) and 0 <= w < len(budgets)
                if not known:
                    text = f"its worker is {_show(w)}, but the {len(budgets)} count from 0"
                    used = w if _is_integer(w) else None
                    log.add(Kind.UNKNOWN_WORKER, text, (i,), used=used, limit=len(budgets))
                if i not in invalid:
                    placed.append((i, p))
                    if known:
                        on_worker[w].append((i, p))
            seen[i] = True
    for i, found in enumerate(seen):
        if not found:
            log.add(Kind.MISSING_REQUEST, "not placed", (i,))

    # Nothing wrong so far: every request is placed exactly once, so there is an objective.
    latency = None if log.total else sum(p + o[i] - a[i] for i, p in placed)

    for i, p in placed:
        if p < a[i]:
            text = f"starts at step {p}, before its release at step {a[i]}"
            log.add(Kind.START_BEFORE_RELEASE, text, (i,), p, p, a[i])

    peaks = []
    ends = []
    for w, here in enumerate(on_worker):
        kv = budgets[w]
        which = f" of worker {w}" if budgets[1:] else ""
        budget = kv if _is_integer(kv) and kv > 0 else None
        if budget is None:
            text = f"the KV budget{which} is {_show(kv)}; must be an integer >= 1"
            log.add(Kind.INVALID_BUDGET, text)
        runs, peak, end = _sweep(here, s, o, budget)
        peaks.append(peak)
        ends += [end] if here else []
        room = log.room
        for first, last, worst in runs[:room]:
            # By the definition, without what the sweep summed up.
            held = [(i, s[i] + first - p) for i, p in here if p < first <= p + o[i]]
            used = sum(tokens for _, tokens in held)
            over = f"over up to step {last} (most {worst})"
            text = f"{used} of {budget} tokens{which} at step {first}; {over}"
            who = tuple(sorted(i for i, _ in held))
            log.add(Kind.BUDGET_EXCEEDED, text, who, first, used, budget)
        log.total += len(runs[room:])

    if total_latency is not None and (type(total_latency) is not int or total_latency != latency):
        recorded = total_latency if _is_integer(total_latency) else None
        text = f"recorded total latency {_show(total_latency)}, the schedule gives {latency}"
        log.add(Kind.WRONG_OBJECTIVE, text, used=recorded, limit=latency)
    makespan = max(ends, default=0)
    return Report(tuple(log.kept), log.total, latency, makespan, max(peaks), tuple(peaks))


def _sweep(
    placed: list[tuple[int, int]], s: Sequence[int], o: Sequence[int], budget: int | None
) -> tuple[list[tuple[int, int, int]], int, int]:
    """Find the runs of steps over the budget (first, last, most tokens), the peak and makespan.

    Request i, started at p, holds s_i + (t - p) = (s_i - p) + t tokens at step t. Let `begin` and
    `end` be successive steps at which anything starts or completes. At each of the steps
    begin + 1 .. end the same requests are active: those with p <= begin < p + o. So the tokens held
    are A + B t, where A sums s_i - p_i over them and B counts them. As B >= 0 this never falls: the
    most is held at `end`, and if that is within the budget, so is every step since `begin`.
    Otherwise the steps over the budget are those with t > (M - A) / B, up to `end`.
    """
    level: defaultdict[int, int] = defaultdict(int)  # by step: change of A, the sum of s - p
    slope: defaultdict[int, int] = defaultdict(int)  # by step: change of B, the number active
    for i, p in placed:
        c = p + o[i]
        level[p] += s[i] - p
        slope[p] += 1
        level[c] -= s[i] - p
        slope[c] -= 1

    runs: dict[int, tuple[int, int]] = {}  # by last step: first step, most tokens
    held = active = peak = makespan = 0
    for begin, end in pairwise(sorted(level)):
        held += level[begin]
        active += slope[begin]
        used = held + active * end
        peak = max(peak, used)
        makespan = end
        if budget is not None and used > budget:
            fits = max(begin, (budget - held) // active)  # the last step before the first one over
            first, worst = runs.pop(fits, (fits + 1, used))  # goes on with the run that ends there
            runs[end] = first, max(worst, used)
    return [(first, last, worst) for last, (first, worst) in runs.items()], peak, makespan


class _Log:
    """The first `room` violations in full and the count of all."""

    def __init__(self, room: int, names: Sequence[object]) -> None:
        self.room = max(room, 0)
        self.names = names
        self.kept: list[Violation] = []
        self.total = 0

    def add(
        self,
        kind: Kind,
        text: str,
        requests: tuple[int, ...] = (),
        step: int | None = None,
        used: int | None = None,
        limit: int | None = None,
    ) -> None:
        self.total += 1
        if not self.room:
            return
        self.room -= 1
        if requests:
            named = ", ".join(repr(self.names[i]) for i in requests[:_NAMED])
            more = f" and {len(requests) - _NAMED} more" if requests[_NAMED:] else ""
            text = f"request {named}{more}: {text}"
        self.kept.append(Violation(kind, step, requests, used, limit, text))


def _is_integer(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) < _LIMIT


def _show(value: object) -> str:
    """One short line for any value, also for those that cannot be printed."""
    if type(value) is int and not _is_integer(value):
        return f"an integer of {value.bit_length()} bits"
    if type(value) in (bool, int, float, str):
        return repr(value)[:40]
    return f"a {type(value).__name__}"
