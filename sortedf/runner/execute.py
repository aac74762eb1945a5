"""The loop of a run: jobs to the engine, its outcomes to lines of output and records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.engine.prediction import summary
from sortedf.engine.step_log import STEPS_FILE
from sortedf.errors import EngineError
from sortedf.runner.answers import Collector, error_line, refused
from sortedf.runner.attempt_records import AttemptRecords
from sortedf.runner.engines import Answer, Engine, Job
from sortedf.runner.folder import RunFolder
from sortedf.runner.jobs import Line, LineError, Work
from sortedf.runner.watch import Progress


@dataclass
class Executed:
    """What a start of a run did.

    Parameters
    ----------
    answers
        Times of each job that was answered, in order of completion, by name.
    interrupted
        Whether the user stopped it.
    died
        Why the engine died, if it did.
    """

    answers: list[tuple[str, float, float, int]] = field(default_factory=list)
    began: float = float("inf")
    interrupted: bool = False
    died: EngineError | None = None

    def take(self, answer: Answer) -> None:
        """Note an answer."""
        times = answer.times
        self.began = min(self.began, times.admitted)
        self.answers.append(
            (answer.job.name, times.first_token, times.last_token, times.preemptions)
        )

    def figures(self) -> dict[str, float | int]:
        """Give realized seconds, named as those of a prediction; empty without an answer.

        All jobs count from the moment at which the engine began with the first, when it had been
        given all.
        """
        if not self.answers:
            return {}
        first, last = (np.array([row[k] for row in self.answers]) - self.began for k in (1, 2))
        return _figures(first, last, sum(row[3] for row in self.answers))

    def predicted_figures(self, prediction: Mapping[str, Any]) -> dict[str, float | int]:
        """Give the same of what was predicted of the jobs that were answered."""
        by_name = {request["id"]: request for request in prediction["requests"]}
        rows = [by_name[name] for name, *_ in self.answers]
        if not rows:
            return {}
        first, last = (np.array([row[k] for row in rows]) for k in ("first_token", "completion"))
        return _figures(first, last, sum(row["preemptions"] for row in rows))


def _figures(
    first: npt.NDArray[np.float64], last: npt.NDArray[np.float64], preemptions: int
) -> dict[str, float | int]:
    return {
        "total_latency_seconds": float(last.sum()),
        **{
            f"{figure}_{measure}_seconds": value
            for measure, times in (("latency", last), ("ttft", first))
            for figure, value in summary(times).items()
        },
        "makespan_seconds": float(last.max()),
        "preemptions": preemptions,
    }


def refused_lines(
    engine: Engine, lines: Mapping[str, Line], jobs: Sequence[Job]
) -> list[LineError]:
    """Find lines that the engine refuses before anything is begun."""
    by_job = {place.name: line for line in lines.values() for place in line.places}
    errors: dict[str, LineError] = {}
    for job in jobs:
        refusal = engine.refuses(job)
        if refusal is not None:
            line = by_job[job.name]
            errors.setdefault(line.custom_id, refused(line, refusal, 400))
    return list(errors.values())


def write_errors(folder: RunFolder, errors: Sequence[LineError]) -> None:
    """Write the error records that do not stand in the folder yet."""
    for error in errors:
        if error.custom_id is None or error.custom_id not in folder.status:
            folder.append(error_line(error))


def execute(
    engine: Engine,
    work: Work,
    jobs: Sequence[Job],
    folder: RunFolder,
    *,
    model: str,
    meta: Mapping[str, Any],
    progress: Progress,
    stop: Callable[[], bool],
) -> Executed:
    """Do jobs and write the line of each request as its last answer comes.

    A failure of one request is a line of its own; the rest goes on.

    Parameters
    ----------
    jobs
        In the order of the plan, all the jobs of each line that is among them.
    model
        The name that answers give.
    meta
        What the attempt's ``meta.json`` says beside what the engine says.
    stop
        Asked after every step; once true, what runs is given up.

    Raises
    ------
    StorageError
        When a line cannot be written. What was written stays.
    """
    collector = Collector(work.lines, model)
    done = Executed()
    lines = failed = ended = tokens = 0
    told = {**engine.meta, **meta, "num_jobs": len(jobs)}
    with AttemptRecords(folder.attempt, told) as records:
        # An iterator that is not closed would go on in the engine.
        outcomes = engine.execute(jobs, steps=folder.attempt / STEPS_FILE)
        with closing(outcomes):  # type: ignore[type-var]
            try:
                for step in outcomes:
                    for outcome in step:
                        ended += 1
                        if isinstance(outcome, Answer):
                            tokens += outcome.output_tokens
                            done.take(outcome)
                            records.take(outcome)
                        else:
                            records.refused += 1
                        if (line := collector.take(outcome)) is not None:
                            folder.append(line)
                            lines += 1
                            failed += line["error"] is not None
                    progress(
                        jobs=ended, lines=lines, failed=failed, tokens=tokens, load=engine.load()
                    )
                    if stop() and ended < len(jobs):
                        done.interrupted = True
                        break
            except EngineError as error:
                done.died = error
    return done
