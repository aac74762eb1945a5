"""Run requests that arrive while it runs on the whole engine of vLLM, on the CPU.

Runs in the environment of vLLM, not in the project's:

    python drive_live.py < groups.jsonl > answers.jsonl

A group is a JSON object a line: ``settings`` as in drive_engine.py, ``section``, what the scheduler
of sortedf is told, and ``works``, run one after another: ``prompt``, ``output``, ``extra_args`` and
``arrivals``, in seconds of the processor: that clock leaves out what else runs on the machine, and
jumps where nothing is left to do. The answer, a line each, is a list of the answers to the works:
``calls``, as in drive_engine.py, each with the gamma that held before it (null where there is none)
and the number of requests that had arrived; ``first`` and ``done``, seconds since the first could
arrive; ``preemptions``.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import tempfile
import time
from typing import Any

from drive_engine import ANSWERS, ENGINE_SETTINGS, VOCABULARY, number
from tiny_model import write_model
from vllm import LLM, SamplingParams

from sortedf.runner.scheduler_settings import SECTION


class Live:
    """Requests on their way through an engine."""

    def __init__(self, llm: LLM, work: dict[str, Any]) -> None:
        self.engine = llm.llm_engine
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self.work = work
        self.calls: list[Any] = []
        self.arrived = 0
        self._admitted: set[str] = set()
        self._schedule = self.scheduler.schedule

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """Write down what a call chooses."""
        boost = getattr(self.scheduler, "_boost", None)
        gamma = None if boost is None else boost.gamma
        chosen = self._schedule(*args, **kwargs)
        new = {request.req_id for request in chosen.scheduled_new_reqs}
        resumed = set(chosen.scheduled_cached_reqs.resumed_req_ids) | (new & self._admitted)
        self._admitted |= new
        rows = [
            [number(name), tokens, 2 if name in resumed else 1 if name in new else 0]
            for name, tokens in chosen.num_scheduled_tokens.items()
        ]
        victims = [number(name) for name in chosen.preempted_req_ids or ()]
        if rows or victims:
            self.calls.append([rows, victims, gamma, self.arrived])
        return chosen

    def add(self, i: int, prompt: list[int], arrival_time: float) -> None:
        """Let a request arrive."""
        sampling = SamplingParams(
            max_tokens=self.work["output"][i],
            ignore_eos=True,
            detokenize=False,
            extra_args=self.work["extra_args"][i],
        )
        self.engine.add_request(
            str(i), {"prompt_token_ids": prompt}, sampling, arrival_time=arrival_time
        )
        self.arrived += 1

    def run(self) -> dict[str, Any]:
        """Serve all of them."""
        rng = random.Random(0)
        prompts = [[rng.randrange(VOCABULARY) for _ in range(n)] for n in self.work["prompt"]]
        n, arrivals = len(prompts), self.work["arrivals"]
        first, done, preemptions = [0.0] * n, [0.0] * n, [0] * n
        self.scheduler.schedule = self.schedule
        epoch = time.time()
        origin = time.process_time()  # less what was skipped
        self.scheduler.clock = lambda: epoch + time.process_time() - origin
        while self.arrived < n or self.engine.has_unfinished_requests():
            now = time.process_time() - origin
            while self.arrived < n and arrivals[self.arrived] <= now:
                i = self.arrived
                self.add(i, prompts[i], epoch + arrivals[i])
            if not self.engine.has_unfinished_requests():
                origin -= max(arrivals[self.arrived] - now, 0.0)
                continue
            answers = self.engine.step()
            now = time.process_time() - origin
            for answer in answers:
                i = number(answer.request_id)
                first[i] = first[i] or now
                if answer.finished:
                    done[i] = now
                    preemptions[i] = answer.metrics.num_preemptions
        self.scheduler.schedule = self._schedule
        return {"calls": self.calls, "first": first, "done": done, "preemptions": preemptions}


def build(folder: str, settings: dict[str, Any], section: dict[str, Any]) -> LLM:
    """Start an engine."""
    write_model(folder, context=1 << 14, vocabulary=VOCABULARY)
    return LLM(
        model=folder,
        load_format="dummy",
        skip_tokenizer_init=True,
        dtype="float32",
        enforce_eager=True,
        kv_cache_memory_bytes=1 << 26,
        num_gpu_blocks_override=settings["num_gpu_blocks"],
        async_scheduling=False,
        disable_log_stats=False,
        scheduler_cls="sortedf.runner.vllm_scheduler.PlannedScheduler",
        additional_config={SECTION: section},
        **{name: settings[name] for name in ENGINE_SETTINGS},
    )


def main() -> None:
    """Answer a line for each line."""
    llm: LLM | None = None
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            group = json.loads(line)
            llm = None  # only one engine lives in a process
            gc.collect()
            llm = build(folder, group["settings"], group["section"])
            ANSWERS.write(json.dumps([Live(llm, work).run() for work in group["works"]]) + "\n")
            ANSWERS.flush()
            del llm


if __name__ == "__main__":
    main()
