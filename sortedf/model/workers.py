"""Workers: the GPUs that a backlog is planned on, each with a KV budget of its own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

from sortedf.errors import InvalidRequestError

OVERFLOW_BOUND = 2**62
"""No latency sum, horizon, volume or KV budget may reach this, so that int64 never wraps."""

MOST_WORKERS = 1024
"""More workers than this are refused: a plan looks at each of them for each request."""


class Worker(NamedTuple):
    """One worker: its name and its KV budget in tokens (>= 1). All are equally fast."""

    name: str
    kv_tokens: int


def identical_workers(number: int, kv_tokens: int) -> tuple[Worker, ...]:
    """Give so many workers of one budget, named "0", "1", ... by position.

    Raises
    ------
    InvalidRequestError
        For fewer than one worker, or more than ``MOST_WORKERS``.
    """
    if not 1 <= number <= MOST_WORKERS:
        raise InvalidRequestError(f"{number} workers; there must be 1 to {MOST_WORKERS}")
    return tuple(Worker(str(k), kv_tokens) for k in range(number))


def checked_workers(
    workers: Sequence[Worker] | None, kv_tokens: SupportsIndex
) -> tuple[Worker, ...]:
    """Give the workers of an instance; without any, the one of this budget.

    Raises
    ------
    InvalidRequestError
        For a budget that is none, no or too many workers, a name that is empty, cannot be printed
        or is there twice, or where ``kv_tokens`` is not the largest budget of the workers.
    """
    if workers is None:
        return (Worker("0", checked_budget(kv_tokens)),)
    if not 1 <= len(workers) <= MOST_WORKERS:
        raise InvalidRequestError(f"{len(workers)} workers; there must be 1 to {MOST_WORKERS}")
    seen: dict[str, int] = {}
    for k, (name, budget) in enumerate(workers):
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InvalidRequestError(
                f"worker {k} is called {name!r}; a name is not empty and can be printed"
            )
        if (first := seen.setdefault(name, k)) != k:
            raise InvalidRequestError(f"worker {k} repeats the name {name!r} of worker {first}")
        try:
            checked_budget(budget)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"worker {name!r}: {error}") from None
    most = max(budget for _, budget in workers)
    if kv_tokens != most:
        raise InvalidRequestError(
            f"kv_tokens is {kv_tokens!r}; of these workers the largest budget is {most}"
        )
    if sum(budget for _, budget in workers) >= OVERFLOW_BOUND:
        raise InvalidRequestError("the budgets of all workers together are 2^62 tokens or more")
    return tuple(Worker(name, checked_budget(budget)) for name, budget in workers)


def checked_budget(kv_tokens: SupportsIndex) -> int:
    """Take a KV budget, an integer from 1 to below 2^62."""
    try:
        budget = operator.index(kv_tokens)
    except TypeError:
        raise InvalidRequestError(f"kv_tokens is {kv_tokens!r}, not an integer") from None
    if isinstance(kv_tokens, bool) or not 1 <= budget < OVERFLOW_BOUND:
        raise InvalidRequestError(f"kv_tokens is {kv_tokens!r}; it must be 1 .. 2^62 - 1")
    return budget
