"""Real engines, each in a process of its own, that requests are sent to by a router as they come.

By one of two clocks. ``wall``: everything runs by itself, as it would in service; what else the
machine does slows the engines down. ``processor``: each engine has a clock of its own that counts
the seconds for which its process is on a processor; steps of all are put side by side on one time
line, so that each engine has a core to itself whatever else runs.
"""

from __future__ import annotations

import json
import math
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from sortedf.engine import StepLog
from sortedf.routing.router import Decision, Event, Router, RouteRequest
from sortedf.routing.workload import RoutedWorkload

FloatArray = npt.NDArray[np.float64]

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "engine" / "drivers" / "drive_served.py"

TICK = 0.05
"""Seconds between two looks at the requests that are held back, by the clock of the wall."""


class Step(NamedTuple):
    """A step of the engine at a place; see drive_served.py."""

    place: int
    begin: float
    end: float
    tokens: list[list[int]]
    ended: list[int]
    running: int
    waiting: int
    work: list[int]
    preempted: int


class Engines(Protocol):
    """Engines that serve by some clock."""

    def start(self) -> float:
        """Begin with a workload; the second that its arrivals count from."""
        ...

    def send(self, place: int, name: int, prompt: int, output: int, now: float) -> None:
        """Send a request to an engine."""
        ...

    def next_step(self, before: float) -> Step | None:
        """Wait for a step to end; None when it is ``before``, or nothing is left to wait for."""
        ...

    def now(self, arrival: float) -> float:
        """Say what time it is when a request comes that was to come at ``arrival``."""
        ...


class EngineProcess:
    """An engine's process and its pipes; ``present`` requests are there."""

    def __init__(self, place: int, process: subprocess.Popen[str]) -> None:
        self.place, self.process, self.present = place, process, 0

    def tell(self, **told: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"engine {self.place} ended; what it said is on stderr")
        found: dict[str, Any] = json.loads(line)
        return found

    def step(self) -> Step:
        return Step(place=self.place, **self.answer())


class ByProcessor:
    """Engines whose clocks are those of their processors."""

    def __init__(self, processes: Sequence[EngineProcess]) -> None:
        self._processes = processes
        for one in processes:
            one.tell(clock="processor")

    def start(self) -> float:
        """Begin at 0 s."""
        n = len(self._processes)
        self._at = [0.0] * n
        self._new: list[list[list[int]]] = [[] for _ in range(n)]
        self._under_way: list[Step | None] = [None] * n
        return 0.0

    def send(self, place: int, name: int, prompt: int, output: int, now: float) -> None:
        """Send a request; an engine with nothing to do begins with it now."""
        one = self._processes[place]
        if one.present == 0:
            self._at[place] = now
        one.present += 1
        self._new[place].append([name, prompt, output])

    def next_step(self, before: float) -> Step | None:
        """Give the step that ends next."""
        begun = [
            one for one in self._processes if one.present and self._under_way[one.place] is None
        ]
        for one in begun:
            one.tell(at=self._at[one.place], new=self._new[one.place])
            self._new[one.place] = []
        for one in begun:
            self._under_way[one.place] = one.step()
        steps = [step for step in self._under_way if step is not None and step.end <= before]
        if not steps:
            return None
        step = min(steps, key=lambda one: one.end)
        self._under_way[step.place], self._at[step.place] = None, step.end
        self._processes[step.place].present -= len(step.ended)
        return step

    def now(self, arrival: float) -> float:
        """Nobody is ever late."""
        return arrival


class ByWall:
    """Engines that run by themselves; to the end of their processes."""

    def __init__(self, processes: Sequence[EngineProcess]) -> None:
        self._processes = processes
        self._steps: queue.SimpleQueue[Step] = queue.SimpleQueue()
        for one in processes:
            one.tell(clock="wall")
            threading.Thread(target=self._listen, args=(one,), daemon=True).start()

    def _listen(self, one: EngineProcess) -> None:
        try:
            while True:
                self._steps.put(one.step())
        except (RuntimeError, ValueError, OSError):
            return  # it was ended

    def start(self) -> float:
        """Begin in a moment."""
        return time.monotonic() + 0.1

    def send(self, place: int, name: int, prompt: int, output: int, now: float) -> None:
        """Send a request."""
        self._processes[place].present += 1
        self._processes[place].tell(new=[[name, prompt, output]])

    def next_step(self, before: float) -> Step | None:
        """Wait for what is heard next."""
        if before == math.inf and not any(one.present for one in self._processes):
            return None
        try:
            step = self._steps.get(timeout=max(min(before - time.monotonic(), 60.0), 0.0))
        except queue.Empty:
            if before == math.inf:
                raise RuntimeError("nothing is heard of the engines") from None
            return None
        self._processes[step.place].present -= len(step.ended)
        return step

    def now(self, arrival: float) -> float:
        """Look at the clock."""
        return time.monotonic()


CLOCKS: dict[str, Callable[[Sequence[EngineProcess]], Engines]] = {
    "processor": ByProcessor,
    "wall": ByWall,
}


@contextmanager
def engine_processes(
    python: Path, settings: Sequence[dict[str, Any]], models: Sequence[dict[str, Any]]
) -> Iterator[list[EngineProcess]]:
    """Start engines of these settings and models, in the environment of vLLM, and end them."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # or all would be bound to one core
    }
    with ExitStack() as stack:
        processes = []
        for place, (setting, model) in enumerate(zip(settings, models, strict=True)):
            process = stack.enter_context(
                subprocess.Popen(
                    [python, DRIVER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
            stack.callback(process.kill)
            processes.append(EngineProcess(place, process))
            processes[-1].tell(settings=setting, model=model)
        for one in processes:
            one.answer()
        yield processes


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
