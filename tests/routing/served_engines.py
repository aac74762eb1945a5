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
from pathlib import Path
from typing import Any, NamedTuple, Protocol

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "engine" / "drivers" / "drive_served.py"


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
