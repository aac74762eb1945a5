"""The front function: a workload under a policy, in seconds or in the steps of the theory."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError
from sortedf.serving.knowledge import Knowledge, exact
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import policy as policy_by_name
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.served import Served
from sortedf.serving.step_model import in_steps
from sortedf.serving.workloads import Workload


def simulate(
    workload: Workload,
    policy: str | OnlinePolicy,
    settings: EngineSettings | None = None,
    step_time: StepTimeModel | None = None,
    *,
    known: Knowledge | None = None,
    engine: str = "replay",
    **options: Any,
) -> Served:
    """Serve a workload under a policy.

    Parameters
    ----------
    workload
        Requests and their arrivals: seconds, or under ``steps`` whole steps.
    policy
        A name, with ``options`` as :func:`sortedf.serving.policies.policy` takes them; or one made.
    settings, step_time
        The engine, for ``replay``. The policy's side takes the place of the settings' policy,
        watermark and lookahead.
    known
        Of output lengths; :func:`sortedf.serving.knowledge.exact` when left out.
    engine
        ``replay``: vLLM's scheduler, replayed, in seconds. ``steps``: the model of the theory: one
        token a step of every running request, the KV budget of the instance, room for the predicted
        outputs at every later step.

    Raises
    ------
    OptionError
        For what does not go together, or a policy that needs to know more.
    InfeasibleError, InvalidRequestError
        When a request cannot be served at all; see :class:`sortedf.engine.Replay`.
    SortedfError
        When requests evict each other for ever.
    """
    chosen = policy_by_name(policy, **options) if isinstance(policy, str) else policy
    if options and not isinstance(policy, str):
        raise OptionError("options are for a policy by its name")
    known = exact(workload.instance) if known is None else known
    if engine == "steps":
        if settings is not None or step_time is not None:
            raise OptionError("the model in steps has no engine settings and no step time")
        return in_steps(workload, chosen, known)
    if engine != "replay":
        raise OptionError(f"engine is {engine!r}; it must be replay or steps")
    if settings is None or step_time is None:
        raise OptionError("the replayed engine needs settings and a step time")
    chosen = chosen.settled(workload, known)
    prepared = PolicyReplay(workload, chosen, settings, step_time, known)
    found = prepared.serve()
    return Served(
        workload=workload,
        policy=chosen.name,
        reason=chosen.reason,
        parameters=chosen.parameters,
        side=chosen.side,
        settings=prepared.settings,
        known=prepared.given.known,
        engine=engine,
        admitted=found.admitted,
        first_token=found.first_token,
        completion=found.completion,
        preemptions=found.preemptions,
        recomputed=found.recomputed,
        steps=int(np.max(found.completion_step)),
    )
