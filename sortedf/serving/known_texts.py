"""What is known of lengths as one writes it: ``exact``, ``noisy:0.7``, ``nothing``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from sortedf.errors import OptionError
from sortedf.model import Instance
from sortedf.serving.knowledge import Knowledge, exact, interval, noisy, nothing, one_bit


def _noisy(instance: Instance, sigma: float, seed: int) -> Knowledge:
    longest = int(instance.output_tokens.max())  # the most tokens that the service gives
    return noisy(instance, sigma, longest=longest, seed=seed)


_PLAIN: Mapping[str, Callable[[Instance], Knowledge]] = MappingProxyType(
    {"exact": exact, "one-bit": one_bit, "nothing": nothing}
)
_DRAWN: Mapping[str, Callable[[Instance, float, int], Knowledge]] = MappingProxyType(
    {
        "noisy": _noisy,
        "interval": lambda instance, spread, seed: interval(instance, spread, seed=seed),
    }
)
KINDS = ", ".join([*_PLAIN, *(f"{name}:X" for name in _DRAWN)])

MOST_SPREAD = 20.0
"""Of a logarithm; outputs off by a factor of exp(20) are no predictions."""


@dataclass(frozen=True)
class Known:
    """What is known of lengths, whatever the workload."""

    text: str
    kind: str
    spread: float | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it depends on a seed."""
        return self.spread is not None

    def of(self, instance: Instance, seed: int) -> Knowledge:
        """Give what is known of some requests."""
        if self.spread is None:
            return _PLAIN[self.kind](instance)
        return _DRAWN[self.kind](instance, self.spread, seed)


def read_known(text: str) -> Known:
    """Read what is known of lengths.

    Parameters
    ----------
    text
        ``exact``, ``one-bit`` or ``nothing``; ``noisy:SIGMA`` and ``interval:SPREAD``, as
        :func:`sortedf.serving.knowledge.noisy` and :func:`sortedf.serving.knowledge.interval` take
        them. Noisy predictions are cut at the longest output.

    Raises
    ------
    OptionError
        For what is none of these.
    """
    kind, colon, number = text.strip().partition(":")
    if kind in _PLAIN and not colon:
        return Known(text.strip(), kind)
    if kind in _PLAIN:
        raise OptionError(f"what is known is {text!r}; {kind} takes no number")
    if kind not in _DRAWN:
        raise OptionError(f"what is known is {text!r}; it must be one of {KINDS}")
    try:
        spread = float(number)
    except ValueError:
        spread = inf
    if not 0 <= spread <= MOST_SPREAD:
        raise OptionError(
            f"what is known is {text!r}; write {kind}:X with a number from 0 to {MOST_SPREAD:g}"
        )
    return Known(text.strip(), kind, spread)
