"""Fractional starts: how kinds are split into requests, expected starts and alpha-points."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sortedf import Instance
from sortedf.errors import OptionError
from sortedf.lp.distinct import distinct
from sortedf.lp.fractional import FractionalStarts, split


def rows(starts: FractionalStarts) -> list[tuple[int, int, float]]:
    return [
        (int(i), int(p), round(float(share), 9))
        for i, p, share in zip(starts.request, starts.start, starts.share, strict=True)
    ]


def test_the_earliest_shares_go_to_the_first_of_a_kind() -> None:
    """Two equal requests with 1/2, 3/4, 3/4 at 0, 4, 9: one has 0 and 4, the other 4 and 9."""
    instance = Instance([3, 1, 3], [5, 1, 5], 20)
    kinds = distinct(instance)  # the small one is the first kind
    found = split(
        kinds, np.array([0, 1, 1, 1]), np.array([7, 0, 4, 9]), np.array([1, 0.5, 0.75, 0.75])
    )
    assert rows(found) == [(0, 0, 0.5), (0, 4, 0.5), (1, 7, 1.0), (2, 4, 0.25), (2, 9, 0.75)]
    assert found.means().tolist() == pytest.approx([2.0, 7.0, 7.75])
    assert found.points(0.5).tolist() == [0, 7, 9]
    assert found.points(0.2).tolist() == [0, 7, 4]
    assert found.points(1.0).tolist() == [4, 7, 9]


def test_alpha_out_of_range_is_refused() -> None:
    """Alpha is above 0 and at most 1."""
    found = FractionalStarts(np.array([0]), np.array([3]), np.array([1.0]))
    for alpha in (0.0, -1.0, 1.01, float("nan")):
        with pytest.raises(OptionError, match="alpha is"):
            found.points(alpha)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=6),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=150)
def test_splitting_keeps_every_share(counts: list[int], seed: int) -> None:
    """Shares by kind and start stay what they are, up to noise; each request has 1 in all."""
    rng = np.random.default_rng(seed)
    kind_of = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    instance = Instance(kind_of + 1, np.ones(len(kind_of), int), 99)
    kinds = distinct(instance)
    kind, start, share = [], [], []
    for k, count in enumerate(counts):
        steps = np.sort(rng.choice(20, rng.integers(1, 6), replace=False))
        parts = rng.random(len(steps)) + 0.01
        kind += [k] * len(steps)
        start += steps.tolist()
        share += (parts / parts.sum() * count * (1 + rng.normal(0, 1e-9))).tolist()
    found = split(kinds, np.array(kind), np.array(start), np.array(share))
    assert (np.diff(found.request) >= 0).all()
    assert np.bincount(found.request, found.share) == pytest.approx(np.ones(len(instance)))
    before = np.zeros((len(counts), 20))
    np.add.at(before, (kind, start), share)
    after = np.zeros((len(counts), 20))
    np.add.at(after, (kind_of[found.request], found.start), found.share)
    assert after == pytest.approx(before, abs=1e-6)
    # Among equal requests no one starts before an earlier one has.
    for k in range(len(counts)):
        ends = [found.start[found.request == i] for i in np.flatnonzero(kind_of == k)]
        assert all(one.max() <= two.min() for one, two in pairwise(ends))
    for alpha in (0.3, 1.0):
        for i, point in enumerate(found.points(alpha)):
            own = found.request == i
            started = found.share[own & (found.start <= point)].sum()
            assert started >= alpha - 1e-6
            assert started - found.share[own & (found.start == point)].sum() < alpha
