"""What a solver found, and how much is known about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Any, Protocol

import numpy as np

from sortedf.model.instance import Instance
from sortedf.model.schedule import Schedule


class Status(StrEnum):
    """What is known of the schedule, apart from why the solver stopped."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class StopReason(StrEnum):
    """Why the solver stopped. A rule that builds one schedule and has no more to do is finished."""

    FINISHED = "finished"
    PROVED = "proved"
    TIME_LIMIT = "time_limit"
    ITERATION_LIMIT = "iteration_limit"
    INTERRUPTED = "interrupted"


class BoundKind(StrEnum):
    """Where a lower bound comes from: a certificate, a full search, or a solver's word."""

    CERTIFIED = "certified"
    EXHAUSTIVE = "exhaustive"
    CLAIMED = "claimed"


class Proof(Protocol):
    """What proves a lower bound to others; ``sortedf.lp.Bound`` is one."""

    @property
    def value(self) -> Fraction:
        """The bound that is proved."""

    def to_dict(self) -> dict[str, Any]:
        """Give the keys of a certificate that prove it; see ``docs/formats.md``."""


@dataclass(frozen=True)
class Result:
    """A verified schedule and its account.

    Parameters
    ----------
    instance
        The backlog that was planned, as it was given (not padded to blocks).
    schedule
        Start steps, accepted by :mod:`sortedf.verify`.
    solver, parameters, seed, version
        What produced it; together with the instance they reproduce it byte for byte.
    block_size
        Tokens a KV block for which the plan is safe; 1 is the plain token budget.
    seconds
        Wall time of the solver, verification left out.
    lower_bound_exact, bound_kind
        A proven lower bound on the total latency (exact rational); ``None`` when there is none.
    proof
        What a certificate of a lower bound is made of, of ``lower_bound_exact`` or, where that
        needs none (a formula, a full search), of one below; ``None`` when there is none.
    """

    instance: Instance
    schedule: Schedule
    solver: str
    seconds: float
    version: str
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    block_size: int = 1
    status: Status = Status.FEASIBLE
    stop_reason: StopReason = StopReason.FINISHED
    lower_bound_exact: Fraction | None = None
    bound_kind: BoundKind | None = None
    verified: bool = False
    proof: Proof | None = field(default=None, compare=False, repr=False)

    @property
    def total_latency(self) -> int:
        """Total end-to-end latency (TEL) in steps, the objective."""
        return self.schedule.total_latency(self.instance)

    @property
    def mean_latency(self) -> float:
        """Mean end-to-end latency in steps."""
        return self.total_latency / len(self.instance)

    @property
    def makespan(self) -> int:
        """Step of the last completion."""
        return self.schedule.makespan(self.instance)

    @property
    def lower_bound(self) -> int | None:
        """The bound rounded up: the objective is an integer."""
        return None if self.lower_bound_exact is None else ceil(self.lower_bound_exact)

    @property
    def gap(self) -> float | None:
        """TEL / bound - 1, at least the distance from the optimum; ``None`` without a bound."""
        return self.total_latency / self.lower_bound - 1 if self.lower_bound else None

    def latency_percentile(self, *percents: float) -> tuple[int, ...]:
        """Latencies in steps at these percents, by nearest rank (numpy's ``inverted_cdf``)."""
        latencies = self.schedule.latencies(self.instance)
        return tuple(
            int(value) for value in np.percentile(latencies, percents, method="inverted_cdf")
        )

    def _workers(self) -> list[dict[str, Any]]:
        """Say of each worker what it has been given: requests, steps, share of its KV used."""
        completions = self.schedule.starts + self.instance.output_tokens
        latencies = self.schedule.latencies(self.instance)
        rows = []
        for k, (name, kv_tokens) in enumerate(self.instance.workers):
            here = self.schedule.workers == k
            makespan = int(completions[here].max(initial=0))
            held = float(self.instance.volume[here].astype(np.float64).sum())
            rows.append(
                {
                    "name": name,
                    "kv_tokens": kv_tokens,
                    "n": int(here.sum()),
                    "total_latency": int(latencies[here].sum()),
                    "makespan": makespan,
                    "mean_kv_use": held / (kv_tokens * makespan) if makespan else 0.0,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the JSON object that ``sortedf solve --json`` prints (steps, seconds)."""
        p50, p95, p99 = self.latency_percentile(50, 95, 99)
        bound = self.lower_bound_exact
        several = len(self.instance.workers) > 1
        return {
            "n": len(self.instance),
            "kv_tokens": self.instance.kv_tokens,
            **({"workers": self._workers()} if several else {}),
            "block_size": self.block_size,
            "solver": self.solver,
            "parameters": dict(self.parameters),
            "total_latency": self.total_latency,
            "mean_latency": self.mean_latency,
            "p50_latency": p50,
            "p95_latency": p95,
            "p99_latency": p99,
            "makespan": self.makespan,
            "lower_bound": self.lower_bound,
            "lower_bound_exact": bound and f"{bound.numerator}/{bound.denominator}",
            "bound_kind": self.bound_kind,
            "gap": self.gap,
            "status": self.status,
            "stop_reason": self.stop_reason,
            "verified": self.verified,
            "seconds": self.seconds,
            "seed": self.seed,
            "version": self.version,
            "instance_sha256": self.instance.sha256,
        }
