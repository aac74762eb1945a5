"""What is known of lengths as one writes it: ``exact``, ``noisy:0.7``, ``learned:past.csv``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from sortedf.errors import OptionError
from sortedf.instances.history import read_history
from sortedf.instances.reading import Note
from sortedf.instances.traits import traits_of
from sortedf.model import Instance
from sortedf.model.instance import MAX_TOKENS
from sortedf.serving.knowledge import Knowledge, exact, interval, noisy, nothing, one_bit

if TYPE_CHECKING:
    from sortedf.serving.predictor import Predictor


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
_LEARNED = "learned"
KINDS = ", ".join([*_PLAIN, *(f"{name}:X" for name in _DRAWN), f"{_LEARNED}:HISTORY"])

MOST_SPREAD = 20.0
"""Of a logarithm; outputs off by a factor of exp(20) are no predictions."""


@dataclass(frozen=True)
class Known:
    """What is known of lengths, whatever the workload."""

    text: str
    kind: str
    spread: float | None = None
    predictor: Predictor | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether it depends on a seed."""
        return self.spread is not None

    def of(self, instance: Instance, seed: int) -> Knowledge:
        """Give what is known of some requests."""
        if self.predictor is not None:
            return self.predictor.predict(traits_of(instance)).known(instance)
        if self.spread is None:
            return _PLAIN[self.kind](instance)
        return _DRAWN[self.kind](instance, self.spread, seed)


def history_of_known(text: str) -> str | None:
    """Give the file that what is known is learnt from, if it is."""
    kind, _, path = text.strip().partition(":")
    return path if kind == _LEARNED and path else None


def read_known(text: str, note: Note = lambda text: None) -> Known:
    """Read what is known of lengths.

    Parameters
    ----------
    text
        ``exact``, ``one-bit`` or ``nothing``; ``noisy:SIGMA`` and ``interval:SPREAD``, as
        :func:`sortedf.serving.knowledge.noisy` and :func:`sortedf.serving.knowledge.interval` take
        them; or ``learned:HISTORY``, medians and intervals that :mod:`.predictor` learns from the
        prompt tokens of a file of finished requests. Noisy predictions are cut at the longest
        output.
    note
        Gets what there is to say of the history.

    Raises
    ------
    OptionError
        For what is none of these.
    InputError
        For a history that cannot be read or is too short.
    """
    if (path := history_of_known(text)) is not None:
        return Known(text.strip(), _LEARNED, predictor=_learnt(path, note))
    kind, colon, number = text.strip().partition(":")
    if kind in _PLAIN and not colon:
        return Known(text.strip(), kind)
    if kind in _PLAIN:
        raise OptionError(f"what is known is {text!r}; {kind} takes no number")
    if kind == _LEARNED:
        raise OptionError(f"what is known is {text!r}; name the finished requests: learned:HISTORY")
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


def _learnt(path: str, note: Note) -> Predictor:
    from sortedf.serving import predictor

    predictor.learners()  # before a long history is read for nothing
    history = read_history(path, note=note)
    # Of what is simulated, prompt tokens alone are told.
    alone = traits_of(Instance(history.traits.prompt_tokens, history.output_tokens, MAX_TOKENS))
    return predictor.learn(history.shared_with(alone))
