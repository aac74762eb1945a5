"""A workload under a policy on the replayed engine."""

from __future__ import annotations

import numpy as np

from sortedf.engine.driver import Driver
from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError, SortedfError
from sortedf.kernels.replay_log import Log
from sortedf.kernels.replay_state import Engine
from sortedf.kernels.replay_steps import ALL_DONE, LEARNING, Progress, run_steps
from sortedf.kernels.standing import (
    BASE,
    FLOOR,
    GAMMA,
    PATIENCE,
    RECOMPUTES,
    RESTARTS,
    SWAPS,
    THRESHOLD,
    WORK,
)
from sortedf.serving.gamma import learn_gamma
from sortedf.serving.horizon import run_with_plans
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import FloatArray, Given, OnlinePolicy
from sortedf.serving.side import EngineSide, Eviction, Victim
from sortedf.serving.workloads import Workload

_KEEPS = {Eviction.RECOMPUTE: RECOMPUTES, Eviction.SWAP: SWAPS, Eviction.RESTART: RESTARTS}


class PolicyReplay(Replay):
    """The engine under a policy, ready to be replayed; see :class:`sortedf.engine.Replay`.

    Parameters
    ----------
    workload
        Requests and arrivals.
    policy
        Its side of the engine takes the place of the settings' policy, watermark and lookahead.
    settings, step_time
        The engine.
    known
        Of output lengths.

    Attributes
    ----------
    standing
        After a replay by scores that change: what they came from, shape (n, STANDINGS), columns as
        in :mod:`sortedf.kernels.standing`.
    """

    standing: FloatArray

    def __init__(
        self,
        workload: Workload,
        policy: OnlinePolicy,
        settings: EngineSettings,
        step_time: StepTimeModel,
        known: Knowledge,
    ) -> None:
        policy = policy.settled(workload, known)
        side = policy.side
        engine = carried_out(settings, side)
        self.policy = policy
        self.given = Given(workload, policy.knows(workload, known), engine, step_time)
        base = np.asarray(policy.key(self.given), np.float64)
        ranks = np.unique(base, return_inverse=True)[1] if policy.is_static else None
        super().__init__(
            workload.instance,
            engine,
            arrivals=workload.arrivals,
            priorities=ranks,
            predicted=policy.foresees(self.given) if side.future else None,
        )
        self._base = base
        self._rules = self._rules._replace(
            by_priority=side.victim != Victim.TAIL,
            doubles=policy.doubles,
            keeps=_KEEPS[Eviction(side.eviction)],
            swap_seconds=float(side.swap_seconds),
            displaces=side.displaces,
            hysteresis=float(side.hysteresis),
            least_first=side.victim == Victim.LEAST,
            scoring=policy.scoring,
        )

    def serve(self) -> Replayed:
        """Replay the workload under the policy.

        Raises
        ------
        SortedfError
            When requests evict each other for ever.
        """
        if self.policy.is_static:
            jumps = self.policy.side.eviction == Eviction.RECOMPUTE
            return self.run(self.given.step_time, by=None if jumps else Driver.STEPS)
        return self.run(self.given.step_time, by=Driver.STEPS)

    def _go_on(self, engine: Engine, seconds: FloatArray, log: Log, progress: Progress) -> None:
        rules, replanning = self._rules, self.policy.replanning
        if replanning is not None:
            done = run_with_plans(rules, engine, self.given, replanning, log, progress)
        else:
            state = LEARNING
            while state == LEARNING:
                state = run_steps(rules, engine, seconds, log, progress, np.inf)
                if state == LEARNING:
                    learn_gamma(rules, engine)
            done = state == ALL_DONE
        if not done:
            raise SortedfError("the engine never ends: requests evict each other for ever")
        self.standing = engine.standing

    def _engine(self) -> Engine:
        engine = super()._engine()
        if len(engine.standing):
            standing, floor = engine.standing, self.policy.floor(self.given)
            standing[:, BASE] = self._base
            standing[:, PATIENCE] = self.policy.patience(self.given)
            standing[:, FLOOR] = standing[:, WORK] = floor
            standing[:, THRESHOLD] = self.policy.scoring.guard
            engine.dials[GAMMA] = self.policy.gamma
        return engine


def carried_out(settings: EngineSettings, side: EngineSide) -> EngineSettings:
    """Give the settings of an engine that carries out the engine's side of a policy.

    Raises
    ------
    OptionError
        For what does not go together.
    """
    if side.eviction != Eviction.RECOMPUTE and settings.enable_prefix_caching:
        raise OptionError("prefix caching is replayed with eviction by recompute alone")
    return settings.replace(
        policy=Policy.PLANNED if side.future else Policy.PRIORITY,
        watermark=side.watermark,
        lookahead=side.lookahead if side.future else 1,
    )
