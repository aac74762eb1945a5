"""Instances on which claims are put to the test: random, structured, adversarial; by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isqrt
from random import Random
from typing import NamedTuple

from sortedf.model import Instance

Lengths = list[tuple[int, int]]
"""Prompt and output tokens of each request."""

MOST_TOKENS = {1: 300, 2: 300, 3: 200, 4: 120, 5: 72, 6: 48, 7: 34, 8: 26}
"""Largest budget by number of requests at which the full search takes about a millisecond."""

LARGER = (9, 80)
LARGER_TOKENS = (20, 2000)
"""Numbers of requests and budgets of trials too large for the full search."""


class Trial(NamedTuple):
    """An instance and of which kind it is."""

    kind: str
    instance: Instance


def _uniform(draw: Random, n: int, M: int) -> Lengths:
    prompts = [draw.randint(1, M - 1) for _ in range(n)]
    return [(s, draw.randint(1, M - s)) for s in prompts]


def _synthetic(draw: Random, n: int, M: int) -> Lengths:
    """Take prompts of 1..5 tokens and any outputs, as [3]."""
    prompts = [draw.randint(1, min(5, M - 1)) for _ in range(n)]
    return [(s, draw.randint(1, M - s)) for s in prompts]


def _small(draw: Random, n: int, M: int) -> Lengths:
    """Take sizes s + o up to a third of the budget, a tenth where there are many: alpha near 0."""
    most = max(2, M // (3 if n <= 8 else 10))
    sizes = [draw.randint(max(2, most // 2), most) for _ in range(n)]
    return [(s := draw.randint(1, size - 1), size - s) for size in sizes]


def _large(draw: Random, n: int, M: int) -> Lengths:
    """Take sizes over half of the budget: no two of their last steps go together."""
    sizes = [draw.randint(max(2, M // 2 + 1), M) for _ in range(n)]
    return [(s := draw.randint(1, size - 1), size - s) for size in sizes]


def _skewed(draw: Random, n: int, M: int) -> Lengths:
    """Take lengths of which each order of magnitude is as frequent as the next."""
    prompts = [min(M - 1, int(M ** draw.random())) for _ in range(n)]
    return [(s, min(M - s, int(M ** draw.random()))) for s in prompts]


def _two_types(draw: Random, n: int, M: int) -> Lengths:
    types = _uniform(draw, 2, M)
    return [draw.choice(types) for _ in range(n)]


def _equal_outputs(draw: Random, n: int, M: int) -> Lengths:
    o = draw.randint(1, M - 1)
    return [(draw.randint(1, M - o), o) for _ in range(n)]


def _equal_prompts(draw: Random, n: int, M: int) -> Lengths:
    s = draw.randint(1, M - 1)
    return [(s, draw.randint(1, M - s)) for _ in range(n)]


def _equal_volumes(draw: Random, n: int, M: int) -> Lengths:
    """Take all (s, o) of the volume of one that is drawn."""
    ((s, o),) = _uniform(draw, 1, M)
    volume = s * o + o * (o + 1) // 2
    fitting = [
        (rest // o, o)
        for o in range(1, M)
        if (rest := volume - o * (o + 1) // 2) > 0 and rest % o == 0 and rest // o + o <= M
    ]
    return [draw.choice(fitting) for _ in range(n)]


def _powers_of_two(draw: Random, n: int, M: int) -> Lengths:
    powers = [1 << k for k in range(M.bit_length())]
    fitting = [(s, o) for s in powers for o in powers if s + o <= M]
    return [draw.choice(fitting) for _ in range(n)]


def _short_but_large(draw: Random, n: int, M: int) -> Lengths:
    """Put (M - 1, 1) before (1, 2), which waits for it in the order of outputs."""
    few = draw.randint(1, n)
    return [(M - 1, 1)] * few + [(1, min(2, M - 1))] * (n - few)


def _small_but_long(draw: Random, n: int, M: int) -> Lengths:
    """Put (1, L) before (L + 1, 1), L = sqrt M, which waits for it in the order of sizes."""
    long, few = min(isqrt(M), M - 2), draw.randint(1, n)
    return [(1, long)] * few + [(long + 1, 1)] * (n - few)


def _one_bit_alike(draw: Random, n: int, M: int) -> Lengths:
    """Put (1, M - 1) before (1, sqrt M + 1): both long outputs to one bit."""
    few = draw.randint(1, n)
    return [(1, M - 1)] * few + [(1, min(isqrt(M) + 1, M - 1))] * (n - few)


def _near_budget(draw: Random, n: int, M: int) -> Lengths:
    """Take sizes of nearly the whole budget: alpha near 1."""
    sizes = [max(2, M - draw.randint(1, 3)) for _ in range(n)]
    return [(s := draw.randint(1, size - 1), size - s) for size in sizes]


def _triples(draw: Random, n: int, M: int) -> Lengths:
    """Take outputs of one token and sizes around M / 3, as in the reduction from 3-Partition."""
    return [(max(1, draw.randint(M // 4, (M + 1) // 2) - 1), 1) for _ in range(n)]


def _blocking(draw: Random, n: int, M: int) -> Lengths:
    """Put tall requests of one token, of nearly the budget, beside low ones of a larger volume."""
    tall = max(1, M - draw.randint(2, 4))
    low = min(isqrt(2 * tall) + draw.randint(0, 2), M - 1)
    few = draw.randint(1, n)
    return [(tall, 1)] * few + [(1, low)] * (n - few)


RANDOM: tuple[Callable[[Random, int, int], Lengths], ...] = (
    _uniform,
    _synthetic,
    _small,
    _large,
    _skewed,
)
CONSTRUCTED: tuple[Callable[[Random, int, int], Lengths], ...] = (
    _two_types,
    _equal_outputs,
    _equal_prompts,
    _equal_volumes,
    _powers_of_two,
    _short_but_large,
    _small_but_long,
    _one_bit_alike,
    _near_budget,
    _triples,
    _blocking,
)


def trial(number: int, seed: int, *, larger: bool = False) -> Trial:
    """Draw one trial: of even number a random one, else a structured or adversarial one.

    Up to eight requests, most of them more than four, on a budget of 4 to ``MOST_TOKENS``; with
    ``larger``, as many requests and tokens as ``LARGER`` and ``LARGER_TOKENS`` allow. Trial k of a
    seed is the same however many there are.
    """
    draw = Random(f"{seed}/{number}/{larger}")
    kinds = CONSTRUCTED if number % 2 else RANDOM
    make = kinds[number // 2 % len(kinds)]
    if larger:
        n = draw.randint(*LARGER)
        least, most = LARGER_TOKENS
        M = int(least * (most / least) ** draw.random())
    else:
        n = max(draw.randint(1, 8), draw.randint(1, 8))
        M = draw.randint(4, MOST_TOKENS[n])
    prompts, outputs = zip(*make(draw, n, M), strict=True)
    return Trial(make.__name__.strip("_").replace("_", "-"), Instance(prompts, outputs, M))


def trials(count: int, seed: int, *, larger: bool = False) -> Iterator[Trial]:
    """Draw the trials 0..count - 1 of a seed."""
    return (trial(number, seed, larger=larger) for number in range(count))
