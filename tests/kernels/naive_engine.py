"""The rules of vLLM's scheduler once more, in plain Python, short; without prefix caching."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from sortedf.engine.settings import EngineSettings

Work = list[tuple[int, int]]  # tokens and what was computed before, of each request of a step


@dataclass(eq=False)
class Waiter:
    """A request, with its place in the queue: the least goes first, the largest is the victim."""

    index: int
    prompt: int
    output: int
    arrival: float
    place: tuple[int, int]
    computed: int = 0
    blocks: int = 0
    sampled: int = 0
    preempted: bool = False
    first: float | None = None
    done: float | None = None

    @property
    def known(self) -> int:
        return self.prompt + min(self.sampled, self.output - 1)

    def more_blocks(self, tokens: int, size: int) -> int:
        return math.ceil((self.computed + tokens) / size) - self.blocks


@dataclass
class NaiveEngine:
    """Runs all requests; ``calls`` are (request, tokens, kind) of each step, and the victims."""

    settings: EngineSettings
    requests: list[Waiter]
    seconds: Callable[[Work], float]
    running: list[Waiter] = field(default_factory=list)
    waiting: list[Waiter] = field(default_factory=list)
    calls: list[tuple[list[tuple[int, int, int]], list[int]]] = field(default_factory=list)

    @property
    def free(self) -> int:
        return self.settings.usable_blocks - sum(request.blocks for request in self.requests)

    def run(self) -> Iterator[tuple[float, float]]:
        """Run all; gives, before each call, its time and the end of the step under way."""
        coming = sorted(self.requests, key=lambda request: (request.arrival, request.index))
        now = end = coming[0].arrival
        leaving: list[Waiter] = []
        while True:
            while coming and coming[0].arrival <= now:
                self.waiting.append(coming.pop(0))
            if not self.running and not self.waiting:
                if not coming:
                    return
                now = max(end, coming[0].arrival)
                continue
            yield now, end
            chunks = self.schedule()
            begin = max(now, end)
            work = [(tokens, request.computed) for request, tokens in chunks.items()]
            end = begin + (self.seconds(work) if work else 0)
            finished = [request for request, n in chunks.items() if compute(request, n, end)]
            # Asynchronous: the next call comes while this step runs, so they are still there then.
            for request in leaving if self.settings.async_scheduling else finished:
                request.blocks = 0
                (self.running if request in self.running else self.waiting).remove(request)
            leaving = finished
            now = begin if self.settings.async_scheduling else end

    def schedule(self) -> dict[Waiter, int]:
        s, size = self.settings, self.settings.block_size
        budget = s.max_num_batched_tokens
        cap = s.long_prefill_token_threshold or budget
        present = len(self.running) + len(self.waiting)
        if s.long_prefill_token_threshold_adaptive:
            cap = max(cap, budget // present)
        if present == 1:
            cap = budget
        chunks: dict[Waiter, int] = {}
        victims: list[Waiter] = []
        at = 0
        while at < len(self.running) and budget > 0:
            request = self.running[at]
            tokens = min(request.known - request.computed, cap, budget)
            while request.more_blocks(tokens, size) > self.free:
                victim = self.running[-1]
                if s.policy == "priority":
                    victim = max(self.running, key=lambda other: other.place)
                at -= self.running.index(victim) < at
                budget += chunks.pop(victim, 0)
                self.preempt(victim)
                victims.append(victim)
                if victim is request:
                    break
            if request in victims:
                break
            if tokens > 0:
                request.blocks += request.more_blocks(tokens, size)
                chunks[request] = tokens
                budget -= tokens
            at += 1
        rows = [(request.index, tokens, 0) for request, tokens in chunks.items()]
        while self.waiting and not victims and budget > 0 and len(self.running) < s.max_num_seqs:
            request = min(self.waiting, key=lambda other: other.place)
            tokens = min(request.known, cap)
            if tokens > budget and not s.enable_chunked_prefill:
                break
            tokens = min(tokens, budget)
            room = self.free
            if self.running:
                room -= int(s.watermark * s.num_gpu_blocks)
            needed = request.known if s.scheduler_reserve_full_isl else tokens
            if request.more_blocks(needed, size) > room:
                break
            self.waiting.remove(request)
            self.running.append(request)
            request.blocks = request.more_blocks(tokens, size)
            chunks[request] = tokens
            budget -= tokens
            rows.append((request.index, tokens, 2 if request.preempted else 1))
        if rows or victims:
            self.calls.append((rows, [victim.index for victim in victims]))
        return chunks

    def preempt(self, victim: Waiter) -> None:
        self.running.remove(victim)
        self.waiting.append(victim)
        victim.computed = victim.blocks = 0
        victim.preempted = True


def compute(request: Waiter, tokens: int, end: float) -> bool:
    """Compute tokens; whether the last output was sampled."""
    request.computed += tokens
    if request.computed < request.known or request.sampled == request.output:
        return False
    request.sampled += 1
    if request.sampled == 1:
        request.first = end
    if request.sampled < request.output:
        return False
    request.done = end
    return True
