"""Small random changes of a backlog, for the search of worst cases.

A backlog is a list of (s, o), its order that of the input. Bad ones are made of few kinds of
requests, many of each; so most changes are of a kind or copy one.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

Pair = tuple[int, int]
Backlog = list[Pair]

LEAST = 2
"""Requests that are always left."""

SHARE = 3
"""Of the requests of a kind, one in so many is added or removed at once."""


def drawn(rng: Random, n: int, kv_tokens: int) -> Backlog:
    """Draw n requests: s uniform on 1..M - 1, o uniform on 1..M - s. The generic start."""
    prompts = [rng.randint(1, kv_tokens - 1) for _ in range(n)]
    return [(s, rng.randint(1, kv_tokens - s)) for s in prompts]


def changed(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    """Change a backlog by one random move; of 2 to ``most`` requests, each within the budget."""
    return rng.choice(MOVES)(rng, backlog, kv_tokens, most)


def _other_lengths(rng: Random, pair: Pair, kv_tokens: int) -> Pair:
    """Draw s, o or both anew: a little more or less, twice or half as much, or anything."""
    s, o = pair
    which = rng.randrange(3)
    if which != 1:
        s = min(max(1, _other(rng, s, kv_tokens)), kv_tokens - 1)
    if which != 0:
        o = _other(rng, o, kv_tokens)
    return s, min(max(1, o), kv_tokens - s)


def _other(rng: Random, length: int, kv_tokens: int) -> int:
    return rng.choice(
        (
            length + rng.randint(1, 3),
            length - rng.randint(1, 3),
            2 * length,
            length // 2,
            rng.randint(1, kv_tokens - 1),
        )
    )


def _change_one(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    place = rng.randrange(len(backlog))
    other = _other_lengths(rng, backlog[place], kv_tokens)
    return [*backlog[:place], other, *backlog[place + 1 :]]


def _change_kind(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    kind = rng.choice(backlog)
    other = _other_lengths(rng, kind, kv_tokens)
    return [other if pair == kind else pair for pair in backlog]


def _copy_one(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    place = rng.randrange(len(backlog))
    return [*backlog[:place], rng.choice(backlog), *backlog[place + 1 :]]


def _copy_kind(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    kind, other = rng.choice(backlog), rng.choice(backlog)
    return [other if pair == kind else pair for pair in backlog]


def _move(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    moved = list(backlog)
    pair = moved.pop(rng.randrange(len(moved)))
    moved.insert(rng.randint(0, len(moved)), pair)
    return moved


def _add(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    kind = rng.choice(backlog)
    count = min(_some(rng, backlog, kind), most - len(backlog))
    place = rng.randint(0, len(backlog))
    return [*backlog[:place], *([kind] * count), *backlog[place:]]


def _remove(rng: Random, backlog: Backlog, kv_tokens: int, most: int) -> Backlog:
    kind = rng.choice(backlog)
    count = min(_some(rng, backlog, kind), len(backlog) - LEAST)
    left = list(backlog)
    for _ in range(count):
        left.remove(kind)
    return left


def _some(rng: Random, backlog: Backlog, kind: Pair) -> int:
    """One request, or a share of those of its kind."""
    return rng.choice((1, max(1, backlog.count(kind) // SHARE)))


Move = Callable[[Random, Backlog, int, int], Backlog]

MOVES: tuple[Move, ...] = (
    _change_one,
    _change_kind,
    _copy_one,
    _copy_kind,
    _move,
    _add,
    _add,
    _remove,
)
