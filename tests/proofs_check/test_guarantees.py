"""Guarantees: what is evaluated, and that a false claim is found out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import Instance
from sortedf.errors import OptionError, VerificationError
from sortedf.lp.prices import Prices
from sortedf.proofs_check import guarantees, optimum
from sortedf.proofs_check.claims import BOUNDS, CLAIMS, Claim, find_claims, svf_limit
from sortedf.proofs_check.finding import Finding
from sortedf.proofs_check.guarantees import Tally, check_guarantees, ratio_by_alpha
from sortedf.proofs_check.one_bit import one_bit_family, one_bit_growth
from sortedf.proofs_check.optimum import Known, know, least_schedule
from sortedf.proofs_check.trials import Trial, trial, trials

TWICE = Claim("twice", "value <= 2", "made up", lambda known: Fraction(0), lambda i: Fraction(2))
NOTHING = Prices(*(np.zeros(0, np.int64),) * 4, denominator=1)


def test_limits_of_svf() -> None:
    """Five at alpha = 1/2, toward three at 0; of alpha = 1 the claim says nothing."""
    assert svf_limit(Instance([1], [1], 4)) == 5
    assert svf_limit(Instance([1, 1], [1, 2], 10)) == 1 + Fraction(20, 7)
    assert svf_limit(Instance([1], [1], 2 * 10**9)) == 3 + Fraction(2, 10**9 - 1)
    assert svf_limit(Instance([3], [1], 4)) is None


@settings(max_examples=60)
@given(st.integers(0, 10**6))
def test_what_is_known_is_true(number: int) -> None:
    """The optimum is that of the brute force where it can be had; the rest lies around it."""
    instance = trial(number % 50, number).instance
    known = know(instance)
    assert known.solved
    if instance.output_tokens.sum() <= 20 and len(instance) <= 6:
        assert known.upper == least_latency(instance)
    unsolved = Instance([1] * 9, [3] * 9, 8)
    known = know(unsolved)
    assert 0 < known.lower <= known.upper
    assert not known.solved


def test_the_exact_solver_agrees() -> None:
    """Eight requests, too many for the brute force: the value of the solver, which is another."""
    instances = [t.instance for t in trials(400, 5) if len(t.instance) == 8][:12]
    for instance in instances:
        result = sortedf.solve(
            instance, solver="exact", stop=sortedf.solvers.MaxIterations(100_000)
        )
        assert result.status == "optimal"
        assert know(instance).upper == result.total_latency


def test_what_the_full_search_refuses() -> None:
    """Nine requests or a release are refused; too few nodes give no schedule."""
    with pytest.raises(OptionError, match="up to 8"):
        least_schedule(Instance([1] * 9, [1] * 9, 4))
    with pytest.raises(OptionError, match="released at 0"):
        least_schedule(Instance([1], [1], 4, release=[1]))
    assert least_schedule(Instance([1, 2], [2, 1], 4), most_nodes=1) is None


def test_without_the_optimum_a_bound_will_do() -> None:
    """Where the search is cut off, bounds on both sides take its place."""
    known = know(Instance([1, 2, 2], [4, 3, 2], 6), most_nodes=1)
    assert known.lower < known.upper
    assert known.lower <= least_latency(known.instance) <= known.upper


def test_a_bound_that_the_checker_does_not_find_is_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the ascent says its prices prove is recomputed before it is used."""
    from sortedf.lp.ascent import ascend

    def boasting(*arguments: object, **options: object) -> tuple[Prices, Fraction]:
        prices, value = ascend(*arguments, **options)  # type: ignore[arg-type]
        return prices, value + 1

    monkeypatch.setattr(optimum, "ascend", boasting)
    with pytest.raises(VerificationError, match="the prices prove"):
        know(Instance([1] * 9, [3] * 9, 8))


def test_no_claim_is_violated() -> None:
    """The guarantees hold on a few hundred instances; ratios are at least 1, bounds at most."""
    findings = check_guarantees(instances=300, larger=6)
    assert len(findings) == 2 * len(CLAIMS)
    for finding, claim in zip(findings, [*CLAIMS.values()] * 2, strict=True):
        assert finding.claim == claim.statement
        assert finding.verdict == ("holds" if claim.refutable else "measured")
        assert finding.largest is not None
        assert finding.largest <= 1 if claim.is_bound else finding.largest > 1
    assert [finding.checked for finding in findings[1:9]] == [300] * 8
    assert 100 < findings[0].checked < 300  # alpha is 1 on many
    assert {f.against for f in findings} == {"optimum", "certified bound", "verified schedule"}


def lowered(name: str, limit: Fraction) -> Claim:
    """Claim less than the theorem does."""
    return replace(CLAIMS[name], limit=lambda instance: limit)


@pytest.mark.parametrize("name", ["svf", "exact-dp"])
def test_a_false_ratio_is_found_out(name: str) -> None:
    """With the limit lowered to 6/5 there are violations, and each of them is one."""
    (finding,) = check_guarantees(instances=300, larger=0, claims=[lowered(name, Fraction(6, 5))])
    assert finding.verdict == "violated"
    assert not finding.holds
    checked = 0
    for instance in finding.violations:
        if instance.output_tokens.sum() > 24:
            continue
        value = sortedf.solve(instance, solver=name, bound=False).total_latency
        assert 5 * value > 6 * least_latency(instance)
        checked += 1
    assert checked


@pytest.mark.parametrize("claim", BOUNDS, ids=lambda claim: claim.name)
def test_a_false_bound_is_found_out(claim: Claim) -> None:
    """A bound raised by a step is above some optimum, whatever the bound."""
    raised = replace(claim, value=lambda known: claim.value(known) + 1)
    small, larger = check_guarantees(instances=300, larger=6, claims=[raised])
    assert small.verdict == "violated"
    assert small.share is not None
    assert small.share > 1
    assert larger.against == "verified schedule"


def judged(value: int, lower: int, upper: int, claim: Claim = TWICE) -> Finding:
    """Evaluate a claim, here of this value, on an instance of which so much is known."""
    tally = Tally(replace(claim, value=lambda known: Fraction(value)), guarantees.BOUND)
    tally.add(Known(Instance([1], [1], 2), Fraction(lower), upper, NOTHING))
    return tally.finding()


@pytest.mark.parametrize(
    ("value", "verdict"),
    [(20, "holds"), (21, "undecided"), (24, "undecided"), (25, "violated")],
)
def test_verdicts(value: int, verdict: str) -> None:
    """Up to limit x lower bound it holds, above limit x schedule it fails, between is neither."""
    assert judged(value, 10, 12).verdict == verdict
    assert judged(value, 10, 12, replace(TWICE, refutable=False)).verdict == "measured"
    assert judged(value, 10, 12).largest == value / 10
    assert judged(value, 10, 12).share == value / 20


def test_equality_at_the_limit_of_large_numbers() -> None:
    """A claim that holds with equality holds, one more violates it: no float is in between."""
    huge = 10**30
    assert judged(2 * huge, huge, huge).verdict == "holds"
    assert judged(2 * huge + 1, huge, huge).verdict == "violated"


def test_a_bound_is_held_against_schedules() -> None:
    """Of a lower bound nothing is undecided: it is above a verified schedule or not refuted."""
    assert judged(11, 10, 12, BOUNDS[0]).verdict == "holds"
    assert judged(13, 10, 12, BOUNDS[0]).verdict == "violated"


def test_a_claim_that_does_not_speak_of_an_instance() -> None:
    """Where there is no limit, nothing is counted."""
    finding = judged(9, 1, 1, replace(TWICE, limit=lambda instance: None))
    assert (finding.checked, finding.largest, finding.share) == (0, None, None)
    assert finding.holds


def test_same_seed_same_findings() -> None:
    """Findings depend on the seed and on nothing else."""
    one, same, other = (
        [f.to_dict() for f in check_guarantees(instances=60, larger=2, seed=seed)]
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_finding_claims() -> None:
    """A policy has its claim, `all` are all; of others nothing is claimed."""
    assert [claim.name for claim in find_claims("svf")] == ["svf"]
    assert find_claims("all") == list(CLAIMS.values())
    for name in ("mcsf", "bound-volume", ""):
        with pytest.raises(OptionError, match="no claim"):
            find_claims(name)


def test_ratios_by_alpha_stay_below_the_curve() -> None:
    """In each tenth the largest ratio is at most the limit at its end."""
    curves = ratio_by_alpha(instances=200, larger=4)
    limit, *seen = curves.points.values()
    assert limit[0] == (0.0, 3.0)
    assert dict(limit)[0.5] == 5.0
    assert curves.exponents == {}
    for points in seen:
        assert points
        for alpha, ratio in points:
            assert alpha == pytest.approx(round(alpha - 0.05, 1) + 0.05)
            assert 1 <= ratio <= 1 + 2 / (0.95 - alpha) if alpha < 0.9 else ratio >= 1


def test_growth_of_one_bit() -> None:
    """On its family the ratio doubles with four times T, and SVF's stays where it is."""
    curves = one_bit_growth((64, 256, 1024))
    ratios = [ratio for _, ratio in curves.points["svf-1bit"]]
    assert ratios[0] > 7
    assert all(1.8 < later / ratio < 2.5 for ratio, later in pairwise(ratios))
    assert 0.4 < curves.exponents["svf-1bit"] < 0.6
    assert max(ratio for _, ratio in curves.points["svf"]) < 1.5
    family = one_bit_family(64)
    assert (len(family), family.kv_tokens) == (16 + 16 * 8, 64)


def test_watching_changes_nothing() -> None:
    """Who watches gets each trial, what it is of, and how many there are."""
    seen: list[tuple[str, int]] = []

    def watch(items: Iterable[Trial], text: str, total: int) -> Iterable[Trial]:
        seen.append((text, total))
        return items

    check_guarantees(instances=3, larger=1, watch=watch)
    assert [total for _, total in seen] == [3, 1]
