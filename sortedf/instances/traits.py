"""What is known of requests on arrival, besides the outputs of those that are finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.model import Instance

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
Index: TypeAlias = IntArray | npt.NDArray[np.bool_] | slice
"""Which requests: their positions, a mask, or a slice."""

COLUMN_NAMES = ("model", "task", "category", "type", "log type")
"""Columns (or keys) of a file that are known on arrival. Its others may not be: traces hold totals
and times of completion, which tell the output itself."""

LIMIT_NAMES = ("max_completion_tokens", "max_tokens")
TEXT_NAMES = ("prompt",)


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What is known of n requests when they arrive; ``None`` or left out where it is not.

    Parameters
    ----------
    prompt_tokens
        Shape (n,).
    limits
        Most output tokens that each may have, shape (n,); infinite without a limit.
    hours
        Hour of the day (UTC) at which each arrives, 0 to 24, shape (n,).
    columns
        Any others by name, each n values: texts, numbers, or ``None``.
    texts
        The prompts.
    """

    prompt_tokens: IntArray
    limits: FloatArray | None = None
    hours: FloatArray | None = None
    columns: Mapping[str, Sequence[Any]] = field(default_factory=lambda: MappingProxyType({}))
    texts: Sequence[str] | None = None

    def __post_init__(self) -> None:
        n = len(self.prompt_tokens)
        others = (self.limits, self.hours, self.texts, *self.columns.values())
        if any(values is not None and len(values) != n for values in others):
            raise OptionError(f"each trait must be known of all {n} requests")

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def names(self) -> list[str]:
        """What is known, in words."""
        given = {"limit": self.limits, "hour": self.hours, "text": self.texts}
        there = [name for name, values in given.items() if values is not None]
        return ["prompt tokens", *there, *self.columns]

    def select(self, index: Index) -> Traits:
        """Give some of the requests, in the order of the index."""
        place = np.arange(len(self))[index]

        def some(values: Sequence[Any]) -> list[Any]:
            return [values[i] for i in place.tolist()]

        return Traits(
            prompt_tokens=self.prompt_tokens[place],
            limits=None if self.limits is None else self.limits[place],
            hours=None if self.hours is None else self.hours[place],
            columns={name: some(values) for name, values in self.columns.items()},
            texts=None if self.texts is None else some(self.texts),
        )

    def shared_with(self, other: Traits) -> Traits:
        """Leave out what is not known of the others: nothing can be learnt from it for them."""
        return replace(
            self,
            limits=None if other.limits is None else self.limits,
            hours=None if other.hours is None else self.hours,
            columns={
                name: values for name, values in self.columns.items() if name in other.columns
            },
            texts=None if other.texts is None else self.texts,
        )


def traits_of(instance: Instance, hours: FloatArray | None = None) -> Traits:
    """Give the traits of requests of which only prompt lengths (and hours of arrival) are known."""
    return Traits(prompt_tokens=instance.prompt_tokens, hours=hours)


@dataclass(frozen=True, kw_only=True)
class History:
    """Finished requests, in the order of their arrival.

    Parameters
    ----------
    traits
        What was known when they arrived.
    output_tokens
        Shape (n,), at least 1.
    source
        What messages call it.
    """

    traits: Traits
    output_tokens: IntArray
    source: str = "the history"

    def __post_init__(self) -> None:
        if self.output_tokens.shape != (len(self.traits),):
            raise OptionError(f"outputs must be {len(self.traits)}, one for each request")
        if len(self) and self.output_tokens.min() < 1:
            raise OptionError("an output must be at least 1 token")

    def __len__(self) -> int:
        return len(self.traits)

    def select(self, index: Index) -> History:
        """Give some of the requests, in the order of the index."""
        return replace(
            self, traits=self.traits.select(index), output_tokens=self.output_tokens[index]
        )

    def shared_with(self, other: Traits) -> History:
        """Leave out what is not known of the others; see :meth:`Traits.shared_with`."""
        return replace(self, traits=self.traits.shared_with(other))

    def split(self, share: float) -> tuple[History, History]:
        """Split by time: the earlier requests, and the later ``share`` of them."""
        if not 0 < share < 1:
            raise OptionError(f"the later share is {share}; it must be above 0 and below 1")
        first = len(self) - round(share * len(self))
        return self.select(slice(first)), self.select(slice(first, None))


def history_of(
    instance: Instance, hours: FloatArray | None = None, source: str = "the history"
) -> History:
    """Take the requests of an instance, in their order, as finished with the outputs they have."""
    return History(
        traits=traits_of(instance, hours), output_tokens=instance.output_tokens, source=source
    )
