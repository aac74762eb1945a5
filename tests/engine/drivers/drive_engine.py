"""Run backlogs on the whole engine of vLLM, on the CPU, and write down every step.

Runs in the environment of vLLM, not in the project's:

    python drive_engine.py < groups.jsonl > answers.jsonl

A group is a JSON object a line: ``settings`` of the engine that is built for it, ``works``, as in
drive_scheduler.py, to run on it one after another, and ``model``, keys of the model's configuration
that are not those of tiny_model.py; a group without ``settings`` goes on on the engine of the one
before. The clock counts the steps in which anything ran; arrivals and aborts are carried out
between steps. The answer, a line each, is a list of the answers to the works. These hold, beside
what drive_scheduler.py writes, of each step in which anything ran: ``work``, its terms in the
order of sortedf.engine.step_log, by the tokens that the engine had computed before; and ``wall``
and ``processor``, its begin and end in seconds, by the clock that the engine stamps with and by
that of the process.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import tempfile
import time
from typing import Any

os.environ.update(
    OMP_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_NO_USAGE_STATS="1",
    VLLM_LOGGING_LEVEL="ERROR",
)
# What the engine prints belongs to stderr; answers go to what was stdout.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from tiny_model import write_model  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

from sortedf.runner.scheduler_settings import SchedulerSettings, Told  # noqa: E402

VOCABULARY = 1024
ENGINE_SETTINGS = (
    "block_size",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "long_prefill_token_threshold",
    "long_prefill_token_threshold_adaptive",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "watermark",
    "scheduler_reserve_full_isl",
)


class Recorder:
    """Writes down what each schedule() call chooses."""

    def __init__(self, scheduler: Any) -> None:
        self.calls: list[Any] = []
        self.admitted: set[str] = set()
        self.ran = 0
        self.work: list[list[int]] = []
        self._requests = scheduler.requests
        self._schedule = scheduler.schedule
        scheduler.schedule = self.schedule

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        chosen = self._schedule(*args, **kwargs)
        new = {request.req_id for request in chosen.scheduled_new_reqs}
        resumed = set(chosen.scheduled_cached_reqs.resumed_req_ids) | (new & self.admitted)
        self.admitted |= new
        rows = [
            [number(name), tokens, 2 if name in resumed else 1 if name in new else 0]
            for name, tokens in chosen.num_scheduled_tokens.items()
        ]
        victims = sorted(number(name) for name in chosen.preempted_req_ids or ())
        if rows or victims:
            self.calls.append([rows, victims])
        if rows:
            self.ran += 1
            self.work.append(self._terms(chosen.num_scheduled_tokens))
        return chosen

    def _terms(self, scheduled: dict[str, int]) -> list[int]:
        """Sum up what a step is made of; a query of one token is a decode, whatever it computes."""
        prefill = decode = context = work = chunk_squared = context_squared = 0
        for name, tokens in scheduled.items():
            before = self._requests[name].num_computed_tokens - tokens
            if tokens == 1:
                decode += 1
                context += before
                context_squared += before**2
            else:
                prefill += tokens
                work += tokens * before + tokens * (tokens + 1) // 2
                chunk_squared += tokens**2
        return [prefill, decode, context, work, chunk_squared, context_squared]


def number(name: str) -> int:
    """Position of a request, from the engine's name for it (``7-9a58...``)."""
    return int(name.split("-")[0])


def run(llm: LLM, settings: dict[str, Any], work: dict[str, Any], seed: int) -> dict[str, Any]:
    engine = llm.llm_engine
    scheduler = engine.engine_core.engine_core.scheduler
    if settings["enable_prefix_caching"]:
        assert scheduler.reset_prefix_cache()
    plain = scheduler.schedule
    recorder = Recorder(scheduler)
    rng = random.Random(seed)
    header = [rng.randrange(VOCABULARY) for _ in range(settings["shared_blocks"])]
    header = [token for token in header for _ in range(settings["block_size"])]
    inputs = sorted(
        [(time, 0, i) for i, time in enumerate(work["arrivals"])]
        + [(time, 1, i) for i, time in enumerate(work["aborts"]) if time is not None]
    )
    first: list[int | None] = [None] * len(work["prompt"])
    done: list[int | None] = [None] * len(work["prompt"])
    idle = inputs[0][0]  # the clock less the steps that ran
    patience = 2 * sum(work["prompt"]) + 2 * sum(work["output"]) + 1000
    fruitless = 0
    wall: list[tuple[float, float]] = []
    processor: list[tuple[float, float]] = []
    while inputs or engine.has_unfinished_requests():
        if not engine.has_unfinished_requests():
            idle = max(idle, inputs[0][0] - recorder.ran)
        while inputs and inputs[0][0] <= idle + recorder.ran:
            _, kind, i = inputs.pop(0)
            if kind == 1:
                engine.abort_request([str(i)])
                continue
            length = work["prompt"][i]
            own = [rng.randrange(VOCABULARY) for _ in range(length)]
            output = work["output"][i]
            told = Told()
            if settings["policy"] == "planned":
                told = Told(place=work["priorities"][i], output_tokens=work["predicted"][i])
            engine.add_request(
                str(i),
                {"prompt_token_ids": (header + own[len(header) :])[:length]},
                SamplingParams(
                    max_tokens=output,
                    ignore_eos=True,
                    detokenize=False,
                    extra_args=told.extra_args(),
                ),
                arrival_time=work["stamps"][i],
                priority=work["priorities"][i] if settings["policy"] == "priority" else 0,
            )
        ran = recorder.ran
        begin = time.monotonic(), time.process_time()
        answers = engine.step()
        if recorder.ran > ran:
            wall.append((begin[0], time.monotonic()))
            processor.append((begin[1], time.process_time()))
        fruitless = 0 if answers else fruitless + 1
        if fruitless > patience:
            engine.abort_request([str(i) for i in range(len(first))])
            scheduler.schedule = plain
            return {"endless": True}
        for answer in answers:
            i = number(answer.request_id)
            if first[i] is None:
                first[i] = idle + recorder.ran
            if answer.finished:
                done[i] = idle + recorder.ran
    scheduler.schedule = plain
    return {
        "calls": recorder.calls,
        "first": first,
        "done": done,
        "work": recorder.work,
        "wall": wall,
        "processor": processor,
    }


def build(folder: str, settings: dict[str, Any], model: dict[str, Any]) -> LLM:
    write_model(folder, context=1 << 14, vocabulary=VOCABULARY, **model)
    policy: dict[str, Any] = {"scheduling_policy": settings["policy"]}
    if settings["policy"] == "planned":
        policy = {
            "scheduler_cls": "sortedf.runner.vllm_scheduler.PlannedScheduler",
            "additional_config": SchedulerSettings(
                lookahead=settings["lookahead"]
            ).additional_config(),
        }
    return LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        kv_cache_memory_bytes=1 << 26,
        num_gpu_blocks_override=settings["num_gpu_blocks"],
        async_scheduling=False,
        **policy,
        **{name: settings[name] for name in ENGINE_SETTINGS},
    )


def main() -> None:
    llm: LLM | None = None
    settings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as model:
        for line in sys.stdin:
            group = json.loads(line)
            if "settings" in group:
                settings = group["settings"]
                llm = None  # only one engine lives in a process
                gc.collect()
                llm = build(model, settings, group.get("model", {}))
            assert llm is not None, "the first group has no settings"
            answers = [run(llm, settings, work, seed) for seed, work in enumerate(group["works"])]
            ANSWERS.write(json.dumps(answers) + "\n")
            ANSWERS.flush()


if __name__ == "__main__":
    main()
