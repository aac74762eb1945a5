"""What the check of a claim brought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sortedf.model import Instance

SHOWN = 20
"""Violations of a claim that are shown or written; all are counted."""


@dataclass(frozen=True)
class Finding:
    """A claim, on how much it was checked, and what was seen.

    Parameters
    ----------
    claim
        Short name, as in a table: ``SVF <= 1 + 2 / (1 - alpha)``.
    source
        Paper and theorem, or "derived for this project".
    checked
        Instances that it was checked on.
    largest
        The largest ratio seen, or ``None`` where the claim is not about one.
    violations
        Instances on which it does not hold, each a finding to be written to a file.
    against
        What it was held against: ``optimum``, or a bound where that is not known.
    share
        The largest ratio divided by the limit that the claim sets for it on that instance, or by
        what the limit is a multiple of; ``None`` where there is no limit.
    undecided
        Instances on which it was neither seen to hold nor to fail.
    refutable
        Whether an instance can violate the claim; none can where its limit has an unknown constant
        or where there is no theorem, and ratios are only measured.
    worst
        An instance of the largest ratio.
    """

    claim: str
    source: str
    checked: int
    largest: float | None
    violations: tuple[Instance, ...] = ()
    against: str = "optimum"
    share: float | None = None
    undecided: int = 0
    refutable: bool = True
    worst: Instance | None = None

    @property
    def holds(self) -> bool:
        """Whether no violation was found; which proves nothing."""
        return not self.violations

    @property
    def verdict(self) -> str:
        """``violated``, ``unchecked``, ``measured``, ``undecided`` (in part) or ``holds``."""
        if self.violations:
            return "violated"
        if not self.checked:
            return "unchecked"
        if not self.refutable:
            return "measured"
        return "undecided" if self.undecided else "holds"

    def to_dict(self) -> dict[str, Any]:
        """Give plain data for JSON, a table and a page, with the first ``SHOWN`` violations."""
        return {
            "claim": self.claim,
            "source": self.source,
            "against": self.against,
            "checked": self.checked,
            "largest": self.largest,
            "share": self.share,
            "undecided": self.undecided,
            "violated": len(self.violations),
            "verdict": self.verdict,
            "worst": None if self.worst is None else _lengths(self.worst),
            "violations": [_lengths(instance) for instance in self.violations[:SHOWN]],
        }


def _lengths(instance: Instance) -> dict[str, Any]:
    return {
        "kv_tokens": instance.kv_tokens,
        "prompt_tokens": instance.prompt_tokens.tolist(),
        "output_tokens": instance.output_tokens.tolist(),
    }
