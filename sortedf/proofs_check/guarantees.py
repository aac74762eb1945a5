"""Guarantees put to the test on many instances, against the optimum and against bounds.

A claim value <= limit x optimum is seen to hold where the value is at most the limit times a proved
lower bound of the optimum, and to fail where it is above the limit times the total latency of a
verified schedule. In between it is undecided; where the optimum is known there is nothing between.
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

OPTIMUM, BOUND = "optimum", "certified bound"

CLASSES_OF_ALPHA = 10


def unwatched(items: Iterable[Trial], text: str, total: int) -> Iterable[Trial]:
    """Pass trials on and show nothing."""
    return items


class Tally:
    """What one claim brings on one instance after the other."""

    def __init__(self, claim: Claim, against: str) -> None:
        self.claim = claim
        self.against = against
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
        elif value > limit * known.lower:
            self.undecided += 1
        ratio = value / known.lower
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
        One a claim and kind of instances. Ratios are to the optimum or, on larger instances, to the
        certified bound, where they are at least the ratio to the optimum.

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


def ratio_by_alpha(*, instances: int = 1000, seed: int = 0, watch: Watch = unwatched) -> Curves:
    """Largest ratio of SVF to the optimum by alpha, beside the limit that is proved for it.

    Alpha = max(s + o) / M is taken in ten classes, each drawn at its middle, with the limit at its
    lower end; instances with alpha = 1, for which there is no limit, are left out.
    """
    largest: dict[int, Fraction] = {}
    drawn = trials(instances, seed)
    for trial in watch(drawn, "SVF against the optimum, by alpha", instances):
        if svf_limit(trial.instance) is None:
            continue
        known = know(trial.instance)
        size = largest_size(trial.instance)
        place = CLASSES_OF_ALPHA * size // trial.instance.kv_tokens
        ratio = CLAIMS["svf"].value(known) / known.lower
        largest[place] = max(largest.get(place, ratio), ratio)
    places = sorted(largest)
    return Curves(
        "Largest ratio of SVF, by alpha",
        "alpha = max(s + o) / M",
        tuple((place + 0.5) / CLASSES_OF_ALPHA for place in places),
        {
            "limit 1 + 2 / (1 - alpha)": tuple(
                float(1 + Fraction(2 * CLASSES_OF_ALPHA, CLASSES_OF_ALPHA - place))
                for place in places
            ),
            "svf, largest seen": tuple(float(largest[place]) for place in places),
        },
    )
