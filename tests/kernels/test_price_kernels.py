"""The price kernels against their naive twins, with the JIT and without it."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from naive_prices import naive_costs, naive_loads, naive_prices

from sortedf.kernels.price_ascent import cheapest_starts, cost_at, piece_loads
from sortedf.kernels.price_bound import exact_minima, exact_minima_in_python

Case = tuple[list[int], list[int], list[int], int, list[tuple[int, int, int]]]


def random_case(rng: random.Random) -> Case:
    """Draw pieces (free, flat, steep, falling, single steps) and a few requests."""
    denominator = rng.choice([1, 2, 7, 1000])
    nodes, value, slope = [0], [], []
    for _ in range(rng.randint(0, 6)):
        steps = rng.choice([1, 1, 2, rng.randint(1, 6), rng.randint(1, 25)])
        high = rng.choice([0, denominator // 4 + 1, denominator, 3 * denominator])
        begin, end = rng.randint(0, high), rng.randint(0, high)
        tilt = 0 if steps == 1 or rng.random() < 0.3 else (end - begin) // (steps - 1)
        if begin + tilt * (steps - 1) < 0:
            tilt = 0
        nodes.append(nodes[-1] + steps)
        value.append(begin)
        slope.append(tilt)
    requests = [
        (rng.randint(1, 9), rng.randint(1, 12), rng.choice([0, 0, 0, rng.randint(0, 40)]))
        for _ in range(rng.randint(1, 5))
    ]
    reach = max(nodes[-1], *(a for _, _, a in requests)) + 13
    return [*nodes, reach], [*value, 0], [*slope, 0], denominator, requests


def columns(requests: list[tuple[int, int, int]]) -> list[npt.NDArray[np.int64]]:
    return [np.array(column, np.int64) for column in zip(*requests, strict=True)]


def test_exact_minima_are_the_least_over_every_start() -> None:
    """On 1,500 random cases the closed form in cells equals a scan of every start, exactly."""
    rng = random.Random(3)
    for number in range(1500):
        nodes, value, slope, denominator, requests = random_case(rng)
        prices = naive_prices(nodes, value, slope)
        expected = [
            min(naive_costs(prices, denominator, nodes[-2], request).values())
            for request in requests
        ]
        least = np.empty(len(requests), np.int64)
        s, o, a = columns(requests)
        exact_minima(np.array(nodes), np.array(value), np.array(slope), denominator, s, o, a, least)
        assert least.tolist() == expected, number
        exact = [0] * len(requests)
        lists = s.tolist(), o.tolist(), a.tolist()
        exact_minima_in_python(
            nodes, value, slope, denominator, lists[0], lists[1], lists[2], exact
        )
        assert exact == expected, number


def test_cheapest_starts_and_their_costs() -> None:
    """In floats: the least cost, its first and last start, and the cost of any single start."""
    rng = random.Random(4)
    for number in range(700):
        nodes, value, slope, denominator, requests = random_case(rng)
        prices = naive_prices(nodes, value, slope)
        n = len(requests)
        least, earliest, latest = np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64)
        first, tilt = np.array(value) / denominator, np.array(slope) / denominator
        s, o, a = columns(requests)
        cells = cheapest_starts(
            np.array(nodes), first, tilt, s, o, a, least, earliest, latest, 1e-9
        )
        assert cells >= 0
        per_step = np.array(prices[: nodes[-2] + 1]) / denominator
        total, moment = np.cumsum(per_step), np.cumsum(per_step * np.arange(len(per_step)))
        for i, request in enumerate(requests):
            costs = naive_costs(prices, denominator, nodes[-2], request)
            best = min(costs.values())
            ties = [p for p, cost in costs.items() if cost == best]
            assert least[i] == pytest.approx(best / denominator, rel=1e-12)
            assert costs[int(earliest[i])] == costs[int(latest[i])] == best, number
            assert earliest[i] == ties[0], number
            assert latest[i] == ties[-1], number
            for p, cost in costs.items():
                expected = pytest.approx(cost / denominator + request[2], rel=1e-9)
                assert cost_at(total, moment, request[0], request[1], p) == expected


def test_piece_loads_are_what_the_requests_hold() -> None:
    """Load and moment of every piece equal a count step by step, starts after T included."""
    rng = random.Random(5)
    for number in range(500):
        nodes, _, _, _, requests = random_case(rng)
        weight = [rng.choice([1.0, 2.0, 3.5]) for _ in requests]
        s, o, _ = columns(requests)
        starts = np.array([rng.randint(0, nodes[-1] - 13) for _ in requests])
        load, moment = np.empty(len(nodes) - 1), np.empty(len(nodes) - 1)
        piece_loads(np.array(nodes), s, o, np.array(weight), starts, load, moment)
        placed = [(s, o, p) for (s, o, _), p in zip(requests, starts.tolist(), strict=True)]
        expected = naive_loads(nodes, placed, weight)
        assert load == pytest.approx(expected[0], abs=1e-9), number
        assert moment == pytest.approx(expected[1], abs=1e-7), number
