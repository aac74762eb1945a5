"""What became of a workload under a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.settings import EngineSettings
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.side import EngineSide
from sortedf.serving.workloads import Workload

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Served:
    """Times of each request, shape (n,), in seconds (under ``engine="steps"``: in steps).

    Parameters
    ----------
    workload, policy, parameters, side, settings, known, engine
        What was simulated: requests and arrivals, the policy's name and parameters, the engine's
        side of it, its settings (``None`` under ``steps``), what was known of lengths, and whether
        in seconds (``replay``) or in steps.
    admitted, first_token, completion
        When each was admitted first, had its first and its last token.
    preemptions
        How often each was evicted.
    recomputed
        Tokens of each whose KV was there and was computed again.
    steps
        Of the engine, in which anything ran.
    reason
        Why ``auto`` chose the policy.
    """

    workload: Workload
    policy: str
    parameters: Mapping[str, Any]
    side: EngineSide
    settings: EngineSettings | None
    known: Knowledge
    engine: str
    admitted: FloatArray
    first_token: FloatArray
    completion: FloatArray
    preemptions: IntArray
    recomputed: IntArray
    steps: int
    reason: str = ""

    @property
    def ttft(self) -> FloatArray:
        """From arrival to first token, shape (n,)."""
        return self.first_token - self.workload.arrivals

    @property
    def latency(self) -> FloatArray:
        """From arrival to last token, shape (n,)."""
        return self.completion - self.workload.arrivals

    def describe(self) -> str:
        """Say in a line what was simulated."""
        values = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        policy = f"{self.policy} ({values})" if values else self.policy
        chosen = f" (auto: {self.reason})" if self.reason else ""
        return f"{policy}{chosen}; lengths known: {self.known}; {self.side}"
