"""Rules by which a request is sent to an instance."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

import numpy as np

from sortedf.errors import OptionError
from sortedf.kernels.step_terms import PREFILL_TOKENS, STEPS
from sortedf.routing.fleet import HELD, Arriving, Fleet
from sortedf.routing.limited_sharing import LimitedSharing, SaturatedError
from sortedf.routing.priced import Priced
from sortedf.routing.work import share_seconds


class Rule(Protocol):
    """Decides for one request at a time.

    ``conditional`` says whether it foresees outputs by what there is of them so far, rather than as
    they were predicted.
    """

    conditional: bool

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance that the request is sent to now, or HELD."""
        ...


class RoundRobin:
    """One instance after another."""

    conditional = False

    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the next in turn."""
        place = self._next % len(fleet)
        self._next += 1
        return place


class ShortestQueue:
    """The instance with the fewest requests that run or wait; the first of equals."""

    conditional = False

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance of the shortest queue."""
        return int(np.argmin(fleet.queues))


class LeastOutstanding:
    """The instance with the fewest tokens still to be computed; the first of equals."""

    conditional = False

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance with the least to do."""
        return int(np.argmin([engine.outstanding_tokens for engine in fleet.engines]))


class LatencyAgnostic:
    """The instance of the greatest utility, whenever it answers."""

    conditional = False

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the instance of the greatest utility."""
        return int(np.argmax(request.utility))


class Published:
    """The router of arXiv 2607.18253: the greatest utility among those that answer in time.

    When none does, the one that answers first. With ``delta`` above 0 the Lagrangian form: utility
    less ``delta`` times the estimated seconds is what is greatest.
    """

    def __init__(self, delta: float = 0.0, *, conditional: bool = False) -> None:
        if not 0 <= delta < math.inf:
            raise OptionError(f"delta is {delta!r}; give utility a second, at least 0")
        self.delta, self.conditional = delta, conditional

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the best that answers in time, or the first to answer."""
        ttft = fleet.ttft(request)
        in_time = ttft <= request.limit
        if not in_time.any():
            return int(np.argmin(ttft))
        value = request.utility - self.delta * ttft
        return int(np.argmax(np.where(in_time, value, -np.inf)))


class Guarded:
    """The published rule with a margin, and a place for the doomed.

    Parameters
    ----------
    margin
        Of the limit, within which the estimate must be. At a half it means in effect: only where
        the request is admitted at once.
    doomed
        Where those go that nobody answers in time: ``back``, to the router's queue; ``least``, to
        the instance that they are worth least on, which is sacrificed.
    """

    conditional = True

    def __init__(self, margin: float = 0.5, doomed: str = "least") -> None:
        if not margin > 0 or doomed not in ("back", "least"):
            raise OptionError(f"margin is {margin!r} and doomed {doomed!r}; > 0, back or least")
        self.margin, self.doomed = margin, doomed

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the best that answers well in time."""
        in_time = fleet.ttft(request) <= request.limit * self.margin
        if in_time.any():
            return int(np.argmax(np.where(in_time, request.utility, -np.inf)))
        return int(np.argmin(request.utility)) if self.doomed == "least" else HELD


class AverageCase:
    """The published rule on average estimates: of each instance only its arrival rate is known.

    Limited processor sharing (:class:`~sortedf.routing.limited_sharing.LimitedSharing`) by what was
    sent there of late. An instance to which more is sent than it serves answers never.
    """

    conditional = False

    def __init__(self, window: float = 60.0) -> None:
        if not window > 0:
            raise OptionError(f"window is {window!r}; give seconds above 0")
        self.window = window
        self._sent: list[deque[tuple[float, float, float]]] = []

    def choose(self, request: Arriving, fleet: Fleet) -> int:
        """Give the best that answers in time on average, or the first to answer."""
        self._sent = self._sent or [deque() for _ in fleet.instances]
        ttft = np.array([self.ttft(request, fleet, place) for place in range(len(fleet))])
        in_time = ttft <= request.limit
        if in_time.any():
            place = int(np.argmax(np.where(in_time, request.utility, -np.inf)))
        elif np.isfinite(ttft).any():
            place = int(np.argmin(ttft))
        else:  # all are saturated, and alike
            place = int(np.argmin([len(sent) for sent in self._sent]))
        one = fleet.instances[place]
        work = float(
            share_seconds(one, request.prompt_tokens, round(request.predicted[place]) or 1)
        )
        held = request.prompt_tokens + request.predicted[place] / 2
        self._sent[place].append((request.arrival, work, held))
        return place

    def ttft(self, request: Arriving, fleet: Fleet, place: int) -> float:
        """Estimate the seconds to the first token on an instance; inf where it is saturated."""
        one, sent = fleet.instances[place], self._sent[place]
        while sent and sent[0][0] < request.arrival - self.window:
            sent.popleft()
        prefill_rate = 1 / max(float(one.step_time.seconds[PREFILL_TOKENS]), 1e-12)
        step = float(one.step_time.seconds[STEPS])
        if not sent:
            return request.prompt_tokens / prefill_rate + step
        _, work, held = np.mean(sent, axis=0)
        sharers = min(one.settings.max_num_seqs, int(one.settings.kv_tokens / held))
        try:
            queue = LimitedSharing(
                arrival_rate=len(sent) / self.window,
                service_rate=1 / work,
                sharers=max(sharers, 1),
            )
        except SaturatedError:
            return math.inf
        return queue.ttft(request.prompt_tokens, prefill_rate, step)


RULES: Mapping[str, Callable[[], Rule]] = MappingProxyType(
    {
        "round-robin": RoundRobin,
        "shortest-queue": ShortestQueue,
        "least-outstanding": LeastOutstanding,
        "latency-agnostic": LatencyAgnostic,
        "sfs": Published,
        "sfs-conditional": partial(Published, conditional=True),
        "lps": AverageCase,
        "guarded": Guarded,
        "guarded-back": partial(Guarded, doomed="back"),
        "priced": Priced,
    }
)
"""Rules by name, with their default parameters."""

BASELINES = ("round-robin", "shortest-queue", "least-outstanding", "latency-agnostic")


def rule_named(name: str) -> Rule:
    """Give a rule of :data:`RULES`.

    Raises
    ------
    OptionError
        For an unknown name.
    """
    if name not in RULES:
        raise OptionError(f"no rule is called {name!r}; there are {', '.join(RULES)}")
    return RULES[name]()
