"""What an engine does before it is measured: its first steps are slower than those that follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sortedf.runner.engines import Engine, Job

REQUESTS, OUTPUT_TOKENS = 64, 64
"""Most requests of a warm-up, and most tokens of an answer."""


def warm_up(engine: Engine, jobs: Sequence[Job]) -> Mapping[str, int]:
    """Do requests like those to come, and throw the answers away.

    They are an even sample of the jobs. Prompts are as long, and backwards, so that prefix caching
    finds nothing of them later; outputs are short. Nothing of it is recorded.

    Returns
    -------
    told : mapping
        How many requests, and their prompt and output tokens.

    Raises
    ------
    EngineError
        When the engine dies of it.
    """
    stride = -(-len(jobs) // REQUESTS)
    chosen = [job for job in map(_short, jobs[::stride]) if engine.refuses(job) is None]
    for _ in engine.execute(chosen):
        pass
    return {
        "requests": len(chosen),
        "prompt_tokens": sum(len(job.prompt) for job in chosen),
        "output_tokens": sum(job.output_tokens for job in chosen),
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
