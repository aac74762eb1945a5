"""What the check of a claim brought."""

from __future__ import annotations

from dataclasses import dataclass

from sortedf.model import Instance


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
    """

    claim: str
    source: str
    checked: int
    largest: float | None
    violations: tuple[Instance, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no violation was found; which proves nothing."""
        return not self.violations
