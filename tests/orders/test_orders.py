"""The orders: what each sorts by, and how ties fall."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sortedf import Instance, OptionError
from sortedf.orders import ORDERS, Proxies, burst_proxies, geometric_proxies, one_bit_volume

lengths = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12
)


def instance_of(rows: list[tuple[int, int, int]]) -> Instance:
    s, o, a = zip(*rows, strict=True)
    return Instance(s, o, 1000, release=a)


KEYS = {
    "fcfs": lambda s, o, a: a,
    "mcsf": lambda s, o, a: o,
    "size": lambda s, o, a: s + o,
    "svf": lambda s, o, a: sum(s + k for k in range(1, o + 1)),
    "longest": lambda s, o, a: -o,
}


@given(lengths, st.sampled_from(sorted(KEYS)))
def test_orders_sort_by_their_key_with_ties_by_input(
    rows: list[tuple[int, int, int]], name: str
) -> None:
    """Each order is the stable sort by the key that its paper names."""
    expected = sorted(range(len(rows)), key=lambda i: KEYS[name](*rows[i]))
    assert ORDERS[name](instance_of(rows)).tolist() == expected


@given(lengths)
def test_one_bit_volume_sorts_by_proxy_volume(rows: list[tuple[int, int, int]]) -> None:
    """1-bit volume sees of an output only on which side of the threshold it lies."""

    def key(i: int) -> float:
        proxy = 2 if rows[i][1] <= 4 else 7
        return rows[i][0] * proxy + (proxy**2 + proxy) / 2

    order = one_bit_volume(instance_of(rows), proxies=Proxies(4, 2, 7))
    assert order.tolist() == sorted(range(len(rows)), key=key)


def test_burst_proxies_are_those_of_the_paper() -> None:
    """With T = 10,000 the threshold is 100, the proxies 10 and 1,000 [2]."""
    proxies = burst_proxies(Instance([1, 9000], [1, 1000], 20000))
    assert proxies == pytest.approx((100, 10, 1000))
    assert ORDERS["svf-1bit"](Instance([1, 9000], [1, 1000], 20000)).tolist() == [0, 1]


def test_geometric_proxies_are_the_conditional_means() -> None:
    """The short proxy is E[o | o <= theta], the long one E[o | o > theta], o geometric [2]."""
    mu, theta = 0.1, 10
    k = np.arange(1, 2000)
    chance = mu * (1 - mu) ** (k - 1)
    low = k <= theta
    proxies = geometric_proxies(1 / mu, theta)
    assert proxies.short == pytest.approx((k * chance)[low].sum() / chance[low].sum())
    assert proxies.long == pytest.approx((k * chance)[~low].sum() / chance[~low].sum())


@pytest.mark.parametrize(
    "proxies", [(1, 0, 1), (1, 3, 2), (-1, 1, 2), (math.nan, 1, 2), (1, 1, math.inf)]
)
def test_senseless_proxies_are_refused(proxies: tuple[float, float, float]) -> None:
    """Proxies that are not positive, finite and ordered are refused."""
    with pytest.raises(OptionError, match="proxies"):
        one_bit_volume(Instance([1], [1], 9), proxies=Proxies(*proxies))
    with pytest.raises(OptionError):
        geometric_proxies(1.0, 5)


def test_random_order_is_the_same_for_a_seed_for_ever() -> None:
    """The random order of a seed is written down here: it may never change."""
    backlog = Instance([1] * 8, [1] * 8, 9)
    assert ORDERS["random"](backlog).tolist() == RANDOM_OF_SEED_0
    assert ORDERS["random"](backlog, seed=1).tolist() != RANDOM_OF_SEED_0
    assert sorted(ORDERS["random"](backlog, seed=1).tolist()) == list(range(8))


RANDOM_OF_SEED_0 = [3, 2, 1, 6, 0, 7, 4, 5]
