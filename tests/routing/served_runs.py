"""A workload through a router to real engines, and what became of it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from served_engines import ByWall, Engines, Step

from sortedf.engine import StepLog
from sortedf.routing.router import Decision, Event, Router, RouteRequest
from sortedf.routing.workload import RoutedWorkload

FloatArray = npt.NDArray[np.float64]

TICK = 0.05
"""Seconds between two looks at the requests that are held back, by the clock of the wall."""


@dataclass
class Served:
    """What became of a workload; arrays of shape (n,), seconds from its beginning.

    Parameters
    ----------
    arrival
        When the router had each request.
    instance, sent
        Where it was sent, and when.
    first_token, completion
        When its first and last token were there.
    estimate
        Seconds from then to the first token on each instance, by the router, shape (n, R).
    tokens
        Output tokens in all.
    twins
        Requests that run and wait on the router's twins as each arrives, shape (n, R, 2).
    steps
        Of all engines, in the order of their ends.
    log
        What the router was asked and told, in order: see :func:`decisions_again`.
    answers
        How often each was reported as ended.
    """

    arrival: FloatArray
    instance: npt.NDArray[np.int64]
    sent: FloatArray
    first_token: FloatArray
    completion: FloatArray
    estimate: FloatArray
    tokens: npt.NDArray[np.int64]
    twins: npt.NDArray[np.int64]
    answers: npt.NDArray[np.int64]
    steps: list[Step] = field(default_factory=list)
    log: list[tuple[str, Any, list[Decision]]] = field(default_factory=list)

    @property
    def ttft(self) -> FloatArray:
        """Seconds from arrival to first token."""
        return self.first_token - self.arrival

    @property
    def estimated(self) -> FloatArray:
        """The router's estimate where each was sent; nan where it was held back first."""
        there = self.estimate[np.arange(len(self.instance)), self.instance]
        return np.where(self.sent == self.arrival, there, np.nan)

    def step_log(self, place: int) -> StepLog:
        """Give the steps of an engine."""
        steps = [step for step in self.steps if step.place == place]
        work = np.array([[1, *step.work] for step in steps], np.float64)
        seconds = np.array([step.end - step.begin for step in steps])
        return StepLog(work=work, seconds=seconds, source=f"engine {place}")


def serve(engines: Engines, router: Router, workload: RoutedWorkload) -> Served:
    """Send a workload through a router and wait for all answers.

    The router is told of every token when the step that brought it has ended.
    """
    n, width = workload.output_tokens.shape
    never = np.full(n, np.nan)
    found = Served(
        *(never.copy(), np.full(n, -1), never.copy(), never.copy(), never.copy()),
        *(np.full((n, width), np.nan), np.zeros(n, np.int64), np.zeros((n, width, 2), np.int64)),
        np.zeros(n, np.int64),
    )
    run = _Run(engines, router, workload, found)
    for j, arrival in enumerate(workload.arrivals):
        run.listen(float(arrival) + run.begin)
        run.arrive(j, engines.now(float(arrival) + run.begin))
    run.listen(math.inf)
    return found


class _Run:
    def __init__(
        self, engines: Engines, router: Router, workload: RoutedWorkload, found: Served
    ) -> None:
        self.engines, self.router, self.workload, self.found = engines, router, workload, found
        self.begin = engines.start()
        self.last = -math.inf

    def listen(self, until: float) -> None:
        """Tell the router what is heard until a moment, and send what it lets go."""
        while True:
            held = self.router.n_held > 0 and isinstance(self.engines, ByWall)
            tick = min(until, time.monotonic() + TICK) if held else until
            step = self.engines.next_step(tick)
            if step is not None:
                self.hear(step)
            elif tick == until:
                return
            else:
                self.look(self.engines.now(tick))

    def hear(self, step: Step) -> None:
        """Take a step in."""
        found, now = self.found, max(step.end, self.last)
        self.last = now
        found.steps.append(step._replace(begin=step.begin - self.begin, end=step.end - self.begin))
        ended = set(step.ended)
        for name, tokens in step.tokens:
            event = Event(str(name), now - self.begin, tokens, name in ended)
            self.router.observe(event)
            found.log.append(("observe", event, []))
            found.tokens[name] = tokens
            if np.isnan(found.first_token[name]):
                found.first_token[name] = step.end - self.begin
            if name in ended:
                found.completion[name] = step.end - self.begin
                found.answers[name] += 1
        self.look(now)

    def look(self, now: float) -> None:
        """Send those that were held back and are due."""
        if self.router.n_held == 0:
            return
        self.last = max(now, self.last)
        due = self.router.due(self.last - self.begin)
        self.found.log.append(("due", self.last - self.begin, due))
        for decision in due:
            self.send(decision)

    def arrive(self, j: int, now: float) -> None:
        """Let a request come."""
        w, found = self.workload, self.found
        self.last = max(now, self.last)
        found.arrival[j] = self.last - self.begin
        request = RouteRequest(
            id=str(j),
            arrival=float(found.arrival[j]),
            prompt_tokens=int(w.prompt_tokens[j]),
            predicted=w.predicted[j].tolist(),
            limit=float(w.limit[j]),
            task=w.task[j],
        )
        found.estimate[j] = self.router.estimates(request)
        found.twins[j] = [
            (engine.n_present - engine.n_waiting, engine.n_waiting)
            for engine in self.router.fleet.engines
        ]
        decision = self.router.route(request)
        found.log.append(("route", request, [decision]))
        self.send(decision)
        self.look(self.last)

    def send(self, decision: Decision) -> None:
        """Carry a decision out."""
        if decision.instance is None:
            return
        j, place = int(decision.id), decision.instance
        w, found = self.workload, self.found
        found.instance[j], found.sent[j] = place, self.last - self.begin
        output = int(w.output_tokens[j, place])
        self.engines.send(place, j, int(w.prompt_tokens[j]), output, self.last)


def decisions_again(served: Served, router: Router) -> bool:
    """Tell whether another router, told the same, decides the same."""
    for kind, what, decisions in served.log:
        if kind == "observe":
            router.observe(what)
            continue
        again = [router.route(what)] if kind == "route" else router.due(what)
        if again != decisions:
            return False
    return True


def engine_counts(served: Served, place: int) -> npt.NDArray[np.int64]:
    """Count who runs and waits on an engine as each request arrives, shape (n, 2).

    By the step under way then: what came since it was scheduled waits.
    """
    steps = [step for step in served.steps if step.place == place]
    begins = np.array([step.begin for step in steps])
    sent = np.sort(served.sent[served.instance == place])
    counts = np.zeros((len(served.arrival), 2), np.int64)
    for j, now in enumerate(served.arrival):
        k = int(np.searchsorted(begins, now, side="left")) - 1  # not of the request itself
        if k >= 0 and now < steps[k].end:
            since = np.count_nonzero((sent > begins[k]) & (sent < now))
            counts[j] = steps[k].running, steps[k].waiting + since
        else:
            counts[j, 1] = np.count_nonzero(sent[sent < now]) - np.count_nonzero(
                served.completion[served.instance == place] <= now
            )
    return counts
