"""The instances side by side, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.routing.following import FollowingEngine
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import LengthModel, as_predicted
from sortedf.routing.live import LiveEngine

FloatArray: TypeAlias = npt.NDArray[np.float64]

HELD = -1
"""Instead of an instance: the request stays with the router for now."""


class Arriving(NamedTuple):
    """A request that is to be routed, with what is known of it; R instances.

    ``number`` names it; ``predicted`` are output tokens, ``utility`` what an answer in time is
    worth on each instance, both of shape (R,); ``limit`` is in seconds from ``arrival``.
    """

    number: int
    prompt_tokens: int
    predicted: FloatArray
    utility: FloatArray
    arrival: float
    limit: float

    @property
    def deadline(self) -> float:
        """Second by which the first token counts."""
        return self.arrival + self.limit


class Fleet:
    """The engines of some instances; each stands still between two moments of interest.

    Parameters
    ----------
    instances
        At least one.
    lengths
        What is foreseen of outputs; predictions as they are when left out.
    record
        Whether to keep what became of every request.
    follows
        Whether the engines are told of the ends of their steps.
    """

    def __init__(
        self,
        instances: Sequence[EngineInstance],
        lengths: LengthModel | None = None,
        *,
        record: bool = True,
        follows: bool = False,
    ) -> None:
        if not instances:
            raise OptionError("a fleet is at least one instance")
        known = as_predicted() if lengths is None else lengths
        self.instances = tuple(instances)
        kind = FollowingEngine if follows else LiveEngine
        self.engines = [
            kind(one.settings, one.step_time, known, record=record) for one in instances
        ]
        self.now = -np.inf

    def __len__(self) -> int:
        return len(self.engines)

    def advance(self, until: float) -> None:
        """Drive every engine until its next call is at ``until`` (seconds) or later."""
        for engine in self.engines:
            engine.advance(until)
        self.now = until

    def foresee(self, lengths: LengthModel) -> None:
        """Let outputs be foreseen differently from now on."""
        for engine in self.engines:
            engine.lengths = lengths

    def ttft(self, request: Arriving) -> FloatArray:
        """Estimate the seconds from now to the first token on every instance, shape (R,)."""
        return np.array(
            [
                engine.ttft(request.prompt_tokens, request.predicted[place])
                for place, engine in enumerate(self.engines)
            ]
        )

    @property
    def queues(self) -> list[int]:
        """Requests that run or wait on every instance."""
        return [engine.n_present for engine in self.engines]
