"""The families are those that are written down, and bad by as much as is derived."""

from __future__ import annotations

from collections import Counter
from math import floor, log2, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_policies import total_latency

from sortedf import Instance, OptionError, solve
from sortedf.proofs_check.families import (
    FAMILIES,
    Family,
    blocked_pairs,
    blocked_volumes,
    families_of,
    large_first,
    long_first,
)

EVERY = list(FAMILIES.values())


def pairs_of(instance: Instance) -> list[tuple[int, int]]:
    return list(zip(instance.prompt_tokens.tolist(), instance.output_tokens.tolist(), strict=True))


@pytest.mark.parametrize("kv_tokens", [64, 100, 256, 1024, 4096])
def test_large_first_is_as_given(kv_tokens: int) -> None:
    """First floor(sqrt(6M)) requests (s = M - 1, o = 1), then M requests (s = 1, o = 2)."""
    large = [(kv_tokens - 1, 1)] * floor(sqrt(6 * kv_tokens))
    assert pairs_of(large_first(kv_tokens)) == large + [(1, 2)] * kv_tokens


@pytest.mark.parametrize("kv_tokens", [64, 100, 256, 1024, 4096])
def test_long_first_is_as_given(kv_tokens: int) -> None:
    """L = floor(sqrt M): 4M/(L+1) of (1, L), floor(4 sqrt(L/2)) M/(L+2) of (L+1, 1), floored."""
    L = floor(sqrt(kv_tokens))
    long = [(1, L)] * floor(4 * kv_tokens / (L + 1))
    large = [(L + 1, 1)] * floor(floor(4 * sqrt(L / 2)) * kv_tokens / (L + 2))
    assert pairs_of(long_first(kv_tokens)) == long + large


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
@given(data=st.data())
@settings(max_examples=15)
def test_no_ratio_is_below_the_one_by_hand(family: Family, data: st.DataObject) -> None:
    """A naive run of the policy, over the best simple order, is at least what is derived."""
    kv_tokens = data.draw(st.integers(family.least, max(80, family.least)))
    instance = family(kv_tokens)
    assert not len(instance.oversized)
    best = solve(instance, bound=False).total_latency
    for policy in set(family.policies) & {"fcfs", "mcsf", "size", "svf"}:
        latency = total_latency(policy, pairs_of(instance), kv_tokens)
        assert latency == solve(instance, solver=policy, bound=False).total_latency
        if family.proven is not None:
            assert latency >= family.proven(kv_tokens) * best


@pytest.mark.parametrize("family", [f for f in EVERY if f.proven], ids=lambda family: family.name)
def test_the_ratio_by_hand_grows_as_said(family: Family) -> None:
    """From M = 2^20 to 2^30 what is derived grows as a power with the exponent that is stated."""
    assert family.proven is not None
    low, high = (float(family.proven(2**k)) for k in (20, 30))
    assert log2(high / low) / 10 == pytest.approx(family.exponent, abs=0.01)


@given(kv_tokens=st.integers(5, 3000))
def test_blocked_volumes_block(kv_tokens: int) -> None:
    """All volumes are the same, and no large request fits beside a long one at any step."""
    kinds = Counter(pairs_of(blocked_volumes(kv_tokens)))
    (x, _), (large, _) = kinds
    assert len({s * o + o * (o + 1) // 2 for s, o in kinds}) == 1
    assert large + 1 <= kv_tokens < large + 1 + x + 1


@pytest.mark.parametrize(("x", "o"), [(100, 3), (500, 9), (4000, 20)])
def test_the_guarantee_of_volume_order_is_tight_up_to_four(x: int, o: int) -> None:
    """1 + 2 / (1 - alpha) holds, and a fifth of it is reached, near a quarter for many pairs."""
    volume = x * o + o * (o + 1) // 2
    instance = blocked_pairs(x, o, 300, volume + x)
    policy = solve(instance, solver="svf", bound=False).total_latency
    ratio = policy / solve(instance, bound=False).total_latency
    alpha = float((instance.prompt_tokens + instance.output_tokens).max()) / instance.kv_tokens
    guarantee = 1 + 2 / (1 - alpha)
    assert guarantee / 5 <= ratio <= guarantee


def test_families_are_found_by_policy() -> None:
    """Each policy's own; one that has none is refused with those that have."""
    assert {family.name for family in families_of("svf")} == {"blocked-volumes"}
    assert {family.name for family in families_of("fcfs")} >= {"large-first", "blocked-queue"}
    with pytest.raises(OptionError, match=r"no family is known for 'longest'.*mcsf"):
        families_of("longest")


@pytest.mark.parametrize("family", EVERY, ids=lambda family: family.name)
def test_a_family_begins_somewhere(family: Family) -> None:
    """The smallest budget works, one below is refused."""
    assert len(family(family.least)) >= 2
    with pytest.raises(OptionError, match=f"begins at {family.least}"):
        family(family.least - 1)
