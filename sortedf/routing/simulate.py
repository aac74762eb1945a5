"""A workload through a router, on instances replayed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import InfeasibleError
from sortedf.kernels.step_terms import PREFILL_TOKENS
from sortedf.routing.fleet import HELD, Arriving, Fleet
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import LengthModel
from sortedf.routing.router import RESERVE, BackQueue
from sortedf.routing.rules import Rule, rule_named
from sortedf.routing.workload import RoutedWorkload, utilities

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

_END = 1e15
TICK = 0.05
"""Seconds between two looks at the requests that are held back, where nothing else happens."""


@dataclass(frozen=True, kw_only=True)
class Routed:
    """What became of each request under a rule, arrays of shape (n,).

    Parameters
    ----------
    workload
        What came.
    instance
        Where each was served.
    sent
        Seconds at which it was sent there.
    first_token, completion
        Seconds of its first and last token.
    utility
        What it is worth there.
    preemptions
        How often it was preempted there.
    estimate
        Estimated seconds from its arrival to its first token where it was served, nan where it was
        not sent at once, or nobody asked for estimates.
    by_throughput
        The same by a throughput rule: prompt tokens still to be computed there, its own included,
        by the seconds of a prefill token.
    """

    workload: RoutedWorkload
    instance: IntArray
    sent: FloatArray
    first_token: FloatArray
    completion: FloatArray
    utility: FloatArray
    preemptions: IntArray
    estimate: FloatArray
    by_throughput: FloatArray

    @property
    def ttft(self) -> FloatArray:
        """Seconds from arrival to first token."""
        return self.first_token - self.workload.arrivals

    @property
    def on_time(self) -> npt.NDArray[np.bool_]:
        """Whose first token came within its limit."""
        return self.ttft <= self.workload.limit


def route_workload(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    rule: str | Rule,
    *,
    weight: float = 5e-4,
    lengths: LengthModel | None = None,
    reserve: float = RESERVE,
    demotes: bool = False,
    estimates: bool = False,
) -> Routed:
    """Send a workload to instances by a rule, and replay these until all has been served.

    Between two arrivals, and two looks at who is held back, the engines go on by compiled steps.

    Parameters
    ----------
    weight
        Of cost in utility.
    lengths
        What is foreseen of outputs; predictions as they are when left out.
    reserve
        Share of the KV cache that one who was held back leaves free.
    demotes
        Whether who waits at an instance beyond its limit is taken back, and held.
    estimates
        Whether to estimate the time to the first token at the chosen instance, also where the rule
        does not.

    Raises
    ------
    OptionError
        For an unknown rule, or a task without quality.
    InfeasibleError, InvalidRequestError
        For a request that an instance could never serve.
    """
    run = _Run(workload, instances, rule, weight, lengths, reserve)
    for j in range(len(workload)):
        run.go_on(float(workload.arrivals[j]), demotes)
        run.arrive(j, estimates)
    while run.unserved():
        run.go_on(run.fleet.now + TICK, demotes)
    run.fleet.advance(_END)
    return run.result(weight)


class _Run:
    def __init__(
        self,
        workload: RoutedWorkload,
        instances: Sequence[EngineInstance],
        rule: str | Rule,
        weight: float,
        lengths: LengthModel | None,
        reserve: float,
    ) -> None:
        n = len(workload)
        self.workload, self.instances = workload, instances
        self.fleet = Fleet(instances, lengths)
        for place in range(len(instances)):
            self._check_fit(place)
        self.rule = rule_named(rule) if isinstance(rule, str) else rule
        self.back = BackQueue(self.fleet, reserve)
        self.foreseen = utilities(workload, instances, weight, foreseen=True)
        self.place, self.ticket = np.full(n, HELD), np.full(n, -1)
        self.sent, self.estimate = np.full(n, np.nan), np.full(n, np.nan)
        self.by_throughput = np.full(n, np.nan)
        self.owner: list[list[int]] = [[] for _ in instances]

    def go_on(self, until: float, demotes: bool) -> None:
        """Advance to a moment; who is held back is looked at every TICK."""
        while self._ticks(demotes) and self.fleet.now + TICK < until:
            self.fleet.advance(self.fleet.now + TICK)
            self._look(demotes)
        self.fleet.advance(until)
        if self._ticks(demotes):
            self._look(demotes)

    def unserved(self) -> bool:
        """Whether any is held back."""
        return len(self.back) > 0

    def arrive(self, j: int, estimates: bool) -> None:
        """Let request j come now."""
        w = self.workload
        request = Arriving(
            j,
            int(w.prompt_tokens[j]),
            w.predicted[j],
            self.foreseen[j],
            float(w.arrivals[j]),
            float(w.limit[j]),
        )
        place = self.rule.choose(request, self.fleet)
        if place == HELD:
            self.back.hold(request)
            return
        if estimates:
            engine = self.fleet.engines[place]
            self.estimate[j] = engine.ttft(request.prompt_tokens, w.predicted[j, place])
            ahead = engine.prompt_tokens_ahead + request.prompt_tokens
            seconds = self.instances[place].step_time.seconds[PREFILL_TOKENS]
            self.by_throughput[j] = ahead * seconds
        self._send(request, place)

    def _ticks(self, demotes: bool) -> bool:
        waits = demotes and any(engine.n_waiting for engine in self.fleet.engines)
        return len(self.back) > 0 or waits

    def _look(self, demotes: bool) -> None:
        if demotes:
            for place, engine in enumerate(self.fleet.engines):
                for ticket in engine.late():
                    j = self.owner[place][ticket]
                    if engine.withdraw(ticket):
                        self.back.hold(self._again(j))
        while (due := self.back.next_due()) is not None:
            self._send(*due)

    def _again(self, j: int) -> Arriving:
        w = self.workload
        # It has missed its limit: what is left of it is nothing, and no deadline demotes it twice.
        return Arriving(
            j,
            int(w.prompt_tokens[j]),
            w.predicted[j],
            self.foreseen[j],
            float(w.arrivals[j]),
            np.inf,
        )

    def _send(self, request: Arriving, place: int) -> None:
        j, now = request.number, self.fleet.now
        deadline = request.deadline if request.deadline > now else np.inf
        self.ticket[j] = self.fleet.engines[place].send(
            request.prompt_tokens,
            int(self.workload.output_tokens[j, place]),
            float(self.workload.predicted[j, place]),
            now,
            deadline,
        )
        self.place[j], self.sent[j] = place, now
        self.owner[place].append(j)

    def result(self, weight: float) -> Routed:
        """Gather what became of all."""
        ends = [
            self.fleet.engines[place].outcome(int(ticket))
            for place, ticket in zip(self.place, self.ticket, strict=True)
        ]
        worth = utilities(self.workload, self.instances, weight)
        return Routed(
            workload=self.workload,
            instance=self.place,
            sent=self.sent,
            first_token=np.array([end.first_token for end in ends]),
            completion=np.array([end.completion for end in ends]),
            utility=worth[np.arange(len(worth)), self.place],
            preemptions=np.array([end.preemptions for end in ends], np.int64),
            estimate=self.estimate,
            by_throughput=self.by_throughput,
        )

    def _check_fit(self, place: int) -> None:
        """Refuse what an instance could never serve, all that its cache cannot hold at once."""
        settings, owner = self.instances[place].settings, self.instances[place].name
        prompts, outputs = self.workload.prompt_tokens, self.workload.output_tokens[:, place]
        needed = prompts + outputs - 1
        if len(large := np.flatnonzero(needed > settings.kv_tokens)):
            rows = [(int(j), str(j), int(needed[j])) for j in large]
            raise InfeasibleError(rows, settings.kv_tokens, settings.block_size, owner)
        if len(needed):
            j = int(np.argmax(needed))  # no other is longer, or needs more in a step
            self.fleet.engines[place].check(
                int(prompts[j]), int(outputs[j]), index=j, name=str(j), owner=owner
            )
