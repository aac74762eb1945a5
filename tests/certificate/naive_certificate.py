"""The naive twin of the checker of certificates: every start, every step, in fractions.

It shares no code with ``sortedf.certificate`` and no idea either: where that cuts time into cells
and sums over pieces, this writes down the price of each step and adds up what each start costs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from sortedf import Instance

Window = tuple[int, int | None]


def naive_bound(requests: Sequence[tuple[int, int, int]], document: dict[str, Any]) -> Fraction:
    """Bound that a well-formed certificate proves for requests (s, o, a); for small numbers."""
    padding = document.get("block_size", 1) - 1
    budgets = [m - m % (padding + 1) for m in document.get("workers", [document["kv_tokens"]])]
    budget = sum(budgets)
    left = [
        (s + padding, o, a)
        for i, (s, o, a) in enumerate(requests)
        if i not in document.get("skipped", [])
    ]
    lists = document.get("price_lists", [document.get("prices")])
    tables = [by_step(pieces, document["denominator"]) for pieces in lists]

    def subtree(entries: Iterator[Any], windows: list[Window]) -> Fraction:
        entry = next(entries)
        if isinstance(entry, int):
            return leaf(tables[entry], windows)
        i, step = entry
        low, high = windows[i]
        by_then = subtree(entries, [*windows[:i], (low, step), *windows[i + 1 :]])
        later = subtree(entries, [*windows[:i], (step + 1, high), *windows[i + 1 :]])
        return min(by_then, later)

    def leaf(prices: dict[int, Fraction], windows: list[Window]) -> Fraction:
        horizon = max(prices, default=0)
        total = Fraction(-budget) * sum(prices.values(), Fraction(0))
        for (s, o, a), (low, high) in zip(left, windows, strict=True):
            last = max(horizon, low) if high is None else high
            total += min(
                p - a + o + sum(prices.get(p + k, Fraction(0)) * (s + k) for k in range(1, o + 1))
                for p in range(low, last + 1)
            )
        return total

    if "worker_lists" in document:
        workers = list(zip(budgets, document["worker_lists"], strict=True))
        total = sum((-m * sum(tables[k].values(), Fraction(0)) for m, k in workers), Fraction(0))
        for s, o, a in left:
            costs = [
                p
                - a
                + o
                + sum(tables[k].get(p + j, Fraction(0)) * (s + j) for j in range(1, o + 1))
                for m, k in workers
                if s + o <= m
                for p in range(a, max(*tables[k], 0, a) + 1)
            ]
            # What fits on no worker cannot be done: nothing is claimed of it.
            total += min(costs) if costs else -a
        return total
    entries = iter(document.get("tree", [0]))
    return subtree(entries, [(a, None) for _, _, a in left])


def by_step(pieces: Sequence[Sequence[int]], denominator: int) -> dict[int, Fraction]:
    """Write down the price of each step on a piece."""
    prices = {}
    for first, last, numerator, *slope in pieces:
        for step in range(first, last + 1):
            prices[step] = Fraction(numerator + sum(slope) * (step - first), denominator)
    return prices


def document_of(
    instance: Instance, proof: dict[str, Any], bound: Fraction | None = None, **more: Any
) -> dict[str, Any]:
    """Put a certificate together; the naive bound is recorded where none is given."""
    document = {
        "schema": "sortedf.bound/1",
        "kv_tokens": instance.kv_tokens,
        "instance_sha256": instance.sha256,
        **proof,
        **more,
    }
    requests = [(s, o, a) for _, s, o, a in instance]
    value = naive_bound(requests, document) if bound is None else bound
    return document | {"bound": f"{value.numerator}/{value.denominator}"}


def random_pieces(rng: random.Random, horizon: int, denominator: int) -> list[list[int]]:
    """Draw pieces with gaps: single steps, flat, falling, rising, some absurdly dear, some free."""
    pieces: list[list[int]] = []
    step = 0
    while step < horizon and rng.random() < 0.92:
        first = step + 1 + rng.choice([0, 0, 0, 1, 3])
        step = first + rng.choice([0, 1, 2, rng.randint(0, 12)])
        high = rng.choice([0, 1, denominator // 20, denominator // 5, 2 * denominator])
        begin, end = rng.randint(0, high), rng.randint(0, high)
        slope = (end - begin) // max(step - first, 1)
        if rng.random() < 0.3 or begin + slope * (step - first) < 0:
            slope = 0
        pieces.append(
            [first, step, begin, slope] if slope or rng.random() < 0.2 else [first, step, begin]
        )
    return pieces


def random_proof(rng: random.Random, instance: Instance, horizon: int) -> dict[str, Any]:
    """Draw prices, or a list for each of several workers, or a tree of them."""
    denominator = rng.choice([1, 7, 20, 1000, 2**20, 2**70 + 1])
    if rng.random() < 0.4:
        return {
            "denominator": denominator,
            "prices": random_pieces(rng, horizon, denominator),
        }
    if rng.random() < 0.3:
        count = rng.randint(1, 3)
        others = [rng.randint(1, instance.kv_tokens) for _ in range(rng.randint(0, 3))]
        workers = rng.sample([instance.kv_tokens, *others], len(others) + 1)
        return {
            "workers": workers,
            "denominator": denominator,
            "price_lists": [random_pieces(rng, horizon, denominator) for _ in range(count)],
            "worker_lists": [rng.randrange(count) for _ in workers],
        }
    tree: list[Any] = []
    leaves = 0

    def grow(windows: list[Window], depth: int) -> None:
        nonlocal leaves
        i = rng.randrange(len(windows))
        low, high = windows[i]
        most = low + 9 if high is None else high - 1
        if most < low or depth == 0 or rng.random() < 0.2:
            tree.append(leaves)
            leaves += 1
            return
        step = rng.randint(low, most)
        tree.append([i, step])
        grow([*windows[:i], (low, step), *windows[i + 1 :]], depth - 1)
        grow([*windows[:i], (step + 1, high), *windows[i + 1 :]], depth - 1)

    grow([(a, None) for a in instance.release.tolist()], rng.randint(0, 4))
    count = rng.randint(1, leaves)
    numbers = [*range(count), *(rng.randrange(count) for _ in range(leaves - count))]
    rng.shuffle(numbers)
    return {
        "denominator": denominator,
        "price_lists": [random_pieces(rng, horizon, denominator) for _ in range(count)],
        "tree": [numbers[entry] if isinstance(entry, int) else entry for entry in tree],
    }
