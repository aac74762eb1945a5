"""Branching: the tree that it leaves behind proves the bounds that it claims."""

from __future__ import annotations

import random
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from brute_bounds import random_instance
from brute_force import least_latency

import sortedf
from sortedf import Instance, Schedule, certificate, verify
from sortedf.errors import OptionError
from sortedf.instances import new_certificate
from sortedf.kernels import exact_prices
from sortedf.lp import tree
from sortedf.lp.ascent import best_in_order
from sortedf.lp.bounds import branching_bound
from sortedf.lp.branching import Branching
from sortedf.lp.tree import Cut, Tree, cuts_between, pieces_of
from sortedf.model.instance import IntArray


def proved(instance: Instance, proof: Tree) -> Fraction:
    """Bound that the independent checker finds; it has to be the tree's own."""
    report = certificate.check(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        new_certificate(instance, proof),
        kv_tokens=instance.kv_tokens,
        ids=instance.ids,
    )
    assert report.ok, report.violations
    assert report.bound == proof.value
    return proof.value


def is_feasible(instance: Instance, starts: IntArray) -> bool:
    """Whether a schedule holds, by the independent verifier."""
    return verify.verify(
        instance.prompt_tokens.tolist(),
        instance.output_tokens.tolist(),
        instance.release.tolist(),
        instance.kv_tokens,
        starts.tolist(),
    ).ok


@pytest.mark.parametrize("seed", range(60))
def test_every_step_is_proved_by_the_tree(seed: int) -> None:
    """On tiny instances, with releases: at each step the certificate holds what is claimed."""
    rng = random.Random(seed)
    instance = random_instance(rng, 5, 4)
    optimum = least_latency(instance)
    start = best_in_order(instance)
    # The value to beat may be better than any schedule known; it may also come down on the way.
    value: int = rng.choice([start.total_latency(instance), optimum, optimum + 1])
    branching = Branching(instance, start.starts, value)
    for number, step in enumerate(branching.steps()):
        if step.only is not None and is_feasible(instance, step.only):
            branching.value = min(branching.value, Schedule(step.only).total_latency(instance))
        if number % rng.choice([1, 3, 7]) == 0:
            bound = proved(instance, branching.tree)
            assert bound <= optimum
            assert ceil(bound) >= min(ceil(step.bound), branching.value)
        if number == 21:
            branching.value = optimum
    assert ceil(proved(instance, branching.tree)) == optimum


def test_a_proof_of_dozens_of_requests() -> None:
    """Sixteen requests of the mix are proved, splits, cuts and all, whatever the start schedule."""
    instance = sortedf.generate("mix", 16, seed=3, kv_tokens=9_000)
    best = sortedf.solve(instance, solver="exact", stop=sortedf.solvers.MaxIterations(400))
    found = branching_bound(instance, start=best.schedule)
    assert found.tree is not None
    assert proved(instance, found.tree) == found.value
    assert ceil(found.value) == best.total_latency
    slow = branching_bound(instance)
    assert slow.tree is not None
    assert proved(instance, slow.tree) <= best.total_latency


def test_exact_hands_over_the_tree() -> None:
    """The certified bound of `exact` has a certificate, whenever it is stopped."""
    instance = sortedf.generate("mix", 20, seed=1, kv_tokens=9_000)
    for limit in (80, 120):
        result = sortedf.solve(
            instance, solver="exact", stop=sortedf.solvers.MaxIterations(limit), block_size=4
        )
        assert result.lower_bound_exact is not None
        assert isinstance(result.proof, Tree)
        bound = proved(instance.in_blocks(4), result.proof)
        assert ceil(bound) >= ceil(result.lower_bound_exact)


def test_a_full_tree_stops_to_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for more prices the tree proves what it did, and the search goes on."""
    monkeypatch.setattr(tree, "MOST_PIECES", 300)
    instance = sortedf.generate("mix", 24, seed=4, kv_tokens=6_000)
    start = best_in_order(instance)
    branching = Branching(instance, start.starts, start.total_latency(instance))
    claims = []
    for _, step in zip(range(120), branching.steps(), strict=False):
        claims.append(step.bound)
    assert not branching.tree.complete
    bound = proved(instance, branching.tree)
    assert claims[0] <= bound < claims[-1]


def test_no_bound_beyond_the_longest_horizon() -> None:
    """A price a step is for short horizons only."""
    with pytest.raises(OptionError, match="65536 steps"):
        branching_bound(Instance([1, 1], [60_000, 6_000], 99_999))


def test_stops_are_asked() -> None:
    """The stop sees steps, value and bound; the value is that of the start schedule."""
    instance = sortedf.generate("mix", 24, seed=4, kv_tokens=6_000)
    seen = []

    def stop(iterations: int, best: int, bound: Fraction | None) -> bool:
        seen.append((iterations, best, bound))
        return iterations == 30

    start = Schedule(np.cumsum(instance.output_tokens) - instance.output_tokens)
    found = branching_bound(instance, start=start, stop=stop)
    assert [number for number, _, _ in seen] == list(range(1, 31))
    assert {best for _, best, _ in seen} == {start.total_latency(instance)}
    assert seen[-1][2] == found.value


def test_pieces_gather_equal_prices() -> None:
    """Equal neighbours are one piece, zeros none."""
    assert pieces_of(np.array([9, 0, 4, 4, 0, 4, 5])).tolist() == [[2, 3, 4], [5, 5, 4], [6, 6, 5]]
    assert pieces_of(np.array([9, 3, 3, 0, 0])).tolist() == [[1, 2, 3]]
    assert pieces_of(np.array([0, 0])).tolist() == []


def test_cuts_are_what_windows_lose() -> None:
    """What is before a later begin and after an earlier end is cut off, request by request."""
    low, high = np.array([0, 2, 5]), np.array([9, 9, 5])
    assert cuts_between(low, high, np.array([1, 2, 5]), np.array([4, 8, 5])) == [
        Cut(0, 0, False),
        Cut(0, 4, True),
        Cut(1, 8, True),
    ]


def test_the_cheapest_start_that_is_cut_off() -> None:
    """``shrink`` cuts just what costs over the slack, and tells by how much at least."""
    rng = random.Random(5)
    none = np.iinfo(np.int64).max
    for _ in range(300):
        n, steps = rng.randint(1, 4), rng.randint(3, 20)
        prompt = np.array([rng.randint(1, 5) for _ in range(n)])
        output = np.array([rng.randint(1, 6) for _ in range(n)])
        low = np.array([rng.randint(0, steps - 2) for _ in range(n)])
        high = np.array([rng.randint(x, steps - 1) for x in low.tolist()])
        prices = np.array([0, *(rng.randint(0, 6) for _ in range(steps - 1))])
        scale, slack = rng.choice([1, 7]), rng.randint(0, 40)
        new_low, new_high = low.copy(), high.copy()
        excess = exact_prices.shrink(prompt, output, new_low, new_high, prices, scale, slack)
        lost = [none]
        for i in range(n):
            s, o = int(prompt[i]), int(output[i])
            costs = {
                p: scale * (p + o)
                + sum(int(prices[p + k]) * (s + k) for k in range(1, o + 1) if p + k < steps)
                for p in range(int(low[i]), int(high[i]) + 1)
            }
            least = min(costs.values())
            kept = [p for p, cost in costs.items() if cost <= least + slack]
            assert (new_low[i], new_high[i]) == (kept[0], kept[-1])
            lost += [cost - least for p, cost in costs.items() if not kept[0] <= p <= kept[-1]]
        assert excess == min(lost)
