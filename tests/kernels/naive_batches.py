"""Naive twins of the batch kernels: sets, fractions, and the dynamic program of the paper as is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations

Lengths = Sequence[int]


def is_feasible(prompt: Lengths, output: Lengths, batch: Iterable[int], kv_tokens: int) -> bool:
    """Look at every step of a common start: is the batch never over the budget."""
    chosen = list(batch)
    last = max((output[i] for i in chosen), default=0)
    return all(
        sum(prompt[i] + t for i in chosen if output[i] >= t) <= kv_tokens
        for t in range(1, last + 1)
    )


def value(output: Lengths, batch: Sequence[int]) -> tuple[Fraction, int]:
    """F and minus the size: what batches are compared by, the less the better."""
    return Fraction(sum(output[i] for i in batch), len(batch) ** 2), -len(batch)


def best_by_force(prompt: Lengths, output: Lengths, kv_tokens: int) -> tuple[Fraction, int]:
    """Least value over every subset."""
    everyone = range(len(output))
    return min(
        value(output, batch)
        for size in range(1, len(output) + 1)
        for batch in combinations(everyone, size)
        if is_feasible(prompt, output, batch, kv_tokens)
    )


def best_by_plain_program(prompt: Lengths, output: Lengths, kv_tokens: int) -> tuple[Fraction, int]:
    """Least value by the paper's program: outputs descending, (taken, sum of s) -> sum of o."""
    states = {(0, 0): 0}
    for i in sorted(range(len(output)), key=lambda i: -output[i]):
        for (taken, held), total in list(states.items()):
            if held + prompt[i] + (taken + 1) * output[i] <= kv_tokens:
                key = (taken + 1, held + prompt[i])
                # Later states of this round are never read in it: the keys were listed before.
                states[key] = min(states.get(key, total + output[i]), total + output[i])
    return min((Fraction(total, taken**2), -taken) for (taken, _), total in states.items() if taken)


def fill_batch(
    prompt: Lengths, output: Lengths, left: Sequence[int], widest: int, kv_tokens: int
) -> list[int]:
    """Go through ``left``, take what fits and is not wider; the best beginning of that."""
    batch: list[int] = []
    best: list[int] = []
    for i in left:
        if prompt[i] <= widest and is_feasible(prompt, output, [*batch, i], kv_tokens):
            batch.append(i)
            if not best or value(output, batch) < value(output, best):
                best = list(batch)
    return best


def neighbours(inside: set[int], n: int) -> Iterable[set[int]]:
    """Every batch that one exchange, insertion or removal leads to."""
    outside = set(range(n)) - inside
    for j in outside:
        yield inside | {j}
        for i in inside:
            yield inside - {i} | {j}
    for i in inside:
        if len(inside) > 1:
            yield inside - {i}
