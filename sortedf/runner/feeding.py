"""Which jobs an engine is handed now: all that are left, or as many as fit to the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator

from sortedf.engine import EngineSettings
from sortedf.runner.engines import Job


def next_jobs(
    waiting: deque[Job], running: Collection[Job], settings: EngineSettings, *, chunks: bool
) -> Iterator[Job]:
    """Take out the jobs whose turn has come, in their order.

    Parameters
    ----------
    running
        Those that the engine has; what is handed over meanwhile has to appear in it.
    chunks
        Whether the largest memory of all that run, and its own, must fit at once. Where nothing
        runs, the first job is taken in any case.
    """
    free = settings.usable_blocks - sum(_blocks(job, settings) for job in running)
    while waiting:
        free -= _blocks(waiting[0], settings)
        if chunks and running and (free < 0 or len(running) == settings.max_num_seqs):
            return
        yield waiting.popleft()


def _blocks(job: Job, settings: EngineSettings) -> int:
    """Blocks that a job holds when it ends as predicted."""
    return -(-(len(job.prompt) + job.output_tokens - 1) // settings.block_size)
