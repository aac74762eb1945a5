"""Run a backlog by its plan on vLLM with the engine in a process of its own, on the CPU.

Runs in the environment of vLLM, not in the project's:

    python drive_own_process.py < work.json > answer.json

The work is a JSON object on a line: ``prompt``, ``output``, ``predicted``, ``priorities`` (places
in the plan), ``settings`` (names of vLLM), and ``steps``, the file to which the engine records its
steps. The answer: of each request its ``admitted``, ``first`` and ``last`` token, seconds by the
engine's clock, and ``preemptions``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

os.environ.update(
    OMP_NUM_THREADS="1",
    HF_HUB_OFFLINE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_LOGGING_LEVEL="ERROR",
)
# What the engine prints belongs to stderr; the answer goes to what was stdout.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

from tiny_model import write_model  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

from sortedf.runner.scheduler_settings import SchedulerSettings, Told  # noqa: E402


def main() -> None:
    """Run the backlog."""
    work = json.loads(sys.stdin.readline())
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, context=1 << 14, vocabulary=1024)
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="float32",
            enforce_eager=True,
            kv_cache_memory_bytes=1 << 26,
            enable_prefix_caching=False,
            disable_log_stats=False,
            scheduler_cls="sortedf.runner.vllm_scheduler.PlannedScheduler",
            additional_config=SchedulerSettings(steps_by_request=True).additional_config(),
            **work["settings"],
        )
        # Paused, so that the first request does not start before the last is there.
        llm.sleep(level=0, mode="keep")
        rows = zip(
            work["prompt"], work["output"], work["predicted"], work["priorities"], strict=True
        )
        prompts, sampling = [], []
        for prompt, output, predicted, place in rows:
            told = Told(place=place, output_tokens=predicted, steps=work["steps"])
            prompts.append({"prompt_token_ids": list(range(1, prompt + 1))})
            sampling.append(
                SamplingParams(
                    max_tokens=output,
                    ignore_eos=True,
                    detokenize=False,
                    extra_args=told.extra_args(),
                )
            )
        llm.enqueue(prompts, sampling, use_tqdm=False)
        llm.wake_up(tags=["scheduling"])
        answers = llm.wait_for_completion(use_tqdm=False)
        metrics = [answer.metrics for answer in sorted(answers, key=lambda a: int(a.request_id))]
        answer = {
            "admitted": [m.scheduled_ts for m in metrics],
            "first": [m.first_token_ts for m in metrics],
            "last": [m.last_token_ts for m in metrics],
            "preemptions": [m.num_preemptions for m in metrics],
        }
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()
        # Read while the engine lives: all is written when nothing is left to do.
        sys.stdin.read()


if __name__ == "__main__":
    main()
