"""What a policy is: where its scores come from, and the engine's side of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.kernels.standing import RANKED, Scoring
from sortedf.kernels.step_terms import CONTEXT, DECODE_TOKENS, STEPS
from sortedf.serving.alone import prefill_seconds
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.side import EngineSide
from sortedf.serving.workloads import Workload

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Given:
    """What a policy may read: requests without their outputs, what is known of these, the engine.

    Parameters
    ----------
    workload
        Its outputs are not for policies.
    known
        Predictions of them.
    settings, step_time
        The engine.
    """

    workload: Workload
    known: Knowledge
    settings: EngineSettings
    step_time: StepTimeModel

    @property
    def prompts(self) -> FloatArray:
        """Prompt tokens, shape (n,)."""
        return self.workload.instance.prompt_tokens.astype(np.float64)

    @property
    def volumes(self) -> FloatArray:
        """Predicted volumes s o + o (o + 1) / 2, token-steps, shape (n,)."""
        o = self.known.outputs
        return self.prompts * o + (o * o + o) / 2

    @cached_property
    def full_step(self) -> float:
        """Seconds of a step in which decodes fill the cache: as many as are predicted to fit."""
        seconds, budget = self.step_time.seconds, self.settings.kv_tokens
        held = float(self.prompts.mean() + self.known.outputs.mean() / 2)
        decodes = min(self.settings.max_num_seqs, budget / held)
        return float(seconds[STEPS] + seconds[DECODE_TOKENS] * decodes + seconds[CONTEXT] * budget)

    @property
    def volume_seconds(self) -> FloatArray:
        """Predicted volume as seconds of the whole cache: v / M full steps, shape (n,)."""
        return self.volumes / self.settings.kv_tokens * self.full_step

    @property
    def prefill_seconds(self) -> FloatArray:
        """Seconds that each prompt takes alone on the engine, shape (n,)."""
        return prefill_seconds(self.workload.instance, self.settings, self.step_time)

    @property
    def seconds(self) -> FloatArray:
        """Predicted seconds of both resources, cache and compute, shape (n,)."""
        return self.volume_seconds + self.prefill_seconds


Key: TypeAlias = Callable[[Given], FloatArray]


def arrival(given: Given) -> FloatArray:
    """Seconds at which each request came."""
    return np.asarray(given.workload.arrivals)


def predicted(given: Given) -> FloatArray:
    """Predicted outputs, tokens."""
    return given.known.outputs


def no_floor(given: Given) -> FloatArray:
    """Let all work count."""
    return np.zeros(len(given.workload))


def never(given: Given) -> FloatArray:
    """Promote nobody, however long it waits."""
    return np.full(len(given.workload), np.inf)


def predicted_tokens(given: Given) -> IntArray:
    """Let a request be foreseen to end as predicted."""
    return given.known.tokens


@dataclass(frozen=True)
class Replanning:
    """Sorted-F again and again, on who waits and what is known.

    Parameters
    ----------
    select
        ``quantile-greedy``, ``local-swap`` or ``exact-dp``: how batches are chosen.
    period
        Least seconds between two plans; there is a new one only if somebody has come to wait.
    """

    select: str = "quantile-greedy"
    period: float = 5.0


@dataclass(frozen=True, kw_only=True)
class OnlinePolicy:
    """A policy. Made by :func:`sortedf.serving.policies.policy`.

    Parameters
    ----------
    name, parameters
        What it is called and made with.
    side
        The engine's side of it.
    key
        Base of each request's score, shape (n,), least first: the score itself where it never
        changes.
    scoring
        How the score changes. With ``RANKED`` it does not, and the engine is replayed from event to
        event where it can be.
    gamma
        Of the boost, to begin with; 1 / seconds.
    floor
        Seconds of work that each request counts with at least, shape (n,).
    patience
        Seconds of waiting after which each request goes before all that are not so promoted, shape
        (n,); inf for never.
    knows
        What it makes of what is known: a policy on one bit looks at no more.
    foresees
        Predicted outputs for the future check, shape (n,), tokens.
    doubles
        Whether a request that outlives what is foreseen is taken to generate as much again; or one
        token more.
    replanning
        For the receding horizon.
    choose
        Of ``auto``: gives the policy to go by, with the reason, from what is known, and whether it
        is for the model in steps.
    reason
        Why ``auto`` chose it.
    """

    name: str
    side: EngineSide
    key: Key
    parameters: Mapping[str, Any] = field(default_factory=dict)
    scoring: Scoring = field(default_factory=Scoring)
    gamma: float = 0.0
    floor: Key = no_floor
    patience: Key = never
    knows: Callable[[Workload, Knowledge], Knowledge] = lambda workload, known: known
    foresees: Callable[[Given], IntArray] = predicted_tokens
    doubles: bool = True
    replanning: Replanning | None = None
    choose: Callable[[Workload, Knowledge, bool], OnlinePolicy] | None = None
    reason: str = ""

    @property
    def is_static(self) -> bool:
        """Whether scores never change."""
        return self.scoring.kind == RANKED and self.replanning is None

    def settled(
        self, workload: Workload, known: Knowledge, *, in_steps: bool = False
    ) -> OnlinePolicy:
        """Give the policy that ``auto`` chooses; any other is itself."""
        return self if self.choose is None else self.choose(workload, known, in_steps)
