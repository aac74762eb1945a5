"""The engine that runs a plan: what fits into its KV cache, and what it does when, replayed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sortedf.engine.kv_budget import KvBudget, Step, kv_budget
from sortedf.engine.model_config import KvShape, kv_shape, read_config

if TYPE_CHECKING:
    from sortedf.engine.calibration import (
        Calibration,
        calibrate_from_run,
        calibrate_from_steps,
        read_calibration,
        read_step_times,
        write_calibration,
    )
    from sortedf.engine.driver import Driver
    from sortedf.engine.estimate import EngineState, estimate_ttft
    from sortedf.engine.interval import ErrorInterval
    from sortedf.engine.prediction import Prediction, engine_of_plan, figures_in_seconds, predict
    from sortedf.engine.replaying import Replay, Replayed, replay
    from sortedf.engine.run_folder import Run, read_run
    from sortedf.engine.settings import VLLM_0_19, VLLM_0_32, EngineSettings, EngineVersion, Policy
    from sortedf.engine.step_log import StepLog, read_step_log, write_step_log
    from sortedf.engine.step_time import StepTimeModel, published, read_step_time, write_step_time
    from sortedf.engine.training import Training, training_part
    from sortedf.engine.validation import validate

# Imported at first use: the KV budget needs no compiled kernels.
_HOMES = {
    "Calibration": "calibration",
    "Driver": "driver",
    "EngineState": "estimate",
    "EngineSettings": "settings",
    "EngineVersion": "settings",
    "ErrorInterval": "interval",
    "Policy": "settings",
    "Prediction": "prediction",
    "Replay": "replaying",
    "Replayed": "replaying",
    "Run": "run_folder",
    "StepLog": "step_log",
    "StepTimeModel": "step_time",
    "Training": "training",
    "VLLM_0_19": "settings",
    "VLLM_0_32": "settings",
    "calibrate_from_run": "calibration",
    "calibrate_from_steps": "calibration",
    "engine_of_plan": "prediction",
    "estimate_ttft": "estimate",
    "figures_in_seconds": "prediction",
    "predict": "prediction",
    "published": "step_time",
    "read_calibration": "calibration",
    "read_run": "run_folder",
    "read_step_log": "step_log",
    "read_step_time": "step_time",
    "read_step_times": "calibration",
    "replay": "replaying",
    "training_part": "training",
    "validate": "validation",
    "write_calibration": "calibration",
    "write_step_log": "step_log",
    "write_step_time": "step_time",
}

__all__ = [
    "VLLM_0_19",
    "VLLM_0_32",
    "Calibration",
    "Driver",
    "EngineSettings",
    "EngineState",
    "EngineVersion",
    "ErrorInterval",
    "KvBudget",
    "KvShape",
    "Policy",
    "Prediction",
    "Replay",
    "Replayed",
    "Run",
    "Step",
    "StepLog",
    "StepTimeModel",
    "Training",
    "calibrate_from_run",
    "calibrate_from_steps",
    "engine_of_plan",
    "estimate_ttft",
    "figures_in_seconds",
    "kv_budget",
    "kv_shape",
    "predict",
    "published",
    "read_calibration",
    "read_config",
    "read_run",
    "read_step_log",
    "read_step_time",
    "read_step_times",
    "replay",
    "training_part",
    "validate",
    "write_calibration",
    "write_step_log",
    "write_step_time",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.engine.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sortedf.engine' has no attribute {name!r}")
