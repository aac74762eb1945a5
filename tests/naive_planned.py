"""The policy planned once more, in plain Python: every later step is looked at, one by one.

For engines whose token budget takes whatever waits: each prompt is computed in one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st


@dataclass(frozen=True)
class Job:
    """One request; ``place`` is its place in the plan, ``arrival`` in steps."""

    place: int
    prompt: int
    output: int
    predicted: int
    arrival: int


class TwinCase(NamedTuple):
    """Jobs, by position, and the engine on which they are planned."""

    jobs: list[Job]
    blocks: int
    size: int
    late: bool
    lookahead: int
    seats: int

    def admissions(self) -> dict[int, int]:
        """Give what :func:`admissions` gives for it."""
        return admissions(
            self.jobs,
            self.blocks,
            self.size,
            late=self.late,
            lookahead=self.lookahead,
            seats=self.seats,
        )


@st.composite
def twin_cases(draw: st.DrawFn, *, together_if_late: bool = False) -> TwinCase:
    """Draw jobs none of which outlives its prediction, on tight engines.

    ``together_if_late``: all arrive at once where blocks are given back late.
    """
    n = draw(st.integers(1, 12))
    size = draw(st.sampled_from([1, 2, 3, 8, 16]))
    late = draw(st.booleans())
    lookahead = draw(st.sampled_from([1, 2, 4]))
    seats = draw(st.sampled_from([2, 100]))
    lengths = st.lists(st.integers(1, 40), min_size=n, max_size=n)
    prompt, output = draw(lengths), draw(lengths)
    spare = draw(st.lists(st.sampled_from([0, 0, 1, 5, 30]), min_size=n, max_size=n))
    predicted = [o + more for o, more in zip(output, spare, strict=True)]
    place = draw(st.permutations(range(n)))
    arrival = [0] * n if late and together_if_late else draw(lengths)
    least = max(-(-(p + o) // size) for p, o in zip(prompt, predicted, strict=True))
    blocks = least + draw(st.integers(0, 2 * least))
    jobs = [Job(*fields) for fields in zip(place, prompt, output, predicted, arrival, strict=True)]
    return TwinCase(jobs, blocks, size, late, lookahead, seats)


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
