"""The engine under scores that change, once more, in plain Python; short, and slow on purpose.

No prefix caching, no chunk caps. With the future check, for token budgets that take whole prompts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

Moment = tuple[list[tuple[int, int, int]], list[int]]
"""Requests of a step with tokens and kind (0 continues, 1 new, 2 resumed); who was preempted."""


@dataclass(eq=False)
class Job:
    """A request. What the policy is given: ``base``, ``floor``, ``predicted``, ``patience``."""

    index: int
    prompt: int
    output: int
    arrival: float
    base: float
    floor: float
    predicted: int
    patience: float = math.inf
    sampled: int = 0
    computed: int = 0
    blocks: int = 0
    work: float = 0.0
    seen: float = 0.0
    threshold: int = 0
    changes: int = 0
    since: float = 0.0
    promoted: bool = False
    quota: int = 0
    preempted: bool = False
    first: float | None = None
    done: float | None = None
    lost: int = 0
    foreseen: int = 0
    shift: int = 0
    until: int = 0

    @property
    def known(self) -> int:
        return self.prompt + min(self.sampled, self.output - 1)

    @property
    def generated(self) -> int:
        return self.known - self.prompt

    @property
    def over(self) -> bool:
        return self.computed == self.prompt + self.output - 1


@dataclass
class NaiveServing:
    """``kind``: fixed, remaining, bound or boost; the other fields are named as the policy's."""

    jobs: list[Job]
    cost: Callable[[int, int], float]  # seconds of so many tokens after a context
    blocks: int
    size: int
    budget: int
    seats: int
    kind: str
    fixed: float = 1.0
    weight: float = 0.0
    share: float = math.inf
    gamma: float = 0.0
    guard: int = 0
    quantum: int = 1
    displaces: bool = False
    hysteresis: float = 0.0
    least: bool = False
    eviction: str = "recompute"
    swap: float = 0.0
    watermark: int = 0
    gate: bool = True
    future: bool = False
    doubles: bool = True
    late: bool = False
    running: list[Job] = field(default_factory=list)
    waiting: list[Job] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    most_held: int = 0

    def run(self) -> None:
        for job in self.jobs:
            job.seen = job.floor
            job.threshold = self.guard
            job.foreseen = min(job.prompt + job.predicted - 1, self.blocks * self.size)
        coming = sorted(self.jobs, key=lambda job: (job.arrival, job.index))
        self.order = {job.index: place for place, job in enumerate(coming)}
        self.call = -1
        now = end = coming[0].arrival
        leaving: list[Job] = []
        while True:
            while coming and coming[0].arrival <= now:
                coming[0].since = coming[0].arrival
                self.waiting.append(coming.pop(0))
            if not self.running and not self.waiting:
                if not coming:
                    return
                now = max(end, coming[0].arrival)
                continue
            self.call += 1
            self.moved = 0
            for job in self.waiting:
                if not job.promoted and now > job.since + job.patience:
                    job.promoted, job.quota = True, job.generated + self.quantum
            displaced = self.displace(now) if self.displaces else []
            chunks, evicted = self.go_on(now)
            rows = [(job.index, tokens, 0) for job, tokens in chunks.items()]
            if not evicted:
                rows += self.admit(chunks, displaced)
            begin = max(now, end)
            if rows or displaced or evicted:
                self.moments.append((rows, [job.index for job in displaced + evicted]))
            end = begin + self.seconds(chunks) + self.swap * self.moved
            if rows or displaced or evicted:
                self.ends.append(end)
            finished = [job for job, tokens in chunks.items() if self.compute(job, tokens, end)]
            self.most_held = max(self.most_held, sum(job.blocks for job in self.jobs))
            for job in leaving if self.late else finished:
                job.blocks = 0
                (self.running if job in self.running else self.waiting).remove(job)
            leaving = finished
            now = begin if self.late else end

    def seconds(self, chunks: dict[Job, int]) -> float:
        if not chunks:
            return 0.0
        for job, tokens in chunks.items():
            job.work += self.fixed / len(chunks) + self.cost(tokens, job.computed)
        return self.fixed + sum(self.cost(tokens, job.computed) for job, tokens in chunks.items())

    def score(self, job: Job) -> tuple[float, int]:
        if job.promoted:
            return job.arrival - 1e9, self.order[job.index]
        if self.kind == "boost":
            value = boosted(job.base, job.seen, self.gamma)
        elif self.kind == "remaining":
            value = max(job.base - job.generated, 0) + self.weight * (job.known - job.computed)
        elif self.kind == "bound":
            value = max(job.base, job.generated + 1)
        else:
            value = job.base
        return value, self.order[job.index]

    def protected(self, job: Job) -> bool:
        if job.promoted:
            return True
        if self.guard:
            return not (job.generated >= self.guard and 2 * job.generated == job.threshold)
        return self.kind == "remaining" and job.generated >= self.share * job.base

    def victim(self) -> Job:
        free = [job for job in self.running if not self.protected(job)]
        choose = min if self.least else max
        return choose(free or self.running, key=self.score)

    def fits(self, job: Job, budget: int, running: list[Job], free: int) -> bool:
        if budget <= 0 or len(running) >= self.seats:
            return False
        tokens = min(job.known - job.computed, budget)
        room = free - (self.watermark if running else 0)
        slots = job.known if self.gate else job.computed + tokens
        if math.ceil(slots / self.size) > room:
            return False
        return not self.future or self.foresee_room(job, running)

    def foresee_room(self, job: Job, running: list[Job]) -> bool:
        self.reckon(job)
        last = job.until
        return self.within([*running, job], range(min(self.call + 1, last), last + 1))

    def within(self, jobs: list[Job], calls: range) -> bool:
        for call in calls:
            slots = [min(call + job.shift, job.foreseen) for job in jobs if call <= job.until]
            if sum(math.ceil(slot / self.size) for slot in slots) > self.blocks:
                return False
        return True

    def reckon(self, job: Job) -> None:
        if job.known > job.foreseen:
            more = job.known + (job.generated if self.doubles else 0)
            if self.guard:
                more = job.prompt + job.threshold - 1
            job.foreseen = min(more, self.blocks * self.size)
        job.shift = job.known - self.call
        job.until = self.call + job.foreseen - job.known + self.late

    @property
    def free(self) -> int:
        return self.blocks - sum(job.blocks for job in self.jobs)

    def displace(self, now: float) -> list[Job]:
        if not self.waiting or not self.running:
            return []
        head = min(self.waiting, key=self.score)
        self.reckon(head)
        limit = self.score(head)[0] + self.hysteresis

        def left(running: list[Job]) -> int:
            return self.budget - sum(job.known - job.computed for job in running)

        if left(self.running) <= 0 or self.fits(head, left(self.running), self.running, self.free):
            return []
        open_to = [
            job
            for job in self.running
            if not (job.over or self.protected(job)) and self.score(job)[0] > limit
        ]
        stay = [job for job in self.running if job not in open_to]
        blocks = self.free + sum(job.blocks for job in open_to)
        tokens = min(head.known - head.computed, left(self.running))
        slots = head.known if self.gate else head.computed + tokens
        needed = math.ceil(slots / self.size) + (self.watermark if stay else 0)
        if not open_to or needed > blocks:
            return []
        if self.future:
            lasts = [max(job.foreseen, job.known) for job in [*stay, head]]
            if sum(math.ceil(last / self.size) for last in lasts) > self.blocks:
                return []
        gone: list[Job] = []
        for job in sorted(open_to, key=self.score, reverse=True):
            if self.fits(head, left(self.running), self.running, self.free):
                break
            self.preempt(job, now)
            gone.append(job)
        return gone

    def go_on(self, now: float) -> tuple[dict[Job, int], list[Job]]:
        budget, chunks, evicted = self.budget, dict[Job, int](), list[Job]()
        if self.future and self.guard:
            evicted = self.let_go(now)
        for job in list(self.running):
            if budget == 0:
                break
            tokens = min(job.known - job.computed, budget)
            if job in evicted or tokens == 0:
                continue
            end = job.computed + tokens
            while math.ceil(end / self.size) - job.blocks > self.free:
                victim = self.victim()
                budget += chunks.pop(victim, 0)
                self.preempt(victim, now)
                evicted.append(victim)
                if victim is job:
                    return chunks, evicted
            job.blocks = max(job.blocks, math.ceil(end / self.size))
            if self.future and end == job.known and end > job.foreseen:
                self.reckon(job)
            chunks[job] = tokens
            budget -= tokens
        return chunks, evicted

    def let_go(self, now: float) -> list[Job]:
        evicted = []
        for job in list(self.running):
            if job.over or job.known <= job.foreseen:
                continue
            self.reckon(job)
            last = max(other.until for other in self.running)
            if not self.within(self.running, range(self.call, last + 1)):
                self.preempt(job, now)
                evicted.append(job)
        return evicted

    def admit(self, chunks: dict[Job, int], displaced: list[Job]) -> list[tuple[int, int, int]]:
        rows = []
        budget = self.budget - sum(chunks.values())
        while self.waiting:
            job = min(self.waiting, key=self.score)
            if job in displaced or not self.fits(job, budget, self.running, self.free):
                break
            self.waiting.remove(job)
            self.running.append(job)
            self.moved += job.computed
            tokens = min(job.known - job.computed, budget)
            job.blocks = math.ceil((job.computed + tokens) / self.size)
            chunks[job] = tokens
            budget -= tokens
            rows.append((job.index, tokens, 2 if job.preempted else 1))
        return rows

    def preempt(self, job: Job, now: float) -> None:
        self.running.remove(job)
        self.waiting.append(job)
        job.blocks = 0
        job.preempted = True
        if self.eviction == "swap":
            self.moved += job.computed
        else:
            job.lost += 0 if job.over else job.computed
            job.computed = 0
        if self.eviction == "restart":
            if self.kind == "bound":
                job.base = max(job.base, job.generated)
            job.sampled = 0
        job.since = now

    def compute(self, job: Job, tokens: int, end: float) -> bool:
        job.computed += tokens
        if job.computed == job.known and job.sampled < job.output:
            job.sampled += 1
            if job.sampled == 1 and job.first is None:
                job.first = end
        if job.promoted and job.generated >= job.quota:
            job.promoted = False
        if not self.guard or job.generated >= job.threshold:
            job.seen = max(job.work, job.floor)
            job.threshold *= 2
            job.changes += 1 if self.guard else 0
        if job.sampled < job.output or not job.over:
            return False
        job.done = end
        return True


def boosted(arrival: float, work: float, gamma: float) -> float:
    work = max(work, 1e-9)
    if gamma == 0:
        return work
    if gamma == math.inf:
        return arrival
    return arrival + math.log(-math.expm1(-gamma * work)) / gamma
