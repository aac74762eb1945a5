"""Batches, plans and engines in memory, for the tests of the runner."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from batch_files import as_source

import sortedf
from sortedf.engine.settings import EngineSettings
from sortedf.errors import EngineError
from sortedf.instances.batch_entries import BatchEntries, Entry
from sortedf.instances.plan import Plan, read_plan
from sortedf.instances.plan_writing import write_plan
from sortedf.instances.source import Source
from sortedf.runner.engines import Answer, Job, Load, Outcome, Refusal, Times
from sortedf.runner.jobs import Work
from sortedf.runner.read_work import Reading, read_work


def plan_of(
    rows: Sequence[tuple[str, int, int]],
    folder: Path,
    *,
    kv_tokens: int = 10_000,
    skipped: Sequence[tuple[int, sortedf.Request]] = (),
) -> Plan:
    """Plan sequences given as (name, prompt tokens, output tokens); through a file, as users do."""
    ids, prompt, output = zip(*rows, strict=True)
    instance = sortedf.Instance(prompt, output, kv_tokens, ids=ids)
    path = folder / "plan.json"
    write_plan(sortedf.solve(instance, solver="svf", bound=False), path, skipped=skipped)
    return read_plan(path)


def rows_of(source: Source, prompt_tokens: int = 3) -> list[tuple[str, int, int]]:
    """Give every sequence of a batch, each prompt of so many tokens, as a planner would."""
    return [
        (name, prompt_tokens, entry.checked.output_limit or 5)
        for entry in BatchEntries().read(source)
        if isinstance(entry, Entry)
        for name in entry.sequences
    ]


def work_of(
    entries: Iterable[Any], folder: Path, *, plan: Plan | None = None, **reading: Any
) -> tuple[Work, list[str]]:
    """Read a batch beside a plan of all of it; the notes, too."""
    source = as_source(entries)
    notes: list[str] = []
    if plan is None:
        # A request that is always there, as a plan of nothing is none.
        plan = plan_of(rows_of(source), folder)
    options = Reading(**({"may_estimate": True} | reading))
    return read_work(plan, source, options, notes.append), notes


class FakeEngine:
    """Answers jobs in the order in which they come, one a step; says what it is told to say.

    Parameters
    ----------
    refuse
        Names of jobs that are refused before anything is begun.
    fail
        Names of jobs that end in a refusal.
    die_after
        How many jobs are answered before the engine dies.
    """

    meta: Mapping[str, Any] = {"model": "fake", "vllm_version": "0.32.0"}

    def __init__(
        self,
        refuse: Sequence[str] = (),
        fail: Sequence[str] = (),
        die_after: int | None = None,
        answer: Callable[[Job], Mapping[str, Any]] = lambda job: {},
    ) -> None:
        self.settings = EngineSettings(num_gpu_blocks=1000)
        self.refuse, self.fail, self.die_after, self.answer = refuse, fail, die_after, answer
        self.executed: list[Job] = []
        self.given_up = False

    def refuses(self, job: Job) -> Refusal | None:
        if job.name in self.refuse:
            return Refusal(job=job, code="too_odd", message="it is odd")
        return None

    def execute(
        self, jobs: Sequence[Job], *, steps: Path | None = None
    ) -> Iterator[Sequence[Outcome]]:
        self.given_up = True
        for number, job in enumerate(jobs):
            if number == self.die_after:
                raise EngineError("out of luck")
            self.executed.append(job)
            yield ()
            if job.name in self.fail:
                yield [Refusal(job=job, code="broke", message="it broke")]
                continue
            times = Times(1e9, 1.0, 1.0, 2.0, 2.0 + job.output_tokens - 1, 0)
            told: dict[str, Any] = {
                "text": f"text of {job.name}",
                "token_ids": [7] * job.output_tokens,
                "finish_reason": "length",
                "stop_reason": None,
                "logprobs": None,
            }
            yield [Answer(job=job, times=times, **{**told, **self.answer(job)})]
        self.given_up = False

    def load(self) -> Load:
        return Load(1, 0, 0.5, len(self.executed), 0)

    def close(self) -> None:
        pass


def output_of(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of an output file."""
    return [json.loads(line) for line in (folder / "output.jsonl").read_bytes().splitlines()]
