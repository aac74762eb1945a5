"""The router: to which of several instances each request goes, and when."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError, whole_number
from sortedf.routing.fleet import HELD, Arriving, Fleet
from sortedf.routing.following import FollowingEngine
from sortedf.routing.instances import EngineInstance, check_weight
from sortedf.routing.lengths import LengthModel, learnt
from sortedf.routing.rules import Rule, rule_named

FloatArray: TypeAlias = npt.NDArray[np.float64]

RESERVE = 0.2
LEARNT_FROM = 50
KEPT = 2_000


class Decision(NamedTuple):
    """Where a request goes.

    ``instance`` is its place among the instances, or ``None`` while the router holds the request
    back; then it comes out of :meth:`Router.due` later.
    """

    id: str
    instance: int | None


@dataclass(frozen=True, kw_only=True)
class RouteRequest:
    """A request as the router sees it.

    Parameters
    ----------
    id
        Its name; one of those under way.
    arrival
        Seconds, on the clock of all events, not before the last of them.
    prompt_tokens
        Its prompt.
    predicted
        Output tokens expected, on every instance or one number each; above the router's
        ``longest_output`` they are taken for that.
    limit
        Most seconds to its first token.
    task
        By which the instances' qualities are looked up.
    """

    id: str
    arrival: float
    prompt_tokens: int
    predicted: float | Sequence[float]
    limit: float
    task: str


class Event(NamedTuple):
    """Something seen on an instance.

    ``at`` is in seconds, not before the last event. ``tokens`` are the output tokens that the
    request has had; ``ended`` when these are all (or it was aborted, at an instance or while it was
    held back).
    """

    id: str
    at: float
    tokens: int
    ended: bool = False


class Router:
    """Sends each request to one of several instances, which it follows by replaying them.

    Each instance has a twin here that is replayed from request to request; what is seen of the real
    ones (:meth:`observe`) sets the twins right. Nothing is asked of the instances, so that a
    decision waits for none of them.

    Parameters
    ----------
    instances
        Where requests may go.
    rule
        A name of :data:`~sortedf.routing.rules.RULES`, or a rule.
    weight
        Of cost in utility; see :func:`sortedf.routing.workload.utilities`.
    lengths
        What is foreseen of outputs. When left out it is learnt from the requests that end.
    reserve
        Share of an instance's KV cache that stays free when one that was held back is sent there.
    longest_output
        Most output tokens of a request.
    every_step
        Whether every token is told of, and those of one step with the same moment, its end. Then a
        twin goes from step to step with its engine, also where the steps take longer or shorter
        than they were calibrated to.

    Raises
    ------
    OptionError
        For an unknown rule, or an option out of range.
    """

    def __init__(
        self,
        instances: Sequence[EngineInstance],
        rule: str | Rule = "priced",
        *,
        weight: float = 5e-4,
        lengths: LengthModel | None = None,
        reserve: float = RESERVE,
        longest_output: int = 8_192,
        every_step: bool = False,
    ) -> None:
        check_weight(weight)
        whole_number("longest_output", longest_output, 1)
        self.fleet = Fleet(instances, lengths, record=False, follows=every_step)
        self.rule = rule_named(rule) if isinstance(rule, str) else rule
        self.weight = weight
        self.longest_output = longest_output
        self._queue = BackQueue(self.fleet, reserve)
        self._learns = lengths is None
        self._ratios: deque[float] = deque(maxlen=KEPT)
        self._there: dict[str, tuple[int, int, float]] = {}
        self._held: dict[int, RouteRequest] = {}
        self._asked: dict[int, Arriving] = {}
        self._count = 0

    def route(self, request: RouteRequest) -> Decision:
        """Decide where a request goes now.

        Raises
        ------
        OptionError
            When it came before the last event, its task has no quality, its id is under way, or
            a number of it is none.
        InfeasibleError, InvalidRequestError
            When an instance could never serve it with the longest output.
        """
        if request.id in self._there or self._held_as(request.id) is not None:
            raise OptionError(f"request {request.id!r} is under way already")
        asked = self._arriving(request)
        self._advance(request.arrival)
        self._count += 1
        self._held[asked.number] = request
        self._asked[asked.number] = asked
        place = self.rule.choose(asked, self.fleet)
        if place == HELD:
            self._queue.hold(asked)
            return Decision(request.id, None)
        return self._send(asked.number, place)

    def estimates(self, request: RouteRequest) -> FloatArray:
        """Estimate the seconds to its first token on every instance if it were sent there now.

        Shape (R,), in the order of the instances; what rules decide by. Nothing is decided or sent.

        Raises
        ------
        OptionError, InfeasibleError, InvalidRequestError
            As :meth:`route`; the id may be under way.
        """
        asked = self._arriving(request)
        self._advance(request.arrival)
        return self.fleet.ttft(asked)

    def due(self, now: float) -> list[Decision]:
        """Give those that were held back and are to be sent now (seconds), in their order."""
        self._advance(now)
        sent = []
        while (next_one := self._queue.next_due()) is not None:
            asked, place = next_one
            sent.append(self._send(asked.number, place))
        return sent

    def observe(self, event: Event) -> None:
        """Take in what was seen on an instance.

        Raises
        ------
        OptionError
            For a request that is not under way, a moment before the last one, or tokens that are
            no number of them. One that is held back can only end.
        """
        _check_whole(f"tokens of request {event.id!r}", event.tokens, 0)
        if event.ended and (number := self._held_as(event.id)) is not None:
            self._advance(event.at)
            self._queue.give_up(number)
            del self._held[number], self._asked[number]
            return
        if event.id not in self._there:
            raise OptionError(f"request {event.id!r} is not under way on an instance")
        self._advance(event.at)
        place, ticket, predicted = self._there[event.id]
        engine = self.fleet.engines[place]
        if isinstance(engine, FollowingEngine):
            engine.note_step_end()
        if not event.ended:
            if 0 < event.tokens < self.longest_output:
                engine.note_progress(ticket, event.tokens)
            return
        engine.withdraw(ticket)
        del self._there[event.id]
        if self._learns and event.tokens > 0:
            self._ratios.append(event.tokens / predicted)
            if len(self._ratios) >= LEARNT_FROM and len(self._ratios) % 10 == 0:
                self.fleet.foresee(learnt(list(self._ratios)))

    @property
    def n_held(self) -> int:
        """Requests that are held back."""
        return len(self._held)

    def _held_as(self, name: str) -> int | None:
        """Give the number of a request that is held back, None if none of this id is."""
        return next((number for number, one in self._held.items() if one.id == name), None)

    def _advance(self, now: float) -> None:
        if not math.isfinite(now):
            raise OptionError(f"{now!r} is no moment; give seconds")
        if now < self.fleet.now:
            raise OptionError(f"{now!r} is no moment after the last one, {self.fleet.now:g} s")
        self.fleet.advance(now)

    def _arriving(self, request: RouteRequest) -> Arriving:
        """Check a request, before anything is changed for it, and work out what it is worth."""
        instances = self.fleet.instances
        _check_whole(f"prompt_tokens of request {request.id!r}", request.prompt_tokens, 1)
        if not request.limit > 0:
            raise OptionError(
                f"limit of request {request.id!r} is {request.limit!r}; give seconds above 0"
            )
        predicted = self._predicted(request)
        for one, engine in zip(instances, self.fleet.engines, strict=True):
            engine.check(
                request.prompt_tokens, self.longest_output, name=request.id, owner=one.name
            )
        missing = [one.name for one in instances if request.task not in one.quality]
        if missing:
            raise OptionError(f"{missing[0]} has no quality for the task {request.task!r}")
        utility = np.array(
            [
                one.utility(request.task, request.prompt_tokens, output, self.weight)
                for one, output in zip(instances, predicted, strict=True)
            ]
        )
        return Arriving(
            self._count,
            request.prompt_tokens,
            predicted,
            utility,
            request.arrival,
            request.limit,
        )

    def _predicted(self, request: RouteRequest) -> FloatArray:
        """Output tokens expected on every instance, shape (R,)."""
        n = len(self.fleet)
        try:
            given = np.broadcast_to(np.asarray(request.predicted, np.float64), (n,))
        except (TypeError, ValueError):
            given = np.zeros(n)
        if not (np.isfinite(given) & (given > 0)).all():
            raise OptionError(
                f"predicted of request {request.id!r} is {request.predicted!r}; give tokens above "
                f"0, one number or {n}"
            )
        return np.minimum(given, self.longest_output)

    def _send(self, index: int, place: int) -> Decision:
        asked, request = self._asked.pop(index), self._held.pop(index)
        predicted = float(asked.predicted[place])
        ticket = self.fleet.engines[place].send(
            request.prompt_tokens, self.longest_output, predicted, self.fleet.now, asked.deadline
        )
        self._there[request.id] = place, ticket, predicted
        return Decision(request.id, place)


def _check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is no whole number of at least ``least``; numpy's are some."""
    whole_number(name, int(value) if isinstance(value, Integral) else value, least)


class BackQueue:
    """Requests that cannot be answered in time, first come first served once there is room.

    One is sent to the least valuable instance at which nobody waits and, with its prompt, the
    reserve of the KV cache stays free: it takes nothing that an answer in time could do with.
    """

    def __init__(self, fleet: Fleet, reserve: float) -> None:
        if not 0 <= reserve < 1:
            raise OptionError(f"reserve is {reserve!r}; it must be a share in [0, 1)")
        self._fleet, self._reserve = fleet, reserve
        self._held: deque[Arriving] = deque()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, request: Arriving) -> None:
        """Let a request wait here."""
        self._held.append(request)

    def give_up(self, number: int) -> None:
        """Let a request wait here no longer."""
        self._held = deque(one for one in self._held if one.number != number)

    def next_due(self) -> tuple[Arriving, int] | None:
        """Give the first of the queue and its instance, and take it out, if it is to be sent now.

        It must be sent, by whoever asks, before the next one is asked for.
        """
        if not self._held:
            return None
        first = self._held[0]
        for place in np.argsort(first.utility, kind="stable"):
            engine = self._fleet.engines[place]
            part = first.prompt_tokens / engine.settings.kv_tokens
            idle = engine.n_present == 0
            if engine.n_waiting == 0 and (idle or engine.free_share - part >= self._reserve):
                return self._held.popleft(), int(place)
        return None
