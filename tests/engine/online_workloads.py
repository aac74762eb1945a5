"""Random workloads for the online policies, and what their replay makes of them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from engine_workloads import Workload, answer_of, random_workload, step_time

import sortedf
from sortedf.engine import EngineSettings
from sortedf.errors import SortedfError
from sortedf.orders import Proxies
from sortedf.serving.knowledge import Knowledge
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import policy
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.workloads import Workload as Arriving

POLICIES = ("fcfs", "mcsf", "svf", "svf-1bit", "uniboost", "uniboost-guard")


def online_workload(rng: random.Random, name: str) -> Workload:
    """Draw a workload with arrivals, for a policy; no two arrive at once where ids would decide.

    Outputs are foreseen right, too short, too long, or mixed.
    """
    work = random_workload(rng)
    n = len(work["prompt"])
    span = rng.choice([n, 20 + n, 200, 1000])
    if n <= 10 and rng.random() < 0.2:
        work["arrivals"] = [0] * n
    else:
        work["arrivals"] = sorted(rng.sample(range(span + n), n))
    work["stamps"], work["aborts"] = work["arrivals"], [None] * n
    work["settings"] |= {"policy": "planned"}
    del work["priorities"]
    factors: list[float] = rng.choice([[1], [1], [0.4, 0.8], [1, 1.3, 3], [0.3, 1, 1, 1.5]])
    predicted = [max(1, round(o * rng.choice(factors))) for o in work["output"]]
    section: dict[str, Any] = {"policy": name}
    if name != "fcfs":
        section["lookahead"] = rng.choice([1, 1, 1, 3])
    if name == "svf-1bit":
        short = rng.randint(1, 20)
        section |= {"threshold": rng.randint(1, 40), "short": short, "long": short + rng.random()}
        section["long"] = short + rng.choice([0.5, 20.0, 60.0])
    if name.startswith("uniboost"):
        names = ("fixed", "prefill_token", "decode_token", "context")
        section |= {
            "gamma": rng.choice([0.001, 0.01, 0.1]),
            "hysteresis": rng.choice([0.0, 0.0, 5.0, 100.0]),
            "guard": rng.choice([1, 2, 4, 8, 30]),
            "step_time": dict(zip(names, work["seconds"], strict=True)),
        }
    if name == "uniboost":
        section |= {
            "window": rng.randint(2, 8),
            "every": rng.randint(1, 4),
            "smoothing": rng.choice([0.3, 1.0]),
        }
    told = [{"sortedf_output_tokens": tokens} for tokens in predicted]
    return work | {"section": section, "extra_args": told, "priorities": [0] * n}


def online_answer(work: Workload) -> dict[str, Any]:
    """Replay a workload under its policy; the answer in the form of the drivers."""
    chosen = policy_of(work)
    settings = EngineSettings(**work["settings"])
    instance = sortedf.Instance(work["prompt"], work["output"], 2**40)
    arriving = Arriving(instance, np.array(work["arrivals"], np.float64))
    predicted = [told["sortedf_output_tokens"] for told in work["extra_args"]]
    known = Knowledge(kind="noisy", predicted=np.array(predicted, np.float64))
    try:
        replay = PolicyReplay(arriving, chosen, settings, step_time(work), known)
    except SortedfError:
        return {"endless": True}
    return answer_of(replay, step_time(work))


def policy_of(work: Workload) -> OnlinePolicy:
    """Give the policy of sortedf.serving that the scheduler's settings name."""
    section = {n: value for n, value in work["section"].items() if n != "step_time"}
    if section["policy"] == "svf-1bit":
        section["proxies"] = Proxies(*(section.pop(n) for n in ("threshold", "short", "long")))
    return policy(section.pop("policy"), watermark=work["settings"]["watermark"], **section)
