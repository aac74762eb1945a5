"""Policies and checks of worst cases written again, without anything of the package."""

from __future__ import annotations

from collections.abc import Callable

Pair = tuple[int, int]
"""Prompt and output tokens of a request."""

KEYS: dict[str, Callable[[Pair], int]] = {
    "fcfs": lambda pair: 0,
    "mcsf": lambda pair: pair[1],
    "size": lambda pair: pair[0] + pair[1],
    "svf": lambda pair: sum(pair[0] + k for k in range(1, pair[1] + 1)),
}
"""What each policy sorts by, least first, ties by input order."""


def total_latency(policy: str, requests: list[Pair], kv_tokens: int) -> int:
    """Total latency of a policy, token by token: strict, head of line, nothing clever."""
    waiting = sorted(requests, key=KEYS[policy])
    running: list[Pair] = []
    """Tokens that a running request holds and steps that it has left."""
    total = 0
    while waiting or running:
        while waiting:
            tried = [*running, waiting[0]]
            ahead = max(left for _, left in tried)
            if any(
                sum(tokens + k for tokens, left in tried if left >= k) > kv_tokens
                for k in range(1, ahead + 1)
            ):
                break
            running = tried
            waiting = waiting[1:]
        total += len(waiting) + len(running)
        running = [(tokens + 1, left - 1) for tokens, left in running if left > 1]
    return total
