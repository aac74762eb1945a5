"""Everything of this room in its quick form: findings for one table, curves for pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sortedf.proofs_check.curves import Curves
from sortedf.proofs_check.finding import Finding
from sortedf.proofs_check.guarantees import Watch, check_guarantees, ratio_by_alpha, unwatched
from sortedf.proofs_check.one_bit import one_bit_growth

INSTANCES, LARGER = 2000, 40
"""Trials of the quick form of the guarantees; some ten seconds."""


@dataclass(frozen=True)
class Part:
    """One part of the overview: its title, and what makes its findings and its curves.

    Both are called as ``make(seed, watch)``.
    """

    title: str
    findings: Callable[[int, Watch], Sequence[Finding]]
    curves: Callable[[int, Watch], Sequence[Curves]] = lambda seed, watch: ()


PARTS = (
    Part(
        "Guarantees",
        lambda seed, watch: check_guarantees(
            instances=INSTANCES, larger=LARGER, seed=seed, watch=watch
        ),
        lambda seed, watch: (
            ratio_by_alpha(instances=INSTANCES, larger=LARGER, seed=seed, watch=watch),
            one_bit_growth(),
        ),
    ),
)


@dataclass(frozen=True)
class Checked:
    """What one part brought."""

    title: str
    findings: tuple[Finding, ...]
    curves: tuple[Curves, ...] = ()


def check_all(*, seed: int = 0, watch: Watch = unwatched) -> list[Checked]:
    """Run the quick form of every part; under a minute in all once kernels are compiled."""
    return [
        Checked(part.title, tuple(part.findings(seed, watch)), tuple(part.curves(seed, watch)))
        for part in PARTS
    ]
