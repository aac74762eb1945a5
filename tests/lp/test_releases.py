"""Bounds of requests that are released over time: never above the optimum, proved, and close."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from brute_force import least_latency

import sortedf
from sortedf import Instance
from sortedf.certificate import Report, check
from sortedf.instances import new_certificate
from sortedf.lp import Bound, ascend, relax, relax_by_planes, solve_integer
from sortedf.lp.ascent import even_nodes
from sortedf.lp.bounds import CLOSED_FORMS, best_of, lower_bounds
from sortedf.lp.fluid import pieces_by_rank


def released(rng: random.Random, most: int = 5, longest: int = 3) -> Instance:
    """Draw a few small requests, at least one released after step 0, on a budget often tight."""
    n = rng.randint(2, most)
    output = [rng.randint(1, longest) for _ in range(n)]
    prompt = [rng.randint(1, rng.choice([2, 9])) for _ in range(n)]
    tightest = max(s + o for s, o in zip(prompt, output, strict=True))
    budget = tightest + rng.choice([0, 1, rng.randint(0, 12)])
    last = rng.choice([1, 3, 8])
    release = [rng.randint(0, last) for _ in range(n)]
    release[rng.randrange(n)] = last
    return Instance(prompt, output, budget, release=release)


def answer(instance: Instance, certificate: object) -> Report:
    """Have a certificate checked against its instance."""
    arrays = (instance.prompt_tokens, instance.output_tokens, instance.release)
    s, o, a = (column.tolist() for column in arrays)
    return check(s, o, a, certificate, kv_tokens=instance.kv_tokens, ids=instance.ids)


def test_no_bound_is_above_the_brute_force_on_two_thousand() -> None:
    """Each formula, and prices with their certificate checked, on 2,000 tiny instances.

    The brute force tries every decision at every step. The prices are at least as good as nothing:
    the best bound, rounded up, is the optimum on most.
    """
    rng = random.Random(41)
    tight = 0
    for number in range(2000):
        instance = released(rng)
        optimum = least_latency(instance)
        found = lower_bounds(instance, iterations=25)
        for bound in found:
            assert bound.value <= optimum, (number, bound.kind)
        prices = found[-1]
        report = answer(instance, new_certificate(instance, prices))
        assert report.ok, number
        assert report.bound == prices.value
        tight += -(-best_of(found).value // 1) == optimum
    assert tight > 1000


def test_a_certificate_is_for_its_releases() -> None:
    """Any other release, and any other price or bound, is refused."""
    rng = random.Random(42)
    for _ in range(40):
        instance = released(rng)
        prices, value = ascend(instance, iterations=25)
        certificate = new_certificate(instance, Bound(value, "prices", prices))
        assert answer(instance, certificate).ok
        for i in range(len(instance)):
            other = instance.release.copy()
            other[i] += 1 if other[i] == 0 else -1
            assert not answer(instance.replace(release=other), certificate).ok
        assert not answer(instance.replace(release=None), certificate).ok
        for change in (
            {"bound": f"{value.numerator + 1}/{value.denominator}"},
            {"kv_tokens": instance.kv_tokens + 1},
            {"instance_sha256": instance.replace(release=instance.release + 1).sha256},
        ):
            assert not answer(instance, certificate | change).ok
        for k in range(len(certificate["prices"])):
            dearer = copy.deepcopy(certificate)
            dearer["prices"][k][2] += dearer["denominator"] * 2  # paid for by all of M
            assert not answer(instance, dearer).ok


def test_certificates_without_releases_are_as_they_were() -> None:
    """Releases of 0 are no releases: the same prices, the same certificate."""
    instance = sortedf.generate("mix", 40, seed=3, kv_tokens=16492)
    zero = instance.replace(release=np.zeros(40, np.int64))
    one, two = (
        new_certificate(x, Bound(value, "prices", prices))
        for x in (instance, zero)
        for prices, value in [ascend(x, iterations=200)]
    )
    assert one == two


def over_time(n: int, load: float, seed: int) -> Instance:
    """Mixed requests that come by a Poisson process, so that they fill this share of the cache."""
    instance = sortedf.generate("mix", n, seed=seed, kv_tokens=16492)
    rate = load * instance.kv_tokens / float(instance.volume.mean())
    gaps = np.random.default_rng(seed).exponential(1 / rate, n)
    return instance.replace(release=np.cumsum(gaps).astype(np.int64))


@pytest.mark.parametrize("load", [0.6, 1.2])
def test_ascent_comes_near_the_linear_program(load: float) -> None:
    """Prices by ascent against those of the cutting planes, whose value is the best of all."""
    instance = over_time(120, load, seed=4)
    prices, value = ascend(instance)
    best = relax_by_planes(instance, prices=prices).bound
    assert 0.999 * best <= value <= best
    assert (
        answer(instance, new_certificate(instance, Bound(value, "prices", prices))).bound == value
    )
    assert value > max(form(instance) for form in CLOSED_FORMS.values())


def test_many_requests_are_not_sampled() -> None:
    """3,000 different releases: all are looked at, and the bound is far above the formulas."""
    instance = over_time(3000, 1.0, seed=5)
    _, value = ascend(instance, iterations=150)
    assert value > 1.08 * max(form(instance) for form in CLOSED_FORMS.values())


def test_programs_with_releases_agree() -> None:
    """The linear program is at least its prices; the integer one is the brute force."""
    rng = random.Random(43)
    for _ in range(15):
        instance = released(rng, most=4)
        relaxed = relax(instance)
        assert ascend(instance, iterations=60)[1] <= relaxed.value + 1e-6
        assert solve_integer(instance).value == least_latency(instance)


def test_pieces_of_the_fluid_machine_by_hand() -> None:
    """A smaller one cuts the first off, a larger one waits; all idle before the last comes."""
    release, work = np.array([0, 2, 3, 30]), np.array([6, 3, 9, 1])
    pieces = pieces_by_rank(release.astype(object), work.astype(object), work)
    assert list(pieces.job) == [0, 1, 1, 0, 2, 3]
    assert list(pieces.begin) == [0, 2, 3, 5, 9, 30]
    assert list(pieces.length) == [2, 1, 2, 4, 9, 1]


def test_the_fluid_machine_compiled_and_not() -> None:
    """Floats that are whole numbers give what Python's integers give; all work is done in time."""
    rng = np.random.default_rng(6)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        release, work = rng.integers(0, 20, n), rng.integers(1, 9, n)
        key = rng.integers(0, 4, n)
        exact = pieces_by_rank(release.astype(object), work.astype(object), key)
        floats = pieces_by_rank(release.astype(float), work.astype(float), key)
        if release.any():
            assert [list(column) for column in exact] == [list(column) for column in floats]
        for i in range(n):
            own = np.flatnonzero(exact.job == i)
            assert sum(exact.length[own]) == work[i]
            assert exact.begin[own[0]] >= release[i]
        ends = exact.begin + exact.length
        assert (ends[:-1] <= exact.begin[1:]).all()


def test_even_nodes() -> None:
    """From 0 to T, distinct, one a step where there are as many pieces as steps."""
    assert even_nodes(4, 9).tolist() == [0, 1, 2, 3, 4]
    assert even_nodes(100, 4).tolist() == [0, 25, 50, 75, 100]
