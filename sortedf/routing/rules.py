"""Rules by which a request is sent to an instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sortedf.routing.fleet import HELD, Arriving, Fleet


class Rule(Protocol):
    """Decides for one request at a time."""

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance that the request is sent to now, or HELD."""
        ...


class RoundRobin:
    """One instance after another."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the next in turn."""
        place = self._next % len(fleet)
        self._next += 1
        return place


class ShortestQueue:
    """The instance with the fewest requests that run or wait; the first of equals."""

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance of the shortest queue."""
        return int(np.argmin(fleet.queues))


class LeastOutstanding:
    """The instance with the fewest tokens still to be computed; the first of equals."""

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance with the least to do."""
        return int(np.argmin([engine.outstanding_tokens for engine in fleet.engines]))


class LatencyAgnostic:
    """The instance of the greatest utility, whenever it answers."""

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance of the greatest utility."""
        return int(np.argmax(request.utility))


class Published:
    """The router of arXiv 2607.18253: the greatest utility among those that answer in time.

    When none does, the one that answers first. With ``delta`` above 0 the Lagrangian form: utility
    less ``delta`` times the estimated seconds is what is greatest.
    """

    def __init__(self, delta: float = 0.0) -> None:
        self.delta = delta

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the best that answers in time, or the first to answer."""
        ttft = fleet.ttft(request)
        in_time = ttft <= request.limit
        if not in_time.any():
            return int(np.argmin(ttft))
        value = request.utility - self.delta * ttft
        return int(np.argmax(np.where(in_time, value, -np.inf)))


class Guarded:
    """Only where it surely answers in time; what is doomed goes out of the way."""

    def __init__(self, margin: float = 0.5, doomed: str = "back") -> None:
        self.margin, self.doomed = margin, doomed

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the best that answers well in time."""
        ttft = fleet.ttft(request)
        in_time = ttft <= request.limit * self.margin
        if in_time.any():
            return int(np.argmax(np.where(in_time, request.utility, -np.inf)))
        if self.doomed == "least":
            return int(np.argmin(request.utility))
        return HELD


RULES: Mapping[str, Callable[[], Rule]] = MappingProxyType(
    {
        "round-robin": RoundRobin,
        "shortest-queue": ShortestQueue,
        "least-outstanding": LeastOutstanding,
        "latency-agnostic": LatencyAgnostic,
        "sfs": Published,
        "guarded": Guarded,
    }
)
