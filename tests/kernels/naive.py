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
    starts, _ = naive_on_workers(prompt, output, release, order, [kv_tokens], lookahead)
    return starts


def naive_on_workers(
    prompt: Sequence[int],
    output: Sequence[int],
    release: Sequence[int],
    order: Sequence[int],
    budgets: Sequence[int],
    lookahead: int,
) -> tuple[list[int], list[int]]:
    """Do the same on several workers; gives the worker of each request, too."""
    n = len(order)
    starts, places = [-1] * n, [-1] * n
    usage: list[dict[int, int]] = [{} for _ in budgets]
    given = [0.0 for _ in budgets]
    step = 0
    while min(starts) < 0:
        passed_over = 0
        for i in order:
            if starts[i] >= 0 or release[i] > step:
                continue
            held = [(step + k, prompt[i] + k) for k in range(1, output[i] + 1)]
            free = [
                (budget, given[w], w)
                for w, budget in enumerate(budgets)
                if all(usage[w].get(t, 0) + tokens <= budget for t, tokens in held)
            ]
            if free:
                _, _, w = min(free)
                starts[i], places[i] = step, w
                given[w] += (prompt[i] + (output[i] + 1) / 2) * output[i] / budgets[w]
                for t, tokens in held:
                    usage[w][t] = usage[w].get(t, 0) + tokens
            else:
                passed_over += 1
                if passed_over == lookahead:
                    break
        step += 1
    return starts, places
