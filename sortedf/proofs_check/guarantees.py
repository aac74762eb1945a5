"""Guarantees put to the test on many instances, against the optimum and against bounds.

That of a policy, value <= limit x optimum, is seen to hold where the value is at most the limit
times a proved lower bound of the optimum, and to fail where it is above the limit times the total
latency of a verified schedule. In between it is undecided; where the optimum is known there is
nothing between. A lower bound is held against the optimum or, where that is not known, against a
verified schedule alone: a bound above it is refuted, one below is not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from sortedf.model import Instance
from sortedf.proofs_check.claims import CLAIMS, Claim, largest_size, svf_limit
from sortedf.proofs_check.curves import Curves
from sortedf.proofs_check.finding import Finding
from sortedf.proofs_check.optimum import Known, know
from sortedf.proofs_check.trials import Trial, trials

Watch = Callable[[Iterable[Trial], str, int], Iterable[Trial]]
"""Passes trials on, so that their number can be shown; gets a text and how many there are, too."""

OPTIMUM, BOUND, SCHEDULE = "optimum", "certified bound", "verified schedule"


def unwatched(items: Iterable[Trial], text: str, total: int) -> Iterable[Trial]:
    """Pass trials on and show nothing."""
    return items


class Tally:
    """What one claim brings on one instance after the other."""

    def __init__(self, claim: Claim, against: str) -> None:
        self.claim = claim
        self.against = SCHEDULE if claim.is_bound and against == BOUND else against
        self.checked = 0
        self.undecided = 0
        self.ratio = Fraction(0)
        self.share = Fraction(0)
        self.worst: Instance | None = None
        self.violations: list[Instance] = []

    def add(self, known: Known) -> None:
        """Evaluate the claim on one more instance, if it speaks of it."""
        claim = self.claim
        limit = claim.limit(known.instance)
        if limit is None:
            return
        self.checked += 1
        value = claim.value(known)
        if claim.refutable and value > limit * known.upper:
            self.violations.append(known.instance)
        elif claim.refutable and not claim.is_bound and value > limit * known.lower:
            self.undecided += 1
        ratio = value / (known.upper if claim.is_bound else known.lower)
        self.share = max(self.share, ratio / limit)
        if ratio > self.ratio:
            self.ratio, self.worst = ratio, known.instance

    def finding(self) -> Finding:
        """Sum up."""
        return Finding(
            self.claim.statement,
            self.claim.source,
            self.checked,
            float(self.ratio) if self.checked else None,
            tuple(self.violations),
            self.against,
            float(self.share) if self.checked else None,
            self.undecided,
            self.claim.refutable,
            self.worst,
        )


def check_guarantees(
    *,
    instances: int = 1000,
    larger: int = 20,
    seed: int = 0,
    claims: Sequence[Claim] = tuple(CLAIMS.values()),
    watch: Watch = unwatched,
) -> list[Finding]:
    """Evaluate claims on instances drawn by seed.

    Parameters
    ----------
    instances
        How many of up to eight requests, against their optimum.
    larger
        How many of 9 to 80 requests, against certified bounds.
    seed
        Of the trials; see :func:`sortedf.proofs_check.trials.trial`.
    claims
        Which claims; all by default.
    watch
        Is given the trials to pass on.

    Returns
    -------
    list of Finding
        One a claim and kind of instances. Ratios are to what ``against`` says: a policy's to a
        certified bound is at least its ratio to the optimum.

    Notes
    -----
    A millisecond or two for each small instance, some 60 for each larger one.
    """
    groups = [(instances, False, OPTIMUM), (larger, True, BOUND)]
    findings = []
    for count, is_larger, against in groups:
        if count == 0:
            continue
        tallies = [Tally(claim, against) for claim in claims]
        drawn = trials(count, seed, larger=is_larger)
        for trial in watch(drawn, f"instances against their {against}", count):
            known = know(trial.instance)
            for tally in tallies:
                tally.add(known)
        findings += [tally.finding() for tally in tallies]
    return findings


def ratio_by_alpha(
    *, instances: int = 1000, larger: int = 100, seed: int = 0, watch: Watch = unwatched
) -> Curves:
    """Largest ratio of SVF by alpha = max(s + o) / M, beside the limit that is proved for it.

    Alpha is taken in ten classes, each drawn at its middle; instances with alpha = 1, for which
    there is no limit, are left out. Parameters as of :func:`check_guarantees`.
    """
    seen = {}
    for count, is_larger, against in (instances, False, OPTIMUM), (larger, True, BOUND):
        largest: dict[float, float] = {}
        drawn = trials(count, seed, larger=is_larger)
        for trial in watch(drawn, f"SVF against the {against}, by alpha", count):
            if svf_limit(trial.instance) is None:
                continue
            known = know(trial.instance)
            tenth = 10 * largest_size(trial.instance) // trial.instance.kv_tokens
            ratio = float(CLAIMS["svf"].value(known) / known.lower)
            middle = (2 * tenth + 1) / 20
            largest[middle] = max(largest.get(middle, ratio), ratio)
        seen[f"svf, to the {against}"] = tuple(sorted(largest.items()))
    return Curves(
        "Smallest volume first, by the size of the largest request",
        "Largest ratio of the total latency seen in each tenth, and the limit of the theorem.",
        "alpha = max(s + o) / M",
        {
            "limit 1 + 2 / (1 - alpha)": tuple(
                (alpha / 100, float(1 + Fraction(200, 100 - alpha))) for alpha in range(0, 81, 5)
            ),
            **seen,
        },
    )
