"""The list-scheduling kernel against its naive twin.

The suite is run twice, with the JIT and (``NUMBA_DISABLE_JIT=1``) without it: see the Makefile.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_list_schedule, naive_on_workers

import sortedf.kernels.profile
from sortedf.kernels.list_schedule import list_schedule
from sortedf.kernels.profile import BLOCK

Case = tuple[list[int], list[int], list[int], list[int], int, int]


def run(case: Case) -> list[int]:
    prompt, output, release, order, kv_tokens, lookahead = case
    s, o, a, ranked = (np.array(values, np.int64) for values in (prompt, output, release, order))
    starts, _ = list_schedule(s, o, a, ranked, np.array([kv_tokens], np.int64), lookahead)
    found: list[int] = starts.tolist()
    return found


def on_workers(
    columns: tuple[list[int], ...], budgets: list[int], lookahead: int
) -> tuple[list[int], list[int]]:
    """Run the kernel on prompts, outputs, releases and order; starts and workers."""
    s, o, a, ranked = (np.array(column, np.int64) for column in columns)
    starts, workers = list_schedule(s, o, a, ranked, np.array(budgets, np.int64), lookahead)
    return starts.tolist(), workers.tolist()


def random_case(rng: random.Random) -> Case:
    """Draw a small instance, tight or ample, often with ties in lengths and in releases."""
    n = rng.randint(1, 24)
    kv_tokens = rng.randint(2, 60)
    longest = rng.choice([2, 5, kv_tokens - 1])
    output = [rng.randint(1, min(longest, kv_tokens - 1)) for _ in range(n)]
    widest = rng.choice([1, 3, kv_tokens])
    prompt = [rng.randint(1, min(widest, kv_tokens - o)) for o in output]
    last = rng.choice([0, 0, 3, 40])
    release = [rng.randint(0, last) for _ in range(n)]
    order = rng.sample(range(n), n)
    return prompt, output, release, order, kv_tokens, rng.choice([1, 1, 2, 3, n])


def test_kernel_agrees_with_naive_twin_on_thousands() -> None:
    """On 3,000 random instances the kernel starts every request at the twin's step."""
    rng = random.Random(20261129)
    for number in range(3000):
        case = random_case(rng)
        assert run(case) == naive_list_schedule(*case), (number, case)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kv_tokens = draw(st.integers(2, 40))
    requests = draw(
        st.lists(
            st.tuples(
                st.integers(1, kv_tokens - 1), st.integers(1, kv_tokens - 1), st.integers(0, 20)
            ).map(lambda r: (min(r[0], kv_tokens - r[1]), r[1], r[2])),
            min_size=1,
            max_size=16,
        )
    )
    order = draw(st.permutations(range(len(requests))))
    prompt, output, release = (list(column) for column in zip(*requests, strict=True))
    return prompt, output, release, list(order), kv_tokens, draw(st.integers(1, 17))


@given(cases())
@settings(max_examples=500)
def test_kernel_agrees_with_naive_twin(case: Case) -> None:
    """Kernel and twin agree on whatever hypothesis makes of lengths, releases, ties and order."""
    assert run(case) == naive_list_schedule(*case)


@pytest.mark.parametrize("lookahead", [1, 4])
@pytest.mark.parametrize("last_release", [0, 300])
def test_kernel_with_many_completions_ahead(lookahead: int, last_release: int) -> None:
    """With hundreds of distinct completions ahead (several blocks) kernel and twin agree."""
    rng = random.Random(7)
    n = 6 * BLOCK
    output = [rng.randint(1, 500) for _ in range(n)]
    prompt = [rng.randint(1, 40) for _ in range(n)]
    release = [rng.randint(0, last_release) for _ in range(n)]
    order = rng.sample(range(n), n)
    case = prompt, output, release, order, 90_000, lookahead
    assert run(case) == naive_list_schedule(*case)


def test_small_blocks_agree_with_naive_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """With blocks of four entries, where every path of a split is taken often, they agree."""
    if not hasattr(list_schedule, "py_func"):  # plain Python: the constant is looked up when used
        monkeypatch.setattr(sortedf.kernels.profile, "BLOCK", 4)
        cases = 600
    else:  # compiled: the constant is frozen, so that only larger cases reach a split
        cases = 60
    rng = random.Random(11)
    for _ in range(cases):
        n = rng.randint(20, 60)
        output = [rng.randint(1, 80) for _ in range(n)]
        prompt = [rng.randint(1, 9) for _ in range(n)]
        release = [rng.randint(0, 30) for _ in range(n)]
        order = rng.sample(range(n), n)
        case = prompt, output, release, order, rng.choice([120, 900, 3000]), rng.choice([1, 3])
        assert run(case) == naive_list_schedule(*case)


def test_several_workers_agree_with_naive_twin() -> None:
    """On up to five workers, alike or not, each request starts where and when the twin says."""
    rng = random.Random(20)
    for number in range(600):
        prompt, output, release, order, most, lookahead = random_case(rng)
        budgets = [most] + [rng.choice([most, rng.randint(1, most)]) for _ in range(4)]
        budgets = rng.sample(budgets, 5)[: rng.randint(1, 5)]
        if max(budgets) < most:
            budgets[0] = most
        found = on_workers((prompt, output, release, order), budgets, lookahead)
        twin = naive_on_workers(prompt, output, release, order, budgets, lookahead)
        assert found == twin, (number, budgets)


def test_many_completions_ahead_on_three_workers() -> None:
    """With several blocks of completions on each worker kernel and twin agree."""
    rng = random.Random(8)
    n = 9 * BLOCK
    output = [rng.randint(1, 500) for _ in range(n)]
    prompt = [rng.randint(1, 40) for _ in range(n)]
    release = [rng.randint(0, 300) for _ in range(n)]
    order = rng.sample(range(n), n)
    budgets = [60_000, 30_000, 60_000]
    found = on_workers((prompt, output, release, order), budgets, 2)
    twin = naive_on_workers(prompt, output, release, order, budgets, 2)
    assert found == twin


def test_a_blocked_request_may_fit_between_two_completions() -> None:
    """A waiting request shrinks where it is blocked and starts three steps in, before any end."""
    case: Case = ([50, 20], [10, 30], [0, 0], [0, 1], 87, 1)
    assert run(case) == [0, 3] == naive_list_schedule(*case)


def test_small_gaps_of_memory_are_reused_without_end() -> None:
    """Memory that empties again and again never outgrows the profile's rows."""
    n = 5 * BLOCK
    case: Case = ([9] * n, [1] * n, [0] * n, list(range(n)), 10, 1)
    assert run(case) == list(range(n))


def test_lengths_near_the_overflow_bound() -> None:
    """Steps and tokens around 2^40 are scheduled exactly."""
    big = 2**39
    case: Case = ([1, 1, 5], [big - 1, big - 1, 7], [0, 0, 3], [0, 1, 2], big + 40, 1)
    # When the first one ends, at 2^39 - 1, the second may hold 40 tokens: 39 steps are behind it.
    starts = run(case)
    assert starts[0] == 0
    assert starts[1] == big - 1 - 39
    assert starts[2] == starts[1]
