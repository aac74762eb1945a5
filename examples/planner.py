"""A planner of batch jobs with deadlines: what runs where and when, and how many GPUs it takes.

Run ``python examples/planner.py [JOBS] [--kv-tokens M] [--steptime NAME|FILE] [-o FOLDER]``.

JOBS is a CSV file, ``name,backlog,deadline``: a backlog in any format that sortedf reads and the
seconds from now by which all of it must be answered. Without JOBS three made-up jobs are planned.

A job that would be late on a GPU of its own is split. Parts go, the earliest deadline first, to
the GPU that is free first. The number of GPUs is the least with which no part is late. With -o,
the plan of each part is written to FOLDER/NAME-PART.json, for ``sortedf run``.
"""

from __future__ import annotations

import argparse
import csv
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import sortedf
from sortedf.engine import Calibration, predict, read_step_times

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Job:
    """A backlog that must be answered by a deadline (seconds from now)."""

    name: str
    backlog: sortedf.Instance
    deadline: float


@dataclass(frozen=True)
class Part:
    """A share of a job that one GPU does, its plan, and how many seconds it is to take."""

    job: Job
    number: int
    plan: sortedf.Result
    seconds: float


def made_up(kv_tokens: int) -> list[Job]:
    """Give three jobs to try it with."""
    return [
        Job("chats", sortedf.generate("chat", 2000, seed=1, kv_tokens=kv_tokens), 90),
        Job("summaries", sortedf.generate("summaries", 1500, seed=2, kv_tokens=kv_tokens), 240),
        Job("nightly", sortedf.generate("mix", 3000, seed=3, kv_tokens=kv_tokens), 600),
    ]


def read_jobs(path: Path, kv_tokens: int) -> list[Job]:
    """Read a file of jobs; backlogs lie beside it."""
    with path.open(newline="") as file:
        return [
            Job(
                row["name"],
                sortedf.read_backlog(path.parent / row["backlog"], kv_tokens=kv_tokens),
                float(row["deadline"]),
            )
            for row in csv.DictReader(file)
        ]


def split(job: Job, parts: int) -> list[sortedf.Instance]:
    """Deal the requests of a job out, the smallest volume first, so that all parts are alike."""
    backlog = job.backlog
    prompt, output = backlog.prompt_tokens, backlog.output_tokens
    order = np.argsort(output * (2 * prompt + output + 1), kind="stable")
    return [
        sortedf.Instance(
            prompt[chosen],
            output[chosen],
            backlog.kv_tokens,
            ids=[backlog.ids[k] for k in chosen],
        )
        for chosen in (np.sort(order[part::parts]) for part in range(parts))
    ]


def plan_job(job: Job, step_times: Calibration) -> list[Part]:
    """Plan a job on as few GPUs as keep its deadline when they do nothing else."""
    count = 1
    while count <= len(job.backlog):
        parts = []
        for number, share in enumerate(split(job, count), start=1):
            plan = sortedf.solve(share, block_size=BLOCK_SIZE, bound=False)
            seconds = predict(plan, step_times).replayed.makespan
            parts.append(Part(job, number, plan, seconds))
        worst = max(part.seconds for part in parts)
        if worst <= job.deadline:
            return parts
        # Work is shared out evenly at best.
        count = max(count + 1, int(count * worst / job.deadline))
    raise SystemExit(f"{job.name}: not even a GPU for each request keeps {job.deadline:g} seconds")


Placed = tuple[Part, int, float]
"""A part, its GPU, and the second at which it begins."""


def place(parts: Sequence[Part], gpus: int) -> list[Placed]:
    """Give parts to GPUs: the earliest deadline first, to the one that is free first."""
    free = [(0.0, gpu) for gpu in range(1, gpus + 1)]
    placed = []
    for part in sorted(parts, key=lambda part: (part.job.deadline, -part.seconds)):
        begin, gpu = heapq.heappop(free)
        placed.append((part, gpu, begin))
        heapq.heappush(free, (begin + part.seconds, gpu))
    return placed


def plan_all(jobs: Sequence[Job], step_times: Calibration) -> tuple[int, list[Placed]]:
    """Find the fewest GPUs on which no job is late, and what each of them does."""
    parts = [part for job in jobs for part in plan_job(job, step_times)]
    for gpus in range(1, len(parts) + 1):
        placed = place(parts, gpus)
        if all(begin + part.seconds <= part.job.deadline for part, _, begin in placed):
            return gpus, placed
    raise AssertionError("a GPU for each part is enough")


def main() -> None:
    """Plan jobs and print who does what when."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="?", type=Path)
    parser.add_argument("--kv-tokens", type=int, default=100_000, help="KV budget of a GPU")
    parser.add_argument("--steptime", default="qwen3-8b-h100", help="how long its steps take")
    parser.add_argument("-o", dest="folder", type=Path, help="where plans are written")
    options = parser.parse_args()
    try:
        budget = options.kv_tokens
        jobs = made_up(budget) if options.jobs is None else read_jobs(options.jobs, budget)
        gpus, placed = plan_all(jobs, read_step_times(options.steptime))
    except (sortedf.SortedfError, OSError) as error:
        raise SystemExit(str(error)) from None

    print(f"{'job':12} {'part':>4} {'requests':>8} {'GPU':>4} {'begins':>8} {'ends':>8} {'due':>8}")
    for part, gpu, begin in placed:
        print(
            f"{part.job.name:12} {part.number:4} {len(part.plan.instance):8,} {gpu:4} "
            f"{begin:8,.1f} {begin + part.seconds:8,.1f} {part.job.deadline:8,.1f}"
        )
    print(f"{gpus} {'GPU is' if gpus == 1 else 'GPUs are'} enough")
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        for part, _, _ in placed:
            sortedf.write_plan(part.plan, options.folder / f"{part.job.name}-{part.number}.json")


if __name__ == "__main__":
    main()
