"""The engine that runs a plan: what fits into its KV cache, and what it does when, replayed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sortedf.engine.kv_budget import KvBudget, Step, kv_budget
from sortedf.engine.model_config import KvShape, kv_shape, read_config

if TYPE_CHECKING:
    from sortedf.engine.execution import engine_of_plan, execute, figures_in_seconds
    from sortedf.engine.replaying import Replay, Replayed, replay
    from sortedf.engine.settings import VLLM_0_19, VLLM_0_32, EngineSettings, EngineVersion, Policy
    from sortedf.engine.step_time import StepTimeModel, published, read_step_time, write_step_time

# Imported at first use: the KV budget needs no compiled kernels.
_HOMES = {
    "EngineSettings": "settings",
    "EngineVersion": "settings",
    "Policy": "settings",
    "Replay": "replaying",
    "Replayed": "replaying",
    "StepTimeModel": "step_time",
    "VLLM_0_19": "settings",
    "VLLM_0_32": "settings",
    "engine_of_plan": "execution",
    "execute": "execution",
    "figures_in_seconds": "execution",
    "published": "step_time",
    "read_step_time": "step_time",
    "replay": "replaying",
    "write_step_time": "step_time",
}

__all__ = [
    "VLLM_0_19",
    "VLLM_0_32",
    "EngineSettings",
    "EngineVersion",
    "KvBudget",
    "KvShape",
    "Policy",
    "Replay",
    "Replayed",
    "Step",
    "StepTimeModel",
    "engine_of_plan",
    "execute",
    "figures_in_seconds",
    "kv_budget",
    "kv_shape",
    "published",
    "read_config",
    "read_step_time",
    "replay",
    "write_step_time",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.engine.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sortedf.engine' has no attribute {name!r}")
