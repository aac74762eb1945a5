"""What an engine does before it is measured: its first steps are slower than those that follow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sortedf.runner.engines import Engine, Job

REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS = 300, 2**17, 128
"""Most requests of a round, about their prompt tokens, and most tokens of an answer."""

ROUNDS, GAIN = 5, 0.03
"""Most rounds, and by what share one must be faster than all before for another to follow."""


def warm_up(engine: Engine, jobs: Sequence[Job]) -> Mapping[str, int]:
    """Do requests like those to come, and throw the answers away.

    They are an even sample of the jobs, in rounds, each in another order, until a round is hardly
    faster than those before. Prompts are as long, and backwards, so that prefix caching finds
    nothing of them later; outputs are short. Nothing of it is recorded.

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
    sample = [job for job in map(_short, jobs[::stride]) if engine.refuses(job) is None]
    least, rounds = float("inf"), 0
    while sample and rounds < ROUNDS:
        order = np.random.default_rng(rounds).permutation(len(sample)).tolist()
        began = time.monotonic()
        shuffled = [replace(sample[k], place=place) for place, k in enumerate(order)]
        for _ in engine.execute(shuffled):
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
