"""The naive twin of the verifier: every token of every step counted one by one.

It shares no code with ``sortedf.verify`` and no idea either: where that sums slopes from event to
event, this writes down a ledger of who holds what at each step and looks at all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Fact = tuple[str, int | None, tuple[int, ...], int | None, int | None]
"""A violation without its text: kind, step, requests, used, limit."""


def inspect(
    prompt_tokens: Sequence[Any],
    output_tokens: Sequence[Any],
    release: Sequence[Any] | None,
    kv_tokens: Any,
    starts: Sequence[Any],
    *,
    requests: Sequence[Any] | None = None,
    workers: Sequence[Any] | None = None,
    total_latency: Any = None,
) -> tuple[list[Fact], int | None, int, int]:
    """All violations in order, total latency, makespan and peak; for small numbers only.

    ``kv_tokens`` is a list where there are several workers.
    """
    budgets = kv_tokens if isinstance(kv_tokens, list) and kv_tokens else [kv_tokens]
    places = workers if workers is not None else [0] * len(starts)
    n = len(prompt_tokens)
    triples = [
        (prompt_tokens[i], output_tokens[i], 0 if release is None else release[i]) for i in range(n)
    ]
    entries = [
        (k if requests is None else requests[k], starts[k], places[k]) for k in range(len(starts))
    ]
    facts: list[Fact] = []

    valid = []
    for i, triple in enumerate(triples):
        if all(proper(x) for x in triple) and min(triple[:2]) >= 1 and triple[2] >= 0:
            valid.append(i)
        else:
            facts.append(("invalid request", None, (i,), None, None))

    mentioned: list[int] = []
    runs: list[tuple[int, int, int, int, int, Any]] = []  # request, s, o, release, start, worker
    for i, p, w in entries:
        if not proper(i):
            facts.append(("not an integer", None, (), None, None))
            continue
        if i not in range(n):
            facts.append(("unknown request", None, (), i, n))
            continue
        if not proper(p):
            facts.append(("not an integer", None, (i,), None, None))
        elif i in mentioned:
            facts.append(("repeated request", p, (i,), None, None))
        mentioned.append(i)
        if proper(p) and not (proper(w) and w in range(len(budgets))):
            used = w if proper(w) else None
            facts.append(("unknown worker", None, (i,), used, len(budgets)))
        if proper(p) and i in valid:
            runs.append((i, *triples[i], p, w if proper(w) else None))
    facts += [("missing request", None, (i,), None, None) for i in range(n) if i not in mentioned]

    objective = None
    if not facts:
        objective = sum(p + o - a for _, _, o, a, p, _ in runs)

    facts += [("start before release", p, (i,), p, a) for i, _, _, a, p, _ in runs if p < a]

    ends, peaks = [], []
    for worker, budget in enumerate(budgets):
        ledger: dict[
            int, list[tuple[int, int]]
        ] = {}  # step: (request, tokens) of all that hold any
        for i, s, o, _, p, w in runs:
            for k in range(1, o + 1) if w == worker else ():
                ledger.setdefault(p + k, []).append((i, s + k))
        totals = {step: sum(tokens for _, tokens in rows) for step, rows in ledger.items()}
        if not proper(budget) or budget < 1:
            facts.append(("invalid budget", None, (), None, None))
        else:
            over = {step for step, tokens in totals.items() if tokens > budget}
            for step in sorted(over):
                if step - 1 not in over:
                    holders = tuple(sorted(i for i, _ in ledger[step]))
                    facts.append(("budget exceeded", step, holders, totals[step], budget))
        ends += [max(ledger)] if ledger else []
        peaks += [max(totals.values(), default=0)]

    if total_latency is not None:
        is_int = isinstance(total_latency, int) and not isinstance(total_latency, bool)
        if not (is_int and objective is not None and total_latency == objective):
            recorded = total_latency if proper(total_latency) else None
            facts.append(("wrong objective", None, (), recorded, objective))
    return facts, objective, max(ends, default=0), max(peaks, default=0)


def proper(value: object) -> bool:
    """Whether this is an integer of the model: no bool, and of less than 63 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return value.bit_length() <= 62
