"""`sortedf run`: a plan executed on an engine, its answers in a folder."""

from __future__ import annotations

import hashlib
import json as json_library
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes, read_step_times
from sortedf.cli.interrupt import Interrupt
from sortedf.cli.run_options import Arguments, Serving, check_target
from sortedf.cli.run_progress import RunProgress
from sortedf.errors import EngineError, Fault, InputError, OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.engine import Calibration
    from sortedf.instances import Plan, Source
    from sortedf.runner.engines import Engine as StartedEngine
    from sortedf.runner.engines import Job
    from sortedf.runner.execute import Executed
    from sortedf.runner.folder import Counts, RunFolder
    from sortedf.runner.jobs import LineError, Work
    from sortedf.runner.start import EngineOptions

SCHEMA, RESULT_SCHEMA = "sortedf.run/1", "sortedf.run_result/1"
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
    before = {} if resume is None else _manifest(resume)
    if resume is not None and plan is None:
        plan = str(Path(resume) / str(before.get("plan")))
    if plan is None:
        raise OptionError("PLAN is missing: a plan file (see sortedf solve -o)")
    if plan == batch == "-":
        raise OptionError("PLAN and BATCH cannot both be stdin")
    run = _Run(
        folder=str(output if resume is None else resume),
        resume=resume is not None,
        retry_failed=retry_failed,
        chosen=serving.remembered(before),
        settings=settings if settings.given() else Engine(**before.get("settings", {})),
        arguments=arguments.given() or before.get("engine_arguments", {}),
        batch=batch if batch is not None else before.get("batch"),
        steptime=steptime if steptime is not None else before.get("steptime"),
        pace=pace,
        before=before,
        console=console,
    )
    code, document = run.go(plan)
    if json:
        console.json(document)
    else:
        from sortedf.report import run_tables

        console.show(run_tables.run(document))
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One call of the command, its options settled."""

    folder: str
    resume: bool
    retry_failed: bool
    chosen: dict[str, Any]
    settings: Engine
    arguments: dict[str, Any]
    batch: str | None
    steptime: str | None
    pace: float | None
    before: dict[str, Any]
    console: Console

    def go(self, path: str) -> tuple[int, dict[str, Any]]:
        """Run; gives the exit code and what ``--json`` prints."""
        from sortedf.runner.execute import write_errors
        from sortedf.runner.jobs import too_long

        step_times = None if self.steptime is None else read_step_times(self.steptime)
        plan, data = self._read_plan(path)
        engine_options = self._engine_options(plan, step_times)
        work = self._read_work(plan)
        context = engine_options.settings.get("max_model_len")
        work = self._leave_out(work, too_long(work.lines, context), told=len(work.errors))
        with ExitStack() as stack:
            folder = stack.enter_context(self._open(plan, path, data, work))
            for note in folder.notes:
                self.console.note(note)
            write_errors(folder, work.errors)
            jobs = work.jobs(folder.status, context)
            done, prediction = None, None
            if jobs:
                engine = self._start(engine_options, folder)
                stack.enter_context(closing(engine))
                work, jobs = self._check(plan, engine, work, folder)
            if jobs:
                prediction = self._predict(jobs, step_times, engine, folder)
                done = self._execute(engine, work, jobs, folder, prediction)
            counts = folder.finish()
        return self._end(counts, done), self._document(counts, done, prediction, folder)

    def _read_plan(self, path: str) -> tuple[Plan, bytes]:
        """Read and verify a plan; give its file as it is, too."""
        from sortedf.instances import open_source, read_plan
        from sortedf.solvers import check_plan

        with self.console.status(f"reading {path}"):
            source = open_source(path)
            plan = read_plan(source)
            check = check_plan(plan)
        if not check.ok:
            lines = [*check.mismatches, *map(str, check.report.violations)]
            raise VerificationError(
                [f"{plan.source}: {line}" for line in lines],
                check.report.total + len(check.mismatches),
            )
        if any(plan.release):
            self.console.note("the plan has releases; a run gives everything to the engine at once")
        return plan, source.data if path == "-" else Path(path).read_bytes()

    def _engine_options(self, plan: Plan, step_times: Calibration | None) -> EngineOptions:
        from sortedf.engine import Calibration
        from sortedf.runner.engines import Handover
        from sortedf.runner.replayed import ONE_SECOND
        from sortedf.runner.start import EngineOptions, check_engine, context_of, tokenizer_of

        model, handover = self.chosen["model"], self.chosen["handover"]
        if handover not in tuple(Handover):
            raise OptionError(
                f"--handover is {handover!r}; it must be one of {', '.join(Handover)}"
            )
        settings = self.settings.settings(step_times or Calibration(model=ONE_SECOND))
        context = context_of(model)
        if context is not None:
            settings.setdefault("max_model_len", context)
        chosen = EngineOptions(
            model=model,
            tokenizer=self.chosen["tokenizer"] or tokenizer_of(model),
            handover=Handover(handover),
            settings=settings,
            engine_arguments=self.arguments,
            kv_tokens=plan.kv_tokens,
            block_size=plan.block_size,
            step_time=None if step_times is None else step_times.model,
            pace=self.pace,
            seed=self.chosen["seed"],
        )
        check_engine(self.chosen["engine"], chosen)
        return chosen

    def _read_work(self, plan: Plan) -> Work:
        """Read the batch, or make the requests of the plan alone."""
        from sortedf.instances import open_source
        from sortedf.runner import jobs
        from sortedf.runner.start import tokenizer_of, vocabulary_of

        model, replay = self.chosen["model"], self.chosen["engine"] == "replay"
        if self.batch is None:
            if not self.chosen["random_prompts"]:
                if replay:
                    return jobs.work_of_plan(plan, jobs.planned_prompt)
                raise OptionError(
                    "BATCH is missing: the batch file of the plan; --random-prompts runs prompts "
                    "of the planned lengths"
                )
            vocabulary = vocabulary_of(model)
            if vocabulary is None:
                raise OptionError(
                    "--random-prompts needs --model with a config.json that has vocab_size"
                )
            return jobs.work_of_plan(plan, jobs.random_prompts(self.chosen["seed"], vocabulary))
        if self.chosen["random_prompts"]:
            raise OptionError("--random-prompts stands for a BATCH; leave one of them out")
        reading = jobs.Reading(
            tokenizer=self.chosen["tokenizer"] or tokenizer_of(model),
            models=() if self.chosen["any_model"] else self._names(),
            may_estimate=replay,
        )
        with self.console.status(f"reading {self.batch}"):
            return jobs.read_work(plan, _batch(open_source(self.batch)), reading, self.console.note)

    def _names(self) -> list[str]:
        """Give the names that bodies may call the model by."""
        model = self.chosen["model"]
        if names := self.chosen["served_model_name"]:
            return list(names)
        return [] if model is None else list(dict.fromkeys([model, Path(model).resolve().name]))

    def _leave_out(self, work: Work, errors: Sequence[LineError], told: int = 0) -> Work:
        """Take lines that cannot run out of the work, and list them, and ``told`` others."""
        from sortedf.errors import SHOWN_FAULTS

        work = work.without(errors)
        new = work.errors[len(work.errors) - len(errors) - told :]
        for error in new[:SHOWN_FAULTS]:
            name = "" if error.custom_id is None else f"{error.custom_id!r}: "
            self.console.note(str(Fault(str(self.batch), error.line, name + error.message)))
        if new:
            more = len(new) - SHOWN_FAULTS
            rest = f" ({more:,} more)" if more > 0 else ""
            noun = "request cannot" if len(new) == 1 else "requests cannot"
            self.console.note(f"{len(new):,} {noun} run{rest}; an error record each")
        return work

    def _open(self, plan: Plan, path: str, data: bytes, work: Work) -> RunFolder:
        from sortedf.runner.folder import RunFolder

        manifest = {
            "schema": SCHEMA,
            "plan_sha256": hashlib.sha256(data).hexdigest(),
            "instance_sha256": plan.instance_sha256,
            **self.chosen,
            "settings": self.settings.given(),
            "engine_arguments": self.arguments,
            # Where things lay and how they are timed changes no answer.
            "batch": None if self.batch is None else str(Path(self.batch).resolve()),
            "steptime": self.steptime,
        }
        if self.resume:
            manifest |= {key: self.before.get(key) for key in ("batch", "steptime")}
            return RunFolder.resume(
                self.folder, manifest, inputs=work.inputs, retry_failed=self.retry_failed
            )
        name = "plan.json" if path == "-" else Path(path).name
        return RunFolder.create(
            self.folder, manifest, plan=data, plan_name=name, inputs=work.inputs
        )

    def _start(self, engine_options: EngineOptions, folder: RunFolder) -> StartedEngine:
        from sortedf.runner.start import start_engine

        name = self.chosen["engine"]
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
        work = self._leave_out(work, errors)
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
        from sortedf.instances.files import write_whole
        from sortedf.runner.predicted import predict_jobs, prediction_document

        with self.console.status("replaying the plan on the engine"):
            document = prediction_document(predict_jobs(jobs, step_times, engine.settings), jobs)
        document |= {"steptime_file": self.steptime, "steptime": step_times.to_dict()}
        text = json_library.dumps(document, allow_nan=False)
        write_whole(folder.attempt / "prediction.json", [text.encode()])
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
                model=(self._names() or ["replay"])[0],
                meta={"handover": self.chosen["handover"], "engine": self.chosen["engine"]},
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

        realized = {} if done is None else done.figures()
        figures = [key for key in realized if prediction is not None and key in prediction]
        return {
            "schema": RESULT_SCHEMA,
            "version": __version__,
            "folder": self.folder,
            "attempt": folder.attempt.name,
            "engine": self.chosen["engine"],
            "handover": self.chosen["handover"],
            "interrupted": done is not None and done.interrupted,
            "died": None if done is None or done.died is None else str(done.died),
            **counts._asdict(),
            "sequences": 0 if done is None else len(done.answers),
            "realized": realized,
            "predicted": None if prediction is None else {key: prediction[key] for key in figures},
        }


def _manifest(folder: str) -> dict[str, Any]:
    """Read what a run was begun with."""
    from sortedf.instances import open_source
    from sortedf.instances.json_values import BadLine, decode_object

    path = Path(folder) / "manifest.json"
    if not path.is_file():
        raise InputError([Fault(folder, None, "no run was begun here: it has no manifest.json")])
    try:
        manifest = decode_object(open_source(path).data)
    except BadLine as error:
        raise InputError([Fault(str(path), None, str(error))]) from None
    if manifest.get("schema") != SCHEMA:
        raise InputError([Fault(str(path), None, f"not a {SCHEMA} document")])
    return manifest


def _batch(source: Source) -> Source:
    """Refuse what is clearly no batch file."""
    from sortedf.errors import InputError
    from sortedf.instances.json_text import schema_of

    if (schema := schema_of(source)) is not None:
        raise InputError([Fault(source.name, None, f"no batch file but a {schema} document")])
    return source
