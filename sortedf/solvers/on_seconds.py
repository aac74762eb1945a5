"""Planning on seconds: list schedules judged by the replayed engine instead of by their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortedf.engine.prediction import engine_of_plan, predict
from sortedf.engine.replaying import Replayed
from sortedf.engine.step_time import StepTimeModel
from sortedf.kernels.step_terms import PREFILL_TOKENS
from sortedf.model import Instance, Result
from sortedf.solvers.front import solve

ORDERS = ("fcfs", "mcsf", "size", "svf", "svf-1bit", "longest")
SHARES = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the prefill weight that a replay finds, those that are tried."""


@dataclass(frozen=True)
class Timed:
    """A plan and its replay."""

    result: Result
    replayed: Replayed

    @property
    def mean_latency(self) -> float:
        """Mean latency in seconds."""
        return float(self.replayed.latency.mean())


def plans_in_seconds(
    instance: Instance,
    step_time: StepTimeModel,
    *,
    block_size: int = 1,
    lookahead: int = 1,
    settings: Mapping[str, Any] | None = None,
) -> list[Timed]:
    """Replay list schedules in many orders; the least mean latency in seconds first.

    The simple orders, and volume with a prompt token counted as w token-steps more, for some w
    around :func:`prefill_weight`.

    Parameters
    ----------
    instance
        The backlog; releases are taken as seconds.
    step_time
        How long the engine's steps take.
    block_size, lookahead
        As :func:`sortedf.solve` takes them.
    settings
        Of the engine, as :func:`sortedf.engine.engine_of_plan` takes them.

    Notes
    -----
    One list schedule and one replay for each of about a dozen orders. No bound is computed.
    """

    def tried(solver: str, **options: Any) -> Timed:
        result = solve(
            instance,
            solver=solver,
            block_size=block_size,
            lookahead=lookahead,
            bound=False,
            **options,
        )
        engine = engine_of_plan(result, **(settings or {}))
        # With a log: it is from the replay that the weight of a prompt token is found.
        found = predict(result, step_time, engine, log=solver == "svf")
        return Timed(result, found.replayed)

    def candidates() -> Iterator[Timed]:
        yield from (tried(name) for name in ORDERS if name != "svf")
        by_volume = tried("svf")
        yield by_volume
        weight = prefill_weight(by_volume)
        if weight > 0:
            yield from (tried("svf", prefill_weight=share * weight) for share in SHARES)

    return sorted(candidates(), key=lambda timed: timed.mean_latency)


def prefill_weight(timed: Timed) -> float:
    """Token-steps of memory that are worth the seconds of a prompt token, in a replay with a log.

    A token of prompts takes c seconds, a step without prompts t, in which M token-steps are to be
    had: the weight is c M / t. 0 where no step is without prompts. Derived for this project.
    """
    log = timed.replayed.log
    assert log is not None
    seconds = log.end - log.begin
    tokens = log.work[:, PREFILL_TOKENS]
    plain = tokens == 0
    if not plain.any() or not seconds[plain].sum() > 0:
        return 0.0
    step = seconds[plain].mean()
    cost = (seconds[~plain] - step).sum() / tokens.sum()
    return float(np.maximum(cost, 0.0) * timed.result.instance.kv_tokens / step)
