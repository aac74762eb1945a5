"""What is asked of vLLM before it starts, and what is said when it does not; needs no vLLM."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sortedf.engine.run_settings import settings_of
from sortedf.errors import EngineError, OptionError
from sortedf.runner.library_output import reason
from sortedf.runner.process_ends import end_with_parent, when_ended
from sortedf.runner.scheduler_settings import SchedulerSettings
from sortedf.runner.vllm_engine import VllmEngine
from sortedf.runner.vllm_options import VllmOptions
from sortedf.runner.vllm_start import first_exception
from sortedf.runner.waiting_keys import ENGINE


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text("{}")
    return str(tmp_path)


def test_what_is_asked_of_vllm(model: str) -> None:
    """Only what was given, under its names; prefix caching is off, times are on."""
    options = VllmOptions(model=model, block_size=32, further={"watermark": 0.1})
    assert options.engine_args() == {
        "model": model,
        "skip_tokenizer_init": False,
        "block_size": 32,
        "seed": 0,
        "tensor_parallel_size": 1,
        "enforce_eager": False,
        "enable_prefix_caching": False,
        "watermark": 0.1,
        "scheduling_policy": "fcfs",
        "disable_log_stats": False,
    }
    asked = VllmOptions(model=model, handover="priority").engine_args()
    assert asked["scheduling_policy"] == "priority"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"handover": "fifo"}, "planned, priority, order, chunks"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"block_size": True}, "block_size"),
        ({"num_gpu_blocks_override": 1}, "at least 2"),
        ({"tokenizer": "other", "skip_tokenizer_init": True}, "exclude"),
        ({"further": {"scheduler_cls": "x"}}, "scheduler_cls"),
        ({"further": {"block_size": 16}}, "block_size"),
        ({"model": "./nowhere"}, "no config.json"),
        ({"model": "/"}, "no config.json"),
    ],
)
def test_refused_options(model: str, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        VllmOptions(**({"model": model} | changed))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is here")
def test_not_installed(model: str, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"not installed.*sortedf\[vllm\]"):
        VllmEngine.start(VllmOptions(model=model), log=tmp_path / "log")


def test_the_first_exception_of_a_log_is_the_cause(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ValueError: of an earlier start\n")
    begin = log.stat().st_size
    assert first_exception(log, begin) is None
    with log.open("a") as file:
        file.write(
            "(EngineCore pid=1) INFO 11-29 23:12:09 [core.py:1] no Error: here, nor Errors\n"
            "(Worker pid=2) ERROR 11-29 23:12:09 [w.py:9] torch.OutOfMemoryError: CUDA: no room\n"
            "(EngineCore pid=1) ERROR 11-29 23:12:09 [core.py:1510] RuntimeError: it failed\n"
        )
    assert first_exception(log, begin) == "CUDA: no room"


def test_the_line_of_an_exception_that_says_most() -> None:
    assert reason(ValueError("\n  what is wrong\n  where\n")) == "what is wrong"
    assert reason(KeyError()) == "KeyError"

    class ValidationError(Exception):
        def errors(self) -> list[dict[str, str]]:
            return [{"msg": "Value error, the name\nis bad"}]

    assert reason(ValidationError("1 validation error for Config")) == "the name"


@pytest.mark.parametrize(
    ("told", "policy", "lookahead", "notes"),
    [
        (SchedulerSettings(steps_by_request=True), "planned", 1, 0),
        (SchedulerSettings(lookahead=3), "planned", 3, 0),
        (SchedulerSettings(policy=ENGINE), "fcfs", 1, 0),
        (SchedulerSettings(room=False), "priority", 1, 0),
        (SchedulerSettings(policy="svf"), "planned", 1, 1),
    ],
)
def test_runs_of_our_scheduler_are_replayed(
    told: SchedulerSettings, policy: str, lookahead: int, notes: int
) -> None:
    meta = {
        "vllm_version": "0.32.0",
        "resolved_config": {
            "scheduler_config": {
                "max_num_batched_tokens": 512,
                "max_num_seqs": 16,
                "long_prefill_token_threshold": 0,
                "enable_chunked_prefill": True,
                "scheduler_reserve_full_isl": True,
                "policy": "fcfs",
                "async_scheduling": False,
                "scheduler_cls": "sortedf.runner.vllm_scheduler.PlannedScheduler",
            },
            "cache_config": {"block_size": 32, "enable_prefix_caching": False},
            "additional_config": told.additional_config(),
        },
        "kv_cache": {"num_gpu_blocks": 60},
    }
    nobody = np.array([], np.int64)
    settings, known, said = settings_of(json.loads(json.dumps(meta)), "meta", nobody, nobody)
    assert settings.policy == policy
    assert settings.lookahead == lookahead
    assert len(said) == notes
    assert known


def _parent(connection: Any) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_child)
    child.start()
    connection.send(child.pid)
    time.sleep(60)


def _child() -> None:
    end_with_parent()
    time.sleep(60)


def test_a_process_ends_with_its_parent_and_that_is_told() -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    parent = context.Process(target=_parent, args=(theirs,))
    parent.start()
    child = ours.recv()
    told = context.Event()
    when_ended([parent.sentinel], told.set)
    status = Path("/proc", str(child), "stat")
    assert status.exists()
    assert not told.is_set()
    parent.kill()
    assert told.wait(20)
    patience = time.monotonic() + 20
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() < patience
        time.sleep(0.02)
    parent.join()
