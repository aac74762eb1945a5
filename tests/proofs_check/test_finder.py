"""The search for worst cases: reproducible, from generic starts, and it finds what is known."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_policies import total_latency

from sortedf import OptionError, StopReason
from sortedf.proofs_check import finder
from sortedf.proofs_check.families import FAMILIES
from sortedf.proofs_check.finder import find_worst
from sortedf.proofs_check.growth import best_found, measure
from sortedf.proofs_check.moves import MOVES, drawn
from sortedf.solvers import MaxIterations


def test_mcsf_is_driven_beyond_the_family_by_hand() -> None:
    """From lengths drawn uniformly, at M = 64, at least the ratio of the given family."""
    family = measure("mcsf", FAMILIES["large-first"], [64]).points[0].ratio
    assert family >= 2.78
    found = find_worst("mcsf", 64, seed=3, stop=MaxIterations(6000))
    assert found.ratio >= family
    requests = [(r.prompt_tokens, r.output_tokens) for r in found.instance]
    latency = total_latency("mcsf", requests, 64)
    assert Fraction(latency, best_found(found.instance).total_latency) >= family


@pytest.mark.parametrize("seed", range(5))
def test_starts_are_generic(seed: int) -> None:
    """Lengths of a start spread over all of 1..M: nothing of the two kinds of the family."""
    backlog = drawn(Random(seed), 60, 64)
    assert len(set(backlog)) > 50
    assert all(s >= 1 and o >= 1 and s + o <= 64 for s, o in backlog)
    assert {s // 16 for s, _ in backlog} == {0, 1, 2, 3}


@pytest.mark.parametrize("policy", ["svf", "quantile-greedy"])
def test_same_seed_same_backlog(policy: str) -> None:
    """Twice the same; another seed, another backlog."""
    one, two, other = (
        find_worst(policy, 40, seed=seed, stop=MaxIterations(60), most_requests=20)
        for seed in (5, 5, 6)
    )
    assert one == two
    assert one.instance != other.instance
    assert (one.iterations, one.stop_reason) == (60, StopReason.ITERATION_LIMIT)


@given(
    seed=st.integers(0, 2**32),
    kv_tokens=st.integers(2, 300),
    n=st.integers(2, 20),
    spare=st.integers(0, 5),
)
def test_moves_keep_to_the_rules(seed: int, kv_tokens: int, n: int, spare: int) -> None:
    """Every move leaves 2 to `most` requests, each within the budget, and its input as it was."""
    rng = Random(seed)
    backlog = drawn(rng, n, kv_tokens)
    for _ in range(10):
        for move in MOVES:
            before = list(backlog)
            after = move(rng, backlog, kv_tokens, n + spare)
            assert backlog == before
            assert 2 <= len(after) <= n + spare
            assert all(s >= 1 and o >= 1 and s + o <= kv_tokens for s, o in after)
            backlog = after


def test_every_move_does_something() -> None:
    """On a mixed backlog each move changes it in some of 20 tries."""
    for move in MOVES:
        backlog = drawn(Random(1), 10, 64)
        assert any(move(Random(seed), backlog, 64, 20) != backlog for seed in range(20)), move


def test_the_ratio_does_not_fall_with_more_time() -> None:
    """What is reported is the best ratio so far, and the one that is returned."""
    told: list[float] = []
    found = find_worst(
        "mcsf",
        30,
        stop=MaxIterations(400),
        most_requests=20,
        report=lambda iterations, ratio, n: told.append(ratio),
    )
    assert told == sorted(told)
    assert len(told) == 8
    assert found.ratio == told[-1] >= 1


def test_interrupted_it_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the search: the best so far is handed back, marked as such."""
    calls = 0
    go_on = finder.proven_ratio

    def rated(*arguments: object) -> float:
        nonlocal calls
        calls += 1
        if calls > 40:
            raise KeyboardInterrupt
        return go_on(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(finder, "proven_ratio", rated)
    found = find_worst("svf", 40, stop=MaxIterations(10_000), most_requests=20)
    assert found.stop_reason is StopReason.INTERRUPTED
    assert 0 < found.iterations < 40
    calls = 40
    with pytest.raises(KeyboardInterrupt):
        find_worst("svf", 40, stop=MaxIterations(10_000), most_requests=20)


@pytest.mark.parametrize("policy", ["improve", "exact", "auto", "random"])
def test_only_rules_are_searched_against(policy: str) -> None:
    """A search, or what draws at random, has no worst case to be found here."""
    with pytest.raises(OptionError, match="no fixed rule"):
        find_worst(policy, 64, stop=MaxIterations(1))


def test_odd_numbers_are_refused() -> None:
    """A budget of one token, less than two requests, more than the policy takes."""
    with pytest.raises(OptionError, match="kv_tokens"):
        find_worst("svf", 1, stop=MaxIterations(1))
    with pytest.raises(OptionError, match="most_requests"):
        find_worst("svf", 64, most_requests=1, stop=MaxIterations(1))
    with pytest.raises(OptionError, match="exact-dp takes up to 2000"):
        find_worst("exact-dp", 64, most_requests=2001, stop=MaxIterations(1))
