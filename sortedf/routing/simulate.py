"""A workload through a router, on instances replayed side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.routing.fleet import HELD, Arriving, Fleet
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import LengthModel
from sortedf.routing.rules import Rule
from sortedf.routing.workload import RoutedWorkload, utilities

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

END = 1e15
TICK = 0.05


@dataclass(frozen=True, kw_only=True)
class Routed:
    """What became of each request, shape (n,)."""

    workload: RoutedWorkload
    instance: IntArray
    first_token: FloatArray
    completion: FloatArray
    utility: FloatArray
    preemptions: IntArray

    @property
    def ttft(self) -> FloatArray:
        """Seconds from arrival to first token."""
        return self.first_token - self.workload.arrivals

    @property
    def on_time(self) -> npt.NDArray[np.bool_]:
        """Whose first token came within its limit."""
        return self.ttft <= self.workload.limit

    @property
    def on_time_utility(self) -> float:
        """Mean of utility x on time."""
        return float((self.utility * self.on_time).mean())


def route_all(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    rule: Rule,
    *,
    weight: float = 5e-4,
    lengths: LengthModel | None = None,
    reserve: float = 0.05,
) -> Routed:
    """Simulate."""
    fleet = Fleet(instances, lengths)
    worth = utilities(workload, instances, weight, foreseen=True)
    n = len(workload)
    chosen, row = np.full(n, HELD), np.full(n, -1)
    held: list[int] = []

    def send(j: int, place: int) -> None:
        row[j] = fleet.engines[place].send(
            int(workload.prompt_tokens[j]),
            int(workload.output_tokens[j, place]),
            float(workload.predicted[j, place]),
            fleet.now,
        )
        chosen[j] = place

    def serve_held() -> None:
        while held:
            j = held[0]
            order = np.argsort(worth[j])
            for place in order:
                engine = fleet.engines[place]
                need = workload.prompt_tokens[j] / engine.settings.kv_tokens
                if engine.n_waiting == 0 and engine.free_share - need >= reserve:
                    send(held.pop(0), place)
                    fleet.advance(fleet.now)
                    break
            else:
                return

    for j in range(n):
        arrival = float(workload.arrivals[j])
        while held and fleet.now + TICK < arrival:
            fleet.advance(fleet.now + TICK)
            serve_held()
        fleet.advance(arrival)
        request = Arriving(j, int(workload.prompt_tokens[j]), workload.predicted[j], worth[j],
                           arrival, float(workload.limit[j]))  # fmt: skip
        place = rule.choose(request, fleet)
        if place == HELD:
            held.append(j)
        else:
            send(j, place)
    while held:
        fleet.advance(fleet.now + TICK)
        serve_held()
    fleet.advance(END)
    take = [(fleet.engines[p], r) for p, r in zip(chosen, row, strict=True)]
    return Routed(
        workload=workload,
        instance=chosen,
        first_token=np.array([e.first_token[r] for e, r in take]),
        completion=np.array([e.completion[r] for e, r in take]),
        utility=utilities(workload, instances, weight)[np.arange(n), chosen],
        preemptions=np.array([e.preemptions[r] for e, r in take]),
    )
