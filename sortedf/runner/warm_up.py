"""What an engine does before it is measured: its first steps are slower than those that follow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sortedf.runner.engines import Engine, Job

REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS = 300, 2**17, 128
"""Most requests of a round, about their prompt tokens, and most tokens of an answer."""

ROUNDS, GAIN = 5, 0.03
"""Most rounds, and by what share one must be faster than all before for another to follow."""


def warm_up(engine: Engine, jobs: Sequence[Job]) -> Mapping[str, int]:
    """Rehearse what is to come, and throw the answers away.

    Done is an even sample of the jobs, in their order, in rounds until one is hardly faster than
    those before: what an engine does for the first time, it does slowly, down to the very sizes of
    its steps. Prompts are as long, and backwards, so that prefix caching finds nothing of them
    later; outputs are cut. Nothing of it is recorded.

    Returns
    -------
    told : mapping
        How many rounds, and the requests, prompt and output tokens of each.

    Raises
    ------
    EngineError
        When the engine dies of it.
    """
    prompts = sum(len(job.prompt) for job in jobs)
    stride = max(-(-len(jobs) // REQUESTS), -(-prompts // PROMPT_TOKENS))
    short = [job for job in map(_short, jobs[::stride]) if engine.refuses(job) is None]
    sample = [replace(job, place=place) for place, job in enumerate(short)]
    least, rounds = float("inf"), 0
    while sample and rounds < ROUNDS:
        began = time.monotonic()
        for _ in engine.execute(sample):
            pass
        took = time.monotonic() - began
        rounds += 1
        if took > (1 - GAIN) * least:
            break
        least = took
    return {
        "rounds": rounds,
        "requests": len(sample),
        "prompt_tokens": sum(len(job.prompt) for job in sample),
        "output_tokens": sum(job.output_tokens for job in sample),
    }


def _short(job: Job) -> Job:
    tokens = min(job.output_tokens, int(job.sampling["max_tokens"]), OUTPUT_TOKENS)
    return Job(
        index=job.index,
        name=f"warm-up {job.index}",
        place=job.place,
        prompt=job.prompt[::-1],
        output_tokens=tokens,
        sampling={
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "detokenize": False,
        },
    )
