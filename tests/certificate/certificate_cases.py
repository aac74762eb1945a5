"""Certificates, sound and not, and what the checker has to answer: by a naive twin, or by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from naive_certificate import by_step, document_of, random_proof

from sortedf import Instance

BIG = 10**5000
Columns = tuple[list[Any], list[Any], list[Any] | None]
THREE = Instance([2, 3, 1], [3, 2, 4], 7, release=[0, 1, 0], ids=["a", 'b,"', "c"])
COLUMNS: Columns = ([2, 3, 1], [3, 2, 4], [0, 1, 0])
PRICES = {"denominator": 12, "prices": [[1, 4, 9, -2], [6, 7, 1]]}
TREE = {
    "denominator": 12,
    "price_lists": [[[1, 4, 9, -2], [6, 7, 1]], [[2, 2, 5]]],
    "tree": [[0, 2], 0, [2, 5], 1, 0],
}


class Case(NamedTuple):
    """Arguments of ``check``, and what it has to answer."""

    arguments: tuple[Any, ...]
    options: dict[str, Any]
    bound: Fraction | None
    sizes: tuple[int, int, int] | None  # horizon, pieces, leaves
    messages: list[tuple[str, str]]
    total: int


class Cheapest(NamedTuple):
    """Pieces and denominator of prices, a window of starts, and what the cheapest one costs."""

    pieces: list[list[int]]
    denominator: int
    window: tuple[int, int, int, int]
    cost: Fraction


class Cubic(NamedTuple):
    """Arguments of ``_turn``, and the least value of the cubic that they stand for."""

    arguments: tuple[int, int, int, int]
    values: list[int]


def cubics(rng: random.Random) -> Iterator[Cubic]:
    """Give cubics whose least value lies inside, before or after where they bend, or at an end."""
    for _ in range(800):
        # A narrow hump above 0: the cubic is least before it, and about to fall further after it.
        width = rng.randint(2, 40)
        x, g = rng.randint(1, width - 1), -rng.randint(1, 24)
        e = -g * x + rng.randint(0, -g)
        d = rng.randint(2 * g, -g) - x * e - x * (x - 1) // 2 * g
        values = [0]
        for u in range(width):
            values.append(values[-1] + d + u * e + u * (u - 1) // 2 * g)
        yield Cubic((d, e, g, width), values)
    for _ in range(1500):
        d, width = rng.randint(-60, 60), rng.choice([1, 2, 3, 4, 9, 25])
        e, g = rng.randint(-20, 20), rng.choice([0, 0, -3, -2, -1, 1, 2, 3, 17, -17])
        values = [0]
        for u in range(width):
            values.append(values[-1] + d + u * e + u * (u - 1) // 2 * g)
        if min(values) < min(values[0], values[-1]) or rng.random() < 0.1:
            yield Cubic((d, e, g, width), values)


def by_twin(instance: Instance, proof: dict[str, Any]) -> Case:
    """Case of a certificate that holds, its bound by the naive twin."""
    document = document_of(instance, proof)
    arrays = (instance.prompt_tokens, instance.output_tokens, instance.release)
    lists = proof.get("price_lists", [proof.get("prices")])
    sizes = (
        max((pieces[-1][1] for pieces in lists if pieces), default=0),
        sum(len(pieces) for pieces in lists),
        sum(isinstance(entry, int) for entry in proof.get("tree", [0])),
    )
    columns = tuple(array.tolist() for array in arrays)
    return Case(
        (*columns, document), {"ids": instance.ids}, Fraction(document["bound"]), sizes, [], 0
    )


def by_hand(
    document: Any,
    *messages: tuple[str, str],
    bound: Fraction | None = None,
    columns: Columns = COLUMNS,
    total: int | None = None,
    sizes: tuple[int, int, int] | None = None,
    **options: Any,
) -> Case:
    """Case whose faults are written here."""
    count = len(messages) if total is None else total
    options = {"ids": THREE.ids} | options
    return Case((*columns, document), options, bound, sizes, list(messages), count)


def long_cells(rng: random.Random) -> Case:
    """One request, and a few long pieces, so that it may start best within a cell."""
    denominator = rng.choice([30, 100, 400])
    pieces, step = [], rng.choice([0, 0, 2])
    for _ in range(rng.randint(1, 4)):
        first, step = step + 1, step + rng.randint(4, 22)
        begin, end = rng.randint(0, denominator // 5), rng.randint(0, denominator // 5)
        slope = (end - begin) // (step - first)
        pieces.append([first, step, max(begin, -slope * (step - first)), slope])
        step += rng.choice([0, 0, 1, 5])
    s, o, a = rng.randint(1, 9), rng.randint(2, 15), rng.choice([0, 0, 4])
    instance = Instance([s], [o], 12, release=[a])
    return by_twin(instance, {"denominator": denominator, "prices": pieces})


def cheapest_starts(rng: random.Random) -> Cheapest:
    """One request between long slopes; cheaper starts beyond its window do not count."""
    pieces, step, price = [], 0, rng.randint(0, 60)
    for _ in range(rng.randint(2, 3)):
        first, step = step + 1, step + rng.randint(8, 40)
        slope = rng.randint(-6, 6)
        pieces.append([first, step, max(price, -slope * (step - first)), slope])
        price = rng.randint(0, 60)
    s, o, low = rng.randint(1, 9), rng.randint(5, 40), rng.randint(0, 10)
    high = low + rng.randint(0, 50)
    denominator = rng.randint(1, 3000)
    prices = by_step(pieces, denominator)
    costs = [
        p + o + sum((prices.get(p + k, Fraction()) * (s + k) for k in range(1, o + 1)), Fraction())
        for p in range(low, high + 1)
    ]
    return Cheapest(pieces, denominator, (s, o, low, high), min(costs))


def random_case(rng: random.Random) -> Case:
    """Small instance with a certificate that holds."""
    n = rng.randrange(1, 5)
    s = [rng.randrange(1, 6) for _ in range(n)]
    o = [rng.randrange(1, rng.choice([3, 9])) for _ in range(n)]
    a = [rng.choice([0, 0, 3, 11]) for _ in range(n)]
    instance = Instance(s, o, rng.randrange(1, 24), release=a)
    return by_twin(instance, random_proof(rng, instance, rng.choice([0, 6, 20, 45])))
