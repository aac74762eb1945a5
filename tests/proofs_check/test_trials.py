"""The instances on which claims are tried: valid, of their kind, and the same for a seed."""

from __future__ import annotations

from collections import Counter

import pytest

from sortedf.model import Instance
from sortedf.proofs_check.claims import largest_size
from sortedf.proofs_check.trials import CONSTRUCTED, LARGER, MOST_TOKENS, RANDOM, trial, trials


def of_kind(kind: str, count: int = 400, *, larger: bool = False) -> list[Instance]:
    """Give the trials of one kind among the first ones."""
    return [t.instance for t in trials(count, 0, larger=larger) if t.kind == kind]


@pytest.mark.parametrize("larger", [False, True])
def test_all_can_be_planned(larger: bool) -> None:
    """Every request fits; sizes are as announced; every kind occurs, half of all random."""
    kinds: Counter[str] = Counter()
    for kind, instance in trials(660, 1, larger=larger):
        kinds[kind] += 1
        assert not len(instance.oversized)
        assert not instance.release.any()
        if larger:
            assert LARGER[0] <= len(instance) <= LARGER[1]
        else:
            assert len(instance) <= 8
            assert 4 <= instance.kv_tokens <= MOST_TOKENS[len(instance)]
    assert len(kinds) == len(RANDOM) + len(CONSTRUCTED)
    names = {make.__name__.strip("_").replace("_", "-") for make in RANDOM}
    assert sum(count for kind, count in kinds.items() if kind in names) == 330
    assert min(kinds.values()) == 30


def test_a_trial_depends_on_seed_and_number_alone() -> None:
    """The same number gives the same instance, however many are drawn; another seed another."""
    drawn = list(trials(40, 3))
    assert drawn == list(trials(60, 3))[:40]
    assert trial(17, 3) == drawn[17]
    assert drawn != list(trials(40, 4))


def test_kinds_are_what_they_say() -> None:
    """Equal volumes, outputs and prompts are equal; sizes are near the budget or far from it."""
    for instance in of_kind("equal-volumes"):
        assert len(set(instance.volume.tolist())) == 1
    assert any(
        len(set(map(tuple, zip(i.prompt_tokens, i.output_tokens, strict=True)))) > 1
        for i in of_kind("equal-volumes")
    )
    for instance in of_kind("equal-outputs"):
        assert len(set(instance.output_tokens.tolist())) == 1
    for instance in of_kind("equal-prompts"):
        assert len(set(instance.prompt_tokens.tolist())) == 1
    for instance in of_kind("powers-of-two"):
        lengths = (*instance.prompt_tokens.tolist(), *instance.output_tokens.tolist())
        assert all(x & (x - 1) == 0 for x in lengths)
    for instance in of_kind("near-budget"):
        assert largest_size(instance) >= instance.kv_tokens - 3
    for instance in of_kind("small", larger=True):
        assert largest_size(instance) <= max(2, instance.kv_tokens // 10)
    for instance in of_kind("triples"):
        assert set(instance.output_tokens.tolist()) == {1}
