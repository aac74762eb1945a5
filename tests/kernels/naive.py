"""Naive twin of the list-scheduling kernel: every step, every token, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence


def naive_list_schedule(
    prompt: Sequence[int],
    output: Sequence[int],
    release: Sequence[int],
    order: Sequence[int],
    kv_tokens: int,
    lookahead: int,
) -> list[int]:
    """Walk step by step; try each waiting request against the usage of every future step."""
    n = len(order)
    starts = [-1] * n
    usage: dict[int, int] = {}
    step = 0
    while min(starts) < 0:
        passed_over = 0
        for i in order:
            if starts[i] >= 0 or release[i] > step:
                continue
            held = [(step + k, prompt[i] + k) for k in range(1, output[i] + 1)]
            if all(usage.get(t, 0) + tokens <= kv_tokens for t, tokens in held):
                starts[i] = step
                for t, tokens in held:
                    usage[t] = usage.get(t, 0) + tokens
            else:
                passed_over += 1
                if passed_over == lookahead:
                    break
        step += 1
    return starts
