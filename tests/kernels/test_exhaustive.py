"""The full search: equal to a brute force that shares nothing with it, and its schedules true."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

from sortedf import Instance
from sortedf.kernels.exhaustive import search
from sortedf.verify import verify

Lengths = list[tuple[int, int]]


def found(lengths: Lengths, kv_tokens: int, most: int = 10**6) -> tuple[int, list[int], int]:
    """Search; gives the value, the starts and the nodes."""
    prompt, output = (np.array(column, np.int64) for column in zip(*lengths, strict=True))
    starts = np.full(len(lengths), -7, np.int64)
    value, nodes = search(prompt, output, kv_tokens, most, starts)
    return int(value), starts.tolist(), int(nodes)


def earliest_in_sequence(lengths: Lengths, kv_tokens: int) -> int:
    """Least total latency if each starts as early as those before it in some sequence allow."""
    best = 10**9
    for sequence in permutations(lengths):
        usage: dict[int, int] = {}
        step = total = 0
        for s, o in sequence:
            while any(usage.get(step + k, 0) + s + k > kv_tokens for k in range(1, o + 1)):
                step += 1
            for k in range(1, o + 1):
                usage[step + k] = usage.get(step + k, 0) + s + k
            total += step + o
        best = min(best, total)
    return best


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[Lengths, int]:
    """Up to six requests, equal ones among them, on a budget that holds few."""
    budget = draw(st.integers(3, 12))
    pair = st.tuples(st.integers(1, budget - 1), st.integers(1, min(7, budget - 1)))
    kinds = draw(st.lists(pair.filter(lambda so: sum(so) <= budget), min_size=1, max_size=4))
    lengths = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=6))
    while sum(o for _, o in lengths) > 24:
        lengths.pop()
    return lengths, budget


@settings(max_examples=150)
@given(backlogs())
def test_the_optimum_of_the_brute_force(backlog: tuple[Lengths, int]) -> None:
    """Value and verified schedule are those of every decision at every step."""
    lengths, budget = backlog
    prompt, output = map(list, zip(*lengths, strict=True))
    value, starts, _ = found(lengths, budget)
    assert value == least_latency(Instance(prompt, output, budget))
    report = verify(prompt, output, [0] * len(lengths), budget, starts, total_latency=value)
    assert report.ok


def test_a_start_that_is_no_completion() -> None:
    """The one optimal schedule starts the second when its tail fits, before the first is done."""
    assert found([(4, 3), (2, 6)], 10)[:2] == (11, [0, 2])


def test_a_wait_that_pays() -> None:
    """No sequence, each request as early as possible, reaches the optimum."""
    lengths = [(1, 2), (1, 2), (1, 4), (1, 4)]
    value, starts, _ = found(lengths, 7)
    assert (value, sorted(starts)) == (18, [0, 1, 1, 4])
    assert earliest_in_sequence(lengths, 7) == 19
    assert least_latency(Instance([1] * 4, [2, 2, 4, 4], 7)) == 18


@pytest.mark.parametrize(
    ("lengths", "kv_tokens", "value"),
    [
        ([(1, 1)], 2, 1),
        ([(1, 1)] * 8, 2, 36),  # one after the other
        ([(1, 1)] * 8, 16, 8),  # all at once
        ([(5, 1)] * 7 + [(1, 5)], 6, 1 + 2 + 3 + 4 + 5 + 6 + 7 + 12),
    ],
)
def test_plain_backlogs(lengths: Lengths, kv_tokens: int, value: int) -> None:
    """Backlogs whose optimum can be seen."""
    assert found(lengths, kv_tokens)[0] == value


def test_a_search_that_is_cut_off_says_so() -> None:
    """With too few nodes the value is -1, with just enough the optimum."""
    lengths = [(3, 4), (2, 6), (1, 5), (4, 2), (2, 2)]
    value, _, nodes = found(lengths, 10)
    assert value > 0
    assert found(lengths, 10, nodes) == found(lengths, 10)
    assert found(lengths, 10, nodes - 1)[0] == -1
