"""A plan executed into a run folder: what `sortedf run` does, and `sortedf validate --against`."""

from __future__ import annotations

import json as json_library
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sortedf.cli.console import Console
from sortedf.cli.interrupt import Interrupt
from sortedf.cli.run_progress import RunProgress
from sortedf.cli.run_setup import Setup
from sortedf.errors import EngineError, Fault

if TYPE_CHECKING:
    from sortedf.engine import Calibration
    from sortedf.instances import Plan
    from sortedf.runner.engines import Engine as StartedEngine
    from sortedf.runner.engines import Job
    from sortedf.runner.execute import Executed
    from sortedf.runner.folder import Counts, RunFolder
    from sortedf.runner.jobs import LineError, Work
    from sortedf.runner.start import EngineOptions

RESULT_SCHEMA = "sortedf.run_result/1"
SOME_FAILED, INTERRUPTED = 7, 130


class PlanFile(NamedTuple):
    """A plan and the file that it stands in."""

    plan: Plan
    data: bytes
    name: str


class Started(NamedTuple):
    """An engine, and what it was warmed up by; ``None`` when it was not."""

    engine: StartedEngine
    warm_up: Mapping[str, int] | None


Start = Callable[[Path, "Sequence[Job]"], AbstractContextManager[Started]]
"""Gives an engine for jobs. The path is where its log may go."""


@dataclass(frozen=True)
class Execution:
    """One start of a run.

    Parameters
    ----------
    folder
        Of the run.
    retry_failed
        Of a run that is resumed: also run again what was refused.
    again
        The command that goes on when this is stopped; resuming the folder when left out.
    """

    setup: Setup
    folder: str
    console: Console
    retry_failed: bool = False
    again: str | None = None

    def go(self, path: str) -> tuple[int, dict[str, Any]]:
        """Run the plan in a file; gives the exit code and what ``--json`` prints."""
        setup = self.setup
        step_times = setup.step_times()
        plan, data = setup.read_plan(path)
        options = setup.engine_options(plan, step_times)
        work = setup.read_work(plan)
        name = "plan.json" if path == "-" else Path(path).name

        def start(log: Path, jobs: Sequence[Job]) -> AbstractContextManager[Started]:
            return self.started(options, log, jobs)

        return self.execute(PlanFile(plan, data, name), work, step_times, start)

    def execute(
        self, file: PlanFile, work: Work, step_times: Calibration | None, start: Start
    ) -> tuple[int, dict[str, Any]]:
        """Run a plan on an engine that is started when there is something to do."""
        from sortedf.runner.execute import write_errors
        from sortedf.runner.jobs import too_long

        context = self.setup.context()
        work = work.without(too_long(work.lines, context))
        self._list(work.errors)
        with ExitStack() as stack:
            folder = stack.enter_context(self._open(file, work))
            for note in folder.notes:
                self.console.note(note)
            write_errors(folder, work.errors)
            jobs = work.jobs(folder.status, context)
            done, prediction = None, None
            if jobs:
                started = stack.enter_context(start(folder.attempt / "engine.log", jobs))
                work, jobs = self._check(file.plan, started.engine, work, folder)
            if jobs:
                prediction = self._predict(jobs, step_times, started.engine, folder)
                done = self._execute(started, work, jobs, folder, prediction)
            counts = folder.finish()
        return self._end(counts, done), self._document(counts, done, prediction, folder)

    @contextmanager
    def started(self, options: EngineOptions, log: Path, jobs: Sequence[Job]) -> Iterator[Started]:
        """Start an engine, and warm it up if that is wanted; closed in the end."""
        from sortedf.runner.start import start_engine
        from sortedf.runner.warm_up import warm_up

        name = self.setup.engine
        with ExitStack() as stack:
            try:
                with self.console.status(f"starting {name}"):
                    engine = start_engine(name, options, log)
                stack.callback(engine.close)
                told = None
                if self.setup.warms_up:
                    with self.console.status(f"warming {name} up"):
                        told = warm_up(engine, jobs)
            except EngineError:
                self._tell_how_to_resume()
                raise
            yield Started(engine, told)

    def _list(self, errors: Sequence[LineError]) -> None:
        """Say which lines cannot run."""
        from sortedf.errors import SHOWN_FAULTS

        for error in sorted(errors, key=lambda error: error.line or 0)[:SHOWN_FAULTS]:
            name = "" if error.custom_id is None else f"{error.custom_id!r}: "
            fault = Fault(str(self.setup.batch or self.folder), error.line, name + error.message)
            self.console.note(str(fault))
        if errors:
            more = len(errors) - SHOWN_FAULTS
            rest = f" ({more:,} more)" if more > 0 else ""
            noun = "request cannot" if len(errors) == 1 else "requests cannot"
            self.console.note(f"{len(errors):,} {noun} run{rest}; an error record each")

    def _open(self, file: PlanFile, work: Work) -> RunFolder:
        from sortedf.runner.folder import RunFolder

        manifest = self.setup.manifest(file.plan, file.data)
        if self.setup.before:
            return RunFolder.resume(
                self.folder, manifest, inputs=work.inputs, retry_failed=self.retry_failed
            )
        return RunFolder.create(
            self.folder, manifest, plan=file.data, plan_name=file.name, inputs=work.inputs
        )

    def _check(
        self, plan: Plan, engine: StartedEngine, work: Work, folder: RunFolder
    ) -> tuple[Work, list[Job]]:
        """Hold plan and requests against the engine as it was started."""
        from sortedf.runner.checks import check_budget
        from sortedf.runner.execute import refused_lines, write_errors
        from sortedf.runner.jobs import too_long

        check_budget(plan, engine.settings, self.console.note)
        context = engine.settings.max_model_len
        errors = too_long(work.lines, context)
        jobs = work.without(errors).jobs(folder.status, context)
        errors += refused_lines(engine, work.lines, jobs)
        work = work.without(errors)
        self._list(errors)
        write_errors(folder, errors)
        return work, work.jobs(folder.status, context) if errors else jobs

    def _predict(
        self,
        jobs: Sequence[Job],
        step_times: Calibration | None,
        engine: StartedEngine,
        folder: RunFolder,
    ) -> dict[str, Any] | None:
        """Predict the run and put that into its folder before it begins."""
        if step_times is None:
            return None
        if self.setup.chosen["handover"] == "chunks":
            self.console.note("no prediction: chunks are handed over by when answers end")
            return None
        from sortedf.instances.files import write_whole
        from sortedf.runner.predicted import predict_jobs, prediction_document

        with self.console.status("replaying the plan on the engine"):
            document = prediction_document(predict_jobs(jobs, step_times, engine.settings), jobs)
        document |= {"steptime_file": self.setup.steptime, "steptime": step_times.to_dict()}
        text = json_library.dumps(document, allow_nan=False)
        write_whole(folder.attempt / "prediction.json", [text.encode()])
        self.console.note(
            f"predicted: mean latency {document['mean_latency_seconds']:,.2f} s, makespan "
            f"{document['makespan_seconds']:,.2f} s"
        )
        return document

    def _execute(
        self,
        started: Started,
        work: Work,
        jobs: Sequence[Job],
        folder: RunFolder,
        prediction: dict[str, Any] | None,
    ) -> Executed:
        from sortedf.runner.execute import execute

        requests = [] if prediction is None else prediction["requests"]
        progress = RunProgress(
            self.console,
            jobs=len(jobs),
            tokens=sum(job.output_tokens for job in jobs),
            predicted=[request["completion"] for request in requests],
        )
        with Interrupt() as interrupt, progress:
            return execute(
                started.engine,
                work,
                jobs,
                folder,
                model=(self.setup.names() or ["replay"])[0],
                meta={
                    "handover": self.setup.chosen["handover"],
                    "engine": self.setup.engine,
                    "warm_up": started.warm_up,
                },
                progress=progress,
                stop=lambda: interrupt.pressed,
            )

    def _end(self, counts: Counts, done: Executed | None) -> int:
        """Say what there is to say at the end, and give the exit code."""
        stopped = done is not None and (done.interrupted or done.died is not None)
        if stopped:
            self._tell_how_to_resume(counts)
        if done is not None and done.died is not None:
            self.console.error(f"the engine died: {done.died}")
            return 1
        if done is not None and done.interrupted:
            return INTERRUPTED
        return SOME_FAILED if counts.failed or counts.not_run else 0

    def _tell_how_to_resume(self, counts: Counts | None = None) -> None:
        parts = []
        if counts is not None:
            parts = [f"{n:,} {name.replace('_', ' ')}" for name, n in counts._asdict().items()]
        parts.append(f"{self.again or f'sortedf run --resume {self.folder}'} goes on")
        self.console.note("; ".join(parts))

    def _document(
        self,
        counts: Counts,
        done: Executed | None,
        prediction: dict[str, Any] | None,
        folder: RunFolder,
    ) -> dict[str, Any]:
        from sortedf import __version__

        predicted = None
        if done is not None and prediction is not None:
            predicted = done.predicted_figures(prediction)
        return {
            "schema": RESULT_SCHEMA,
            "version": __version__,
            "folder": self.folder,
            "attempt": folder.attempt.name,
            "engine": self.setup.engine,
            "handover": self.setup.chosen["handover"],
            "interrupted": done is not None and done.interrupted,
            "died": None if done is None or done.died is None else str(done.died),
            **counts._asdict(),
            "sequences": 0 if done is None else len(done.answers),
            "realized": {} if done is None else done.figures(),
            "predicted": predicted,
        }
