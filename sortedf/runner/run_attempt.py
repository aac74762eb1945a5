"""One start of a run: from what was prepared, over an engine that is started, to a result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortedf.errors import SHOWN_FAULTS, BudgetError, EngineError, Fault, OptionError
from sortedf.instances.files import write_whole
from sortedf.runner.checks import check_budget
from sortedf.runner.engines import Engine, Handover, Job
from sortedf.runner.execute import Executed, execute, refused_lines, write_errors
from sortedf.runner.folder import RunFolder
from sortedf.runner.folder_files import ENGINE_LOG
from sortedf.runner.jobs import LineError, Work, too_long
from sortedf.runner.predicted import PREDICTION, predict_jobs, prediction_document
from sortedf.runner.preparing import Prepared, batch_path, prepare, unidentifying
from sortedf.runner.run_options import RunOptions
from sortedf.runner.run_result import RunResult
from sortedf.runner.start import EngineOptions, start_engine
from sortedf.runner.warm_up import warm_up
from sortedf.runner.watch import Watch

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
        work = prepared.work
        self._list(work.errors, prepared.batch)
        with ExitStack() as stack:
            folder = stack.enter_context(self._open(prepared))
            for note in folder.notes:
                self.watch.note(note)
            write_errors(folder, work.errors)
            done, prediction = None, None
            if work.is_left(folder.status):
                with _taken_back(folder):
                    engine = stack.enter_context(start(folder.attempt / ENGINE_LOG))
                    work, jobs = self._check(prepared, engine, folder)
                    if jobs:
                        prediction = self._predict(jobs, prepared, engine, folder)
                        warmed_up_by = self._warm_up(engine, jobs)
                if jobs:
                    done = self._execute(engine, work, jobs, folder, prediction, warmed_up_by)
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
            # A batch that lies elsewhere now is found there from now on.
            moved = {} if prepared.batch in (None, "-") else {"batch": manifest["batch"]}
            manifest |= unidentifying(self.begun)
            return RunFolder.resume(
                self.folder, manifest, inputs=inputs, moved=moved, retry_failed=self.retry_failed
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
        context = engine.settings.max_model_len
        errors = too_long(prepared.work.lines, context)
        work = prepared.work.without(errors)
        jobs = work.jobs(folder.status, context)
        refused = refused_lines(engine, work.lines, jobs)
        self._list([*errors, *refused], prepared.batch)
        write_errors(folder, [*errors, *refused])
        work = work.without(refused)
        names = {place.name for line in work.lines.values() for place in line.places}
        return work, [job for job in jobs if job.name in names]

    def _warm_up(self, engine: Engine, jobs: Sequence[Job]) -> Mapping[str, int] | None:
        """Rehearse the jobs, if that is wanted; says by what, see :func:`warm_up`."""
        if not self.options.warms_up:
            return None
        with self.watch.status(f"warming {self.options.engine} up"):
            return warm_up(engine, jobs)

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
        warmed_up_by: Mapping[str, int] | None,
    ) -> Executed:
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


@contextmanager
def _taken_back(folder: RunFolder) -> Iterator[None]:
    """Undo a start that fails for what it was given, so that it can be given something else."""
    try:
        yield
    except (BudgetError, EngineError, OptionError) as error:
        folder.take_back(keep_log=isinstance(error, EngineError))
        raise
