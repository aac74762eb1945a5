"""A run from plan to answers: the front of the runner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortedf import __version__
from sortedf.errors import SHOWN_FAULTS, Fault
from sortedf.instances.files import write_whole
from sortedf.runner.checks import check_budget
from sortedf.runner.engines import Engine, Handover, Job
from sortedf.runner.execute import Executed, execute, refused_lines, write_errors
from sortedf.runner.folder import Counts, RunFolder
from sortedf.runner.jobs import LineError, Work, too_long
from sortedf.runner.predicted import PREDICTION, predict_jobs, prediction_document
from sortedf.runner.preparing import (
    Prepared,
    batch_path,
    prepare,
    remembered_batch,
    unidentifying,
)
from sortedf.runner.run_identity import read_manifest
from sortedf.runner.run_options import RunOptions
from sortedf.runner.start import EngineOptions, start_engine
from sortedf.runner.warm_up import warm_up
from sortedf.runner.watch import Unwatched, Watch

RESULT_SCHEMA = "sortedf.run_result/1"


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What became of a start of a run.

    Attributes
    ----------
    folder
        The run folder; its ``output.jsonl`` holds the answers.
    attempt
        The records of this start.
    counts
        Requests of the whole run, by what became of them.
    done
        What this start did; ``None`` when nothing was left to do.
    prediction
        What was predicted of it before it began; ``None`` without step times.
    """

    folder: Path
    attempt: Path
    options: RunOptions
    counts: Counts
    done: Executed | None
    prediction: Mapping[str, Any] | None

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped."""
        return self.done is not None and self.done.interrupted

    @property
    def died(self) -> str | None:
        """Why the engine died, if it did."""
        return None if self.done is None or self.done.died is None else str(self.done.died)

    @property
    def realized(self) -> dict[str, float | int]:
        """Realized seconds of this start, named as those of a prediction."""
        return {} if self.done is None else self.done.figures()

    @property
    def predicted(self) -> dict[str, float | int] | None:
        """What was predicted of the sequences that were answered; ``None`` without step times."""
        if self.done is None or self.prediction is None:
            return None
        return self.done.predicted_figures(self.prediction)

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "schema": RESULT_SCHEMA,
            "version": __version__,
            "folder": str(self.folder),
            "attempt": self.attempt.name,
            "engine": self.options.engine,
            "handover": str(self.options.handover),
            "interrupted": self.interrupted,
            "died": self.died,
            **self.counts._asdict(),
            "sequences": 0 if self.done is None else len(self.done.answers),
            "realized": self.realized,
            "predicted": self.predicted,
        }


def run(
    plan: str | Path,
    batch: str | Path | None,
    folder: str | Path,
    options: RunOptions | None = None,
    *,
    watch: Watch | None = None,
) -> RunResult:
    """Execute a plan on an engine, every answer written as it comes.

    Parameters
    ----------
    plan
        Plan file.
    batch
        The OpenAI batch file that it is of; ``None`` for the plan alone, on the replay or with
        random prompts.
    folder
        Where to write; it is made, or is empty.
    options
        The engine, and how it answers; the replay by default.
    watch
        Is told how it goes, and can stop it.

    Raises
    ------
    InputError
        For files that cannot be read or written, and a batch that is not the plan's.
    StorageError
        When an answer cannot be written. What was written stays; :func:`resume` goes on.
    VerificationError
        When the plan does not hold.
    OptionError
        For options that do not go together, or that the engine does not take.
    BudgetError
        When the engine has less memory than the plan counts on.
    EngineError
        When the engine does not start. One that dies later is a result.
    """
    settled = (options or RunOptions()).settled()
    execution = Execution(settled, watch or Unwatched(), str(folder))
    return execution.go(str(plan), None if batch is None else str(batch))


def resume(
    folder: str | Path,
    options: RunOptions | None = None,
    *,
    plan: str | Path | None = None,
    batch: str | Path | None = None,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> RunResult:
    """Go on with a run that was stopped, whatever stopped it.

    Parameters
    ----------
    folder
        The run folder.
    options, plan, batch
        ``None`` for what the run was begun with. Others that would change answers are refused.
    retry_failed
        Also run again what was refused.
    watch
        Is told how it goes, and can stop it.

    Raises
    ------
    InputError
        When there is no run, another process is at work on it, or it was begun with something else.
    StorageError, VerificationError, OptionError, BudgetError, EngineError
        See :func:`run`.
    """
    begun = read_manifest(folder)
    execution = Execution(
        (options or RunOptions.remembered(begun)).settled(),
        watch or Unwatched(),
        str(folder),
        begun=begun,
        retry_failed=retry_failed,
    )
    path = Path(folder) / begun["plan"] if plan is None else plan
    found = remembered_batch(folder, begun) if batch is None else str(batch)
    return execution.go(str(path), found)


Start = Callable[[Path], AbstractContextManager[Engine]]
"""Gives an engine. The path is where its log may go."""


@dataclass(frozen=True)
class Execution:
    """One start of a run.

    Parameters
    ----------
    folder
        Of the run.
    begun
        The manifest of a run that is resumed.
    retry_failed
        Of a run that is resumed: also run again what was refused.
    """

    options: RunOptions
    watch: Watch
    folder: str
    begun: Mapping[str, Any] | None = None
    retry_failed: bool = False

    def go(self, plan: str, batch: str | None) -> RunResult:
        """Run a plan, on an engine of its own."""
        prepared = prepare(plan, batch, self.options, self.watch)

        def start(log: Path) -> AbstractContextManager[Engine]:
            return self.started(prepared.engine_options, log)

        return self.execute(prepared, start)

    def execute(self, prepared: Prepared, start: Start) -> RunResult:
        """Run a plan on an engine that is started when there is something to do."""
        work, context = prepared.work, prepared.context
        self._list(work.errors, prepared.batch)
        with ExitStack() as stack:
            folder = stack.enter_context(self._open(prepared))
            for note in folder.notes:
                self.watch.note(note)
            write_errors(folder, work.errors)
            jobs = work.jobs(folder.status, context)
            done, prediction = None, None
            if jobs:
                engine = stack.enter_context(start(folder.attempt / "engine.log"))
                work, jobs = self._check(prepared, engine, folder)
            if jobs:
                prediction = self._predict(jobs, prepared, engine, folder)
                done = self._execute(engine, work, jobs, folder, prediction)
            counts = folder.finish()
        return RunResult(
            folder=folder.path,
            attempt=folder.attempt,
            options=self.options,
            counts=counts,
            done=done,
            prediction=prediction,
        )

    @contextmanager
    def started(self, options: EngineOptions, log: Path) -> Iterator[Engine]:
        """Start an engine; closed in the end."""
        with self.watch.status(f"starting {self.options.engine}"):
            engine = start_engine(self.options.engine, options, log)
        with closing(engine):
            yield engine

    def _list(self, errors: Sequence[LineError], batch: str | None) -> None:
        """Say which lines cannot run."""
        for error in sorted(errors, key=lambda error: error.line or 0)[:SHOWN_FAULTS]:
            name = "" if error.custom_id is None else f"{error.custom_id!r}: "
            fault = Fault(str(batch or self.folder), error.line, name + error.message)
            self.watch.note(str(fault))
        if errors:
            more = len(errors) - SHOWN_FAULTS
            rest = f" ({more:,} more)" if more > 0 else ""
            noun = "request cannot" if len(errors) == 1 else "requests cannot"
            self.watch.note(f"{len(errors):,} {noun} run{rest}; an error record each")

    def _open(self, prepared: Prepared) -> RunFolder:
        """Make the folder, or open the one of a run that is resumed."""
        inputs = prepared.work.inputs
        manifest = {
            "plan_sha256": hashlib.sha256(prepared.data).hexdigest(),
            "instance_sha256": prepared.plan.instance_sha256,
            **self.options.to_dict(),
            "batch": batch_path(prepared.batch),
        }
        if self.begun is not None:
            manifest |= unidentifying(self.begun)
            return RunFolder.resume(
                self.folder, manifest, inputs=inputs, retry_failed=self.retry_failed
            )
        return RunFolder.create(
            self.folder,
            manifest,
            plan=prepared.data,
            plan_name=prepared.plan_name,
            inputs=inputs,
        )

    def _check(
        self, prepared: Prepared, engine: Engine, folder: RunFolder
    ) -> tuple[Work, list[Job]]:
        """Hold plan and requests against the engine as it was started."""
        check_budget(prepared.plan, engine.settings, self.watch.note)
        work, context = prepared.work, engine.settings.max_model_len
        errors = too_long(work.lines, context)
        jobs = work.without(errors).jobs(folder.status, context)
        errors += refused_lines(engine, work.lines, jobs)
        work = work.without(errors)
        self._list(errors, prepared.batch)
        write_errors(folder, errors)
        return work, work.jobs(folder.status, context) if errors else jobs

    def _predict(
        self, jobs: Sequence[Job], prepared: Prepared, engine: Engine, folder: RunFolder
    ) -> dict[str, Any] | None:
        """Predict the run and put that into its folder before it begins."""
        step_times = prepared.step_times
        if step_times is None:
            return None
        if self.options.handover == Handover.CHUNKS:
            self.watch.note("no prediction: chunks are handed over by when answers end")
            return None
        with self.watch.status("replaying the plan on the engine"):
            document = prediction_document(predict_jobs(jobs, step_times, engine.settings), jobs)
        document |= {"steptime_file": self.options.steptime, "steptime": step_times.to_dict()}
        text = json.dumps(document, allow_nan=False)
        write_whole(folder.attempt / PREDICTION, [text.encode()])
        if (near := engine.meta.get("replayed_as")) is not None:
            self.watch.note(str(near))
        self.watch.note(
            f"predicted: mean latency {document['mean_latency_seconds']:,.2f} s, makespan "
            f"{document['makespan_seconds']:,.2f} s"
        )
        return document

    def _execute(
        self,
        engine: Engine,
        work: Work,
        jobs: Sequence[Job],
        folder: RunFolder,
        prediction: dict[str, Any] | None,
    ) -> Executed:
        warmed_up_by = None
        if self.options.warms_up:
            with self.watch.status(f"warming {self.options.engine} up"):
                warmed_up_by = warm_up(engine, jobs)
        requests = [] if prediction is None else prediction["requests"]
        with self.watch.progress(
            jobs=len(jobs),
            tokens=sum(job.output_tokens for job in jobs),
            predicted=[request["completion"] for request in requests],
        ) as progress:
            return execute(
                engine,
                work,
                jobs,
                folder,
                model=(self.options.names or ["replay"])[0],
                meta={
                    "handover": str(self.options.handover),
                    "engine": self.options.engine,
                    "warm_up": warmed_up_by,
                },
                progress=progress,
                stop=self.watch.stop,
            )
