"""Requests that arrive over time: online policies on the replayed engine, and their tails."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortedf.serving.front import simulate
    from sortedf.serving.knowledge import Knowledge
    from sortedf.serving.metrics import figures
    from sortedf.serving.online_policy import OnlinePolicy
    from sortedf.serving.policies import POLICIES, policy
    from sortedf.serving.served import Served
    from sortedf.serving.side import EngineSide
    from sortedf.serving.workloads import Workload

# Imported at first use: arrivals need no compiled kernels.
_HOMES = {
    "EngineSide": "side",
    "Knowledge": "knowledge",
    "OnlinePolicy": "online_policy",
    "POLICIES": "policies",
    "Served": "served",
    "Workload": "workloads",
    "figures": "metrics",
    "policy": "policies",
    "simulate": "front",
}

__all__ = [
    "POLICIES",
    "EngineSide",
    "Knowledge",
    "OnlinePolicy",
    "Served",
    "Workload",
    "figures",
    "policy",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.serving.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sortedf.serving' has no attribute {name!r}")
