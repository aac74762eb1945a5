"""Drive the real scheduler classes of vLLM with fake model outputs, on a clock of its own.

Runs in the environment of vLLM, not in the project's:

    python drive_scheduler.py < workloads.jsonl > calls.jsonl

A workload is a JSON object a line: ``settings`` (names as in sortedf.engine.EngineSettings, with
``async_scheduling``), ``prompt``, ``output``, ``arrivals``, ``priorities``, ``stamps``, ``aborts``
(null for never), ``seconds`` ([fixed, prefill token, decode token, context]; whole numbers, so that
sums are exact). Under the policy ``planned`` the classes are those of sortedf.runner on top of
vLLM's, ``predicted`` holds the predicted outputs, and the priorities are places in the plan. Or,
instead of these, ``extra_args`` holds what each request brings, and ``section`` the scheduler's own
settings, with which those classes read this clock. The answer, a line each: ``calls``, one for
each schedule() call in which anything was scheduled or preempted, ``[[[request, tokens, kind],
...], [victims]]`` with kind 0 continued, 1 new, 2 resumed, and ``first`` and ``done``, seconds or
null. Or ``{"endless": true}``, when no token was sampled for longer than it takes to compute all of
them twice.

The loop around the scheduler is that of vllm/v1/engine/core.py: ``step`` and
``step_with_batch_queue``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import deque
from dataclasses import fields
from functools import cache
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_LOGGING_LEVEL="ERROR",
    OMP_NUM_THREADS="1",
)

import torch
from tiny_model import write_model
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from sortedf.runner.scheduler_settings import SECTION, Told
from sortedf.runner.vllm_scheduler import PlannedScheduler

SHARED_TOKEN = 7


class Machine:
    """One workload on one scheduler."""

    def __init__(self, model: str, workload: dict[str, Any]) -> None:
        self.work = workload
        self.settings = workload["settings"]
        self.asynchronous = self.settings["async_scheduling"]
        section = workload.get("section", {"lookahead": self.settings.get("lookahead", 1)})
        self.scheduler = make_scheduler(model, self.settings, section)
        assert isinstance(self.scheduler, AsyncScheduler) == self.asynchronous
        self.now = 0.0
        self.scheduler.clock = lambda: self.now  # read by those that learn from latencies
        self.names = [str(i) for i in range(len(workload["prompt"]))]
        caching = self.settings["enable_prefix_caching"]
        size = self.settings["block_size"]
        self.hasher = get_request_block_hasher(size, sha256) if caching else None
        self.inputs = sorted(
            [(time, 0, i) for i, time in enumerate(workload["arrivals"])]
            + [(time, 1, i) for i, time in enumerate(workload["aborts"]) if time is not None]
        )
        self.aborts = sorted((t, i) for t, kind, i in self.inputs if kind == 1)
        self.admitted: set[str] = set()
        self.calls: list[Any] = []
        self.patience = 2 * sum(workload["prompt"]) + 2 * sum(workload["output"]) + 1000
        self.fruitless = 0
        n = len(self.names)
        self.first: list[float | None] = [None] * n
        self.done: list[float | None] = [None] * n

    def request(self, i: int) -> Request:
        prompt, output = self.work["prompt"][i], self.work["output"][i]
        shared = self.settings["shared_blocks"] * self.settings["block_size"]
        own = range((i + 1) << 24, ((i + 1) << 24) + prompt)
        tokens = [SHARED_TOKEN if place < shared else token for place, token in enumerate(own)]
        told, priority = {}, self.work["priorities"][i]
        if "predicted" in self.work:
            told = Told(place=priority, output_tokens=self.work["predicted"][i]).extra_args()
            priority = 0
        elif "extra_args" in self.work:
            told = self.work["extra_args"][i]
        return Request(
            request_id=self.names[i],
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=output, ignore_eos=True, extra_args=told),
            pooling_params=None,
            arrival_time=self.work["stamps"][i],
            priority=priority,
            block_hasher=self.hasher,
        )

    def take_inputs(self, clock: float) -> None:
        while self.inputs and self.inputs[0][0] <= clock:
            _, kind, i = self.inputs.pop(0)
            if kind == 0:
                self.scheduler.add_request(self.request(i))
            else:
                self.scheduler.finish_requests(self.names[i], RequestStatus.FINISHED_ABORTED)

    def take_aborts(self, clock: float) -> None:
        for time, i in self.aborts:
            if time < clock:
                self.scheduler.finish_requests(self.names[i], RequestStatus.FINISHED_ABORTED)

    def schedule(self) -> tuple[Any, ModelRunnerOutput, float]:
        """One call, the model's output for it, and how long the step takes."""
        chosen = self.scheduler.schedule()
        fixed, prefill, decode, context = self.work["seconds"]
        seconds = fixed if chosen.num_scheduled_tokens else 0
        new = {request.req_id for request in chosen.scheduled_new_reqs}
        resumed = set(chosen.scheduled_cached_reqs.resumed_req_ids) | (new & self.admitted)
        rows, sampled = [], []
        for name, tokens in chosen.num_scheduled_tokens.items():
            request = self.scheduler.requests[name]
            before = request.num_computed_tokens - tokens
            seconds += decode + context * before if tokens == 1 else prefill * tokens
            kind = 2 if name in resumed else 1 if name in new else 0
            rows.append([int(name), tokens, kind])
            place = request.num_tokens + request.num_output_placeholders
            token = ((int(name) + 1) << 24) + (1 << 23) + place
            sampled.append([] if request.is_prefill_chunk else [token])
        self.admitted |= new
        victims = sorted(int(name) for name in chosen.preempted_req_ids or ())
        if rows or victims:
            self.calls.append([rows, victims])
        self.fruitless = 0 if any(sampled) else self.fruitless + 1
        names = list(chosen.num_scheduled_tokens)
        output = ModelRunnerOutput(
            req_ids=names,
            req_id_to_index={name: i for i, name in enumerate(names)},
            sampled_token_ids=sampled,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        return chosen, output, seconds

    def update(self, chosen: Any, output: ModelRunnerOutput, clock: float) -> None:
        self.now = clock
        self.take_aborts(clock)
        for client in self.scheduler.update_from_output(chosen, output).values():
            for answer in client.outputs:
                i = int(answer.request_id)
                if answer.new_token_ids and self.first[i] is None:
                    self.first[i] = clock
                if answer.finish_reason is not None:
                    self.done[i] = clock

    def run(self) -> dict[str, Any]:
        clock = end = min(self.work["arrivals"])
        queue: deque[tuple[Any, ModelRunnerOutput, float]] = deque()
        while True:
            if self.fruitless > self.patience:
                return {"endless": True}
            self.take_inputs(clock)
            if not self.scheduler.has_requests() and not queue:
                if not self.inputs:
                    return {"calls": self.calls, "first": self.first, "done": self.done}
                clock = self.inputs[0][0]
                continue
            if self.scheduler.has_requests():
                chosen, output, seconds = self.schedule()
                end = max(end, clock) + seconds
                queue.appendleft((chosen, output, end))
                more = chosen.total_num_scheduled_tokens > 0 or self.scheduler.has_requests()
                if self.asynchronous and len(queue) < 2 and more:
                    continue
            chosen, output, ended = queue.pop()
            clock = max(clock, ended)
            self.update(chosen, output, clock)


def make_scheduler(model: str, settings: dict[str, Any], section: dict[str, Any]) -> Scheduler:
    size, blocks = settings["block_size"], settings["num_gpu_blocks"]
    limit = settings["max_model_len"]
    options = {
        name: settings[name]
        for name in (
            "max_num_seqs",
            "max_num_batched_tokens",
            "long_prefill_token_threshold",
            "long_prefill_token_threshold_adaptive",
            "enable_chunked_prefill",
            "watermark",
            "scheduler_reserve_full_isl",
            "policy",
            "async_scheduling",
        )
        # What a version does not know yet stays out, as long as it is off.
        if name in KNOWN or settings[name]
    }
    planned = options["policy"] == "planned"
    if planned:
        del options["policy"]
    config = VllmConfig(
        additional_config={SECTION: section},
        model_config=model_config(model, limit),
        scheduler_config=SchedulerConfig(max_model_len=limit, is_encoder_decoder=False, **options),
        cache_config=CacheConfig(
            block_size=size, enable_prefix_caching=settings["enable_prefix_caching"]
        ),
    )
    config.cache_config.num_gpu_blocks = blocks
    spec = FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=1, dtype=torch.float32)
    cache = KVCacheConfig(
        num_blocks=blocks,
        kv_cache_tensors=[],
        kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
    )
    kind = AsyncScheduler if settings["async_scheduling"] else Scheduler
    if planned:
        # vLLM for the CPU has turned it off; by it the one name chooses its class.
        config.scheduler_config.async_scheduling = settings["async_scheduling"]
        kind = PlannedScheduler
    return kind(
        vllm_config=config,
        kv_cache_config=cache,
        structured_output_manager=StructuredOutputManager(config),
        block_size=size,
        log_stats=False,
    )


KNOWN = {field.name for field in fields(SchedulerConfig)}


@cache
def model_config(model: str, limit: int) -> ModelConfig:
    return ModelConfig(model=model, skip_tokenizer_init=True, dtype="float32", max_model_len=limit)


def prepare(folder: str) -> None:
    """Do what prefix caching needs once in a process, and write the model's folder."""
    init_none_hash(sha256)
    write_model(folder, context=1 << 20, vocabulary=256)


def main() -> None:
    with tempfile.TemporaryDirectory() as model:
        prepare(model)
        for line in sys.stdin:
            answer = Machine(model, json.loads(line)).run()
            sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
