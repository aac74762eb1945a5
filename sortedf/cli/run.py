"""`sortedf run`: a plan executed on an engine, its answers in a folder."""

from __future__ import annotations

import json as json_library
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes
from sortedf.cli.interrupt import Interrupt
from sortedf.cli.run_options import Arguments, Serving, check_target
from sortedf.cli.run_progress import RunProgress
from sortedf.cli.run_setup import Setup, read_manifest
from sortedf.errors import EngineError, Fault, OptionError

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


@options.grouped
def run(
    plan: Annotated[
        str | None,
        typer.Argument(metavar="PLAN", help="Plan file; - is stdin.", show_default=False),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Argument(
            metavar="BATCH", help="OpenAI batch file that the plan is of.", show_default=False
        ),
    ] = None,
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="DIR", help="Folder of the run.", show_default=False
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Go on with the run in this folder.", show_default=False),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="--resume: also run again what was refused.")
    ] = False,
    serving: Serving,
    steptime: StepTimes = None,
    pace: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="replay: X times as fast as the engine would be.",
            show_default="at once",
        ),
    ] = None,
    settings: Engine,
    arguments: Arguments,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Execute a plan on an engine.

    Each request of the batch becomes one line of DIR/output.jsonl as soon as it is answered, or an
    error record; the rest goes on. --steptime predicts the run first and shows both. A run that was
    stopped goes on with --resume DIR, which needs no other argument.
    """
    check_target(output, resume)
    if retry_failed and resume is None:
        raise OptionError("--retry-failed is of --resume")
    if pace is not None and not 0 < pace < float("inf"):
        raise OptionError(f"--pace is {pace}; it must be above 0")
    if settings.policy is not None:
        raise OptionError("--policy follows from --handover in a run; leave it out")
    console = Console(quiet=quiet)
    before = {} if resume is None else read_manifest(resume)
    if resume is not None and plan is None:
        plan = str(Path(resume) / str(before.get("plan")))
    if plan is None:
        raise OptionError("PLAN is missing: a plan file (see sortedf solve -o)")
    if plan == batch == "-":
        raise OptionError("PLAN and BATCH cannot both be stdin")
    setup = Setup(
        chosen=serving.remembered(before),
        settings=settings if settings.given() else Engine(**before.get("settings", {})),
        arguments=arguments.given() or before.get("engine_arguments", {}),
        batch=before.get("batch") if batch is None else batch,
        steptime=before.get("steptime") if steptime is None else steptime,
        pace=pace,
        before=before,
        console=console,
    )
    folder = str(output if resume is None else resume)
    code, document = _Run(setup, folder, retry_failed, console).go(plan)
    if json:
        console.json(document)
    else:
        from sortedf.report import run_tables

        console.show(run_tables.run(document))
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True)
class _Run:
    """One start of a run."""

    setup: Setup
    folder: str
    retry_failed: bool
    console: Console

    def go(self, path: str) -> tuple[int, dict[str, Any]]:
        """Run; gives the exit code and what ``--json`` prints."""
        from sortedf.runner.execute import write_errors
        from sortedf.runner.jobs import too_long

        setup = self.setup
        step_times = setup.step_times()
        plan, data = setup.read_plan(path)
        engine_options = setup.engine_options(plan, step_times)
        work = setup.read_work(plan)
        context = setup.context()
        work = work.without(too_long(work.lines, context))
        self._list(work.errors)
        with ExitStack() as stack:
            folder = stack.enter_context(self._open(plan, path, data, work))
            for note in folder.notes:
                self.console.note(note)
            write_errors(folder, work.errors)
            jobs: list[Job] = []
            done, prediction = None, None
            if not work.lines.keys() <= folder.status.keys():
                engine = stack.enter_context(closing(self._start(engine_options, folder)))
                work, jobs = self._check(plan, engine, work, folder)
            if jobs:
                prediction = self._predict(jobs, step_times, engine, folder)
                done = self._execute(engine, work, jobs, folder, prediction)
            counts = folder.finish()
        return self._end(counts, done), self._document(counts, done, prediction, folder)

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

    def _open(self, plan: Plan, path: str, data: bytes, work: Work) -> RunFolder:
        from sortedf.runner.folder import RunFolder

        manifest = self.setup.manifest(plan, data)
        if self.setup.before:
            return RunFolder.resume(
                self.folder, manifest, inputs=work.inputs, retry_failed=self.retry_failed
            )
        name = "plan.json" if path == "-" else Path(path).name
        return RunFolder.create(
            self.folder, manifest, plan=data, plan_name=name, inputs=work.inputs
        )

    def _start(self, engine_options: EngineOptions, folder: RunFolder) -> StartedEngine:
        from sortedf.runner.start import start_engine

        name = self.setup.engine
        try:
            with self.console.status(f"starting {name}"):
                return start_engine(name, engine_options, folder.attempt / "engine.log")
        except EngineError:
            self._tell_how_to_resume()
            raise

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
        if (near := engine.meta.get("replayed_as")) is not None:
            self.console.note(str(near))
        self.console.note(
            f"predicted: mean latency {document['mean_latency_seconds']:,.2f} s, makespan "
            f"{document['makespan_seconds']:,.2f} s"
        )
        return document

    def _execute(
        self,
        engine: StartedEngine,
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
                engine,
                work,
                jobs,
                folder,
                model=(self.setup.names() or ["replay"])[0],
                meta={"handover": self.setup.chosen["handover"], "engine": self.setup.engine},
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
        parts.append(f"sortedf run --resume {self.folder} goes on")
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
