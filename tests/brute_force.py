"""The optimum of tiny backlogs, by every decision at every step; nothing of the package in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

from sortedf import Instance

Running = tuple[tuple[int, int], ...]
"""Tokens that a running request holds and steps that it has left, sorted."""
Waiting = tuple[tuple[int, int, int], ...]
"""Release, prompt and output tokens of what has not started, sorted."""


def least_latency(instance: Instance) -> int:
    """Least total latency of all schedules, deliberate waits included; every request fits alone.

    At each step any of the released requests may start, if what runs then fits to its end; every
    request that is released and unfinished costs one. Only a step in which nothing runs although
    all are released is not tried: it could be left out. Up to seven small requests: seconds.
    """
    prompt: list[int] = instance.prompt_tokens.tolist()
    output: list[int] = instance.output_tokens.tolist()
    release: list[int] = instance.release.tolist()
    last, longest = max(release), max(output)

    @cache
    def rest(step: int, running: Running, waiting: Waiting) -> float:
        if not running and not waiting:
            return 0
        released = [request for request in waiting if request[0] <= step]
        if not running and not released:
            return rest(waiting[0][0], (), waiting)
        best = float("inf")
        for started in _parts(released):
            if not running and not started and step >= last:
                continue
            new = [(s, o) for _, s, o in started]
            runs = [*running, *new]
            if any(
                sum(tokens + k for tokens, left in runs if left >= k) > instance.kv_tokens
                for k in range(1, longest + 1)
            ):
                continue
            held = [(tokens + 1, left - 1) for tokens, left in runs]
            others = list(waiting)
            for request in started:
                others.remove(request)
            best = min(
                best,
                rest(
                    min(step + 1, last),
                    tuple(sorted(pair for pair in held if pair[1])),
                    tuple(others),
                ),
            )
        return len(running) + len(released) + best

    requests = sorted(zip(release, prompt, output, strict=True))
    return int(rest(0, (), tuple(requests)))


def least_on_workers(instance: Instance) -> int:
    """Least total latency over all assignments of the requests to the workers, each on its own.

    Up to five small requests on three workers: seconds.
    """
    n = len(instance)
    sizes = (instance.prompt_tokens + instance.output_tokens).tolist()
    budgets = [worker.kv_tokens for worker in instance.workers]

    @cache
    def on_worker(members: tuple[int, ...], budget: int) -> float:
        if any(sizes[i] > budget for i in members):
            return float("inf")
        if not members:
            return 0
        columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
        s, o, a = ([int(column[i]) for i in members] for column in columns)
        return least_latency(Instance(s, o, budget, release=a))

    return int(
        min(
            sum(
                on_worker(tuple(i for i in range(n) if places[i] == w), budget)
                for w, budget in enumerate(budgets)
            )
            for places in product(range(len(budgets)), repeat=n)
        )
    )


def _parts(requests: list[tuple[int, int, int]]) -> Iterator[list[tuple[int, int, int]]]:
    """Every part of some requests, of equal parts one."""
    seen = set()
    for mask in range(1 << len(requests)):
        part = [request for k, request in enumerate(requests) if mask >> k & 1]
        if tuple(part) not in seen:
            seen.add(tuple(part))
            yield part
