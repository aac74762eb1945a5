"""The policy planned once more, in plain Python: every later step is looked at, one by one.

For engines whose token budget takes whatever waits: each prompt is computed in one step.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One request; ``place`` is its place in the plan, ``arrival`` in steps."""

    place: int
    prompt: int
    output: int
    predicted: int
    arrival: int


def admissions(
    jobs: list[Job], blocks: int, size: int, *, late: bool, lookahead: int = 1, seats: int = 10**9
) -> dict[int, int]:
    """Moment of the admission of each place: all steps take one unit of time.

    ``late``: seat and blocks are given back one call after the last token has been computed.
    """
    waiting = sorted(jobs, key=lambda job: job.place)
    running: list[tuple[Job, int]] = []  # with the moment of admission
    admitted: dict[int, int] = {}
    now = min(job.arrival for job in jobs)
    while waiting or running:
        running = [(job, since) for job, since in running if now < since + job.output + late]
        misfits = 0
        for job in [job for job in waiting if job.arrival <= now]:
            if len(running) == seats:
                break
            if fits([*running, (job, now)], now, blocks, size, late=late):
                running.append((job, now))
                admitted[job.place] = now
                waiting.remove(job)
            else:
                misfits += 1
                if misfits == lookahead:
                    break
        now += 1
    return admitted


def fits(running: list[tuple[Job, int]], now: int, blocks: int, size: int, *, late: bool) -> bool:
    """Whether the blocks suffice now, as they are held, and at every later step, as predicted."""
    ends = [since + job.predicted + late for job, since in running]
    for step in range(now, max(ends)):
        held = 0
        for (job, since), end in zip(running, ends, strict=True):
            if step < end:
                output = job.output if step == now else job.predicted
                slots = job.prompt + min(step - since, output - 1)
                held += -(-slots // size)
        if held > blocks:
            return False
    return True
