"""The requests that are to arrive: those of a trace, or drawn anew for each seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError
from sortedf.model import Instance
from sortedf.serving.arriving import Arriving
from sortedf.serving.workloads import LENGTHS, Workload, saturated_rate

LEAST_FOR_A_LOAD = 20
"""Requests from whose backlog the saturated rate can be told."""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Where requests come from: ``trace``, or ``kind`` of :data:`LENGTHS`, ``n`` of them."""

    n: int
    kv_tokens: int
    trace: Workload | None = None
    kind: str | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether their lengths depend on a seed."""
        return self.trace is None

    def lengths(self, seed: int) -> Instance:
        """Give the prompts and outputs, in the order of arrival."""
        if self.trace is not None:
            return self.trace.instance
        assert self.kind is not None
        return LENGTHS[self.kind](self.n, seed=seed, kv_tokens=self.kv_tokens)

    def workloads(
        self, arriving: Arriving, rate: float | None, seeds: Sequence[int], *, whole: bool
    ) -> list[Workload]:
        """Give the workload of each seed; ``rate`` is what a rate or a load comes to."""
        stamps = None if self.trace is None else self.trace.arrivals
        name = self.kind if self.trace is None else self.trace.name
        return [
            Workload(
                self.lengths(seed),
                arriving.times(self.n, stamps, rate, seed=seed, whole=whole),
                name or "",
            )
            for seed in seeds
        ]


def first_requests(workload: Workload, n: int) -> Workload:
    """Keep the first n requests of a workload."""
    if n >= len(workload):
        return workload
    return Workload(workload.instance.select(np.arange(n)), workload.arrivals[:n], workload.name)


def most_served(
    instance: Instance, settings: EngineSettings | None, step_time: StepTimeModel | None
) -> float | None:
    """Give the saturated rate: requests a second on the engine, or a step in the model of these.

    In steps it is M over the mean volume: each request holds its volume, of which a step has M.
    ``None`` for fewer than 20 requests.
    """
    if len(instance) < LEAST_FOR_A_LOAD:
        return None
    if settings is None or step_time is None:
        return float(instance.kv_tokens / instance.volume.mean())
    return saturated_rate(instance, settings, step_time)


def rate_of(arriving: Arriving, saturated: float | None) -> float | None:
    """Give the rate that is meant: its own, what its load comes to, or ``None`` for none.

    Raises
    ------
    OptionError
        For a load where nobody knows what is full.
    """
    if arriving.load is None:
        return arriving.rate
    if saturated is None:
        raise OptionError(
            f"too few requests to tell what a load of 1 is; take {LEAST_FOR_A_LOAD} or more, "
            "or give a rate"
        )
    return arriving.load * saturated
