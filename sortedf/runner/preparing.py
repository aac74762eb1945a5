"""What a run is asked for, settled before anything is begun: plan, requests, engine."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortedf.engine.calibration import Calibration, read_step_times
from sortedf.engine.settings import check_settings
from sortedf.errors import Fault, InputError, OptionError, VerificationError
from sortedf.instances.json_text import schema_of
from sortedf.instances.plan import Plan, read_plan
from sortedf.instances.source import open_source
from sortedf.runner import jobs
from sortedf.runner.engines import Handover
from sortedf.runner.jobs import Work
from sortedf.runner.read_work import Reading, read_work
from sortedf.runner.replayed import ONE_SECOND
from sortedf.runner.run_options import RunOptions
from sortedf.runner.start import (
    EngineOptions,
    check_engine,
    context_of,
    tokenizer_of,
    vocabulary_of,
)
from sortedf.runner.watch import Watch
from sortedf.solvers import check_plan


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run before its folder is made.

    Parameters
    ----------
    plan_name, data
        The plan's file: its name, and all of it, byte for byte.
    batch
        Path of the batch file.
    step_times
        That the run is predicted by.
    """

    plan: Plan
    plan_name: str
    data: bytes
    batch: str | None
    work: Work
    engine_options: EngineOptions
    step_times: Calibration | None


def prepare(
    plan: str,
    batch: str | None,
    options: RunOptions,
    watch: Watch,
    step_times: Calibration | None = None,
) -> Prepared:
    """Read everything, and refuse what cannot be run.

    Parameters
    ----------
    plan, batch
        Paths; ``-`` is stdin.
    step_times
        Instead of those that the options name.

    Raises
    ------
    InputError
        When a file cannot be read, or the batch is not the plan's.
    VerificationError
        When the plan does not hold.
    OptionError
        For options that do not go together, or that the engine does not take.
    """
    if step_times is None and options.steptime is not None:
        step_times = read_step_times(options.steptime)
    read, data = _read_plan(plan, watch)
    engine_options = _engine_options(options, read, step_times)
    work = _read_work(options, read, batch, watch)
    context = options.settings.get("max_model_len") or context_of(options.model)
    work = work.without(jobs.too_long(work.lines, context))
    return Prepared(
        plan=read,
        plan_name="plan.json" if plan == "-" else Path(plan).name,
        data=data,
        batch=batch,
        work=work,
        engine_options=engine_options,
        step_times=step_times,
    )


def _read_plan(path: str, watch: Watch) -> tuple[Plan, bytes]:
    """Read and verify a plan; give its file as it is, too."""
    with watch.status(f"reading {path}"):
        source = open_source(path)
        plan = read_plan(source)
        plan.check_one_worker("run is for")
        check = check_plan(plan)
    if not check.ok:
        lines = [*check.mismatches, *map(str, check.report.violations)]
        raise VerificationError(
            [f"{plan.source}: {line}" for line in lines],
            check.report.total + len(check.mismatches),
        )
    if any(plan.release):
        watch.note("the plan has releases; a run gives everything to the engine at once")
    return plan, source.data if path == "-" else Path(path).read_bytes()


def _engine_options(
    options: RunOptions, plan: Plan, step_times: Calibration | None
) -> EngineOptions:
    """Give what the engine is started with; refuse what it cannot be started with."""
    if options.handover not in tuple(Handover):
        known = ", ".join(Handover)
        raise OptionError(f"--handover is {options.handover!r}; it must be one of {known}")
    shared = (step_times or Calibration(model=ONE_SECOND)).shared_blocks
    settings: dict[str, Any] = check_settings(options.settings, shared)
    context = context_of(options.model)
    if context is not None and options.engine == "replay":
        settings.setdefault("max_model_len", context)
    result = EngineOptions(
        model=options.model,
        tokenizer=options.tokenizer or tokenizer_of(options.model),
        handover=Handover(options.handover),
        settings=settings,
        engine_arguments=options.engine_arguments,
        kv_tokens=plan.kv_tokens,
        block_size=plan.block_size,
        step_time=None if step_times is None else step_times.model,
        pace=options.pace,
        seed=options.seed,
    )
    check_engine(options.engine, result)
    return result


def _read_work(options: RunOptions, plan: Plan, batch: str | None, watch: Watch) -> Work:
    """Read the batch, or make requests of the plan alone."""
    error = options.output_error
    if error is not None and not 0 <= error < 1:
        raise OptionError(f"--output-error is {error}; it must be a share from 0 to below 1")
    if batch is None:
        outputs = jobs.random_outputs(options.seed, error or 0.0)
        if options.random_prompts:
            vocabulary = vocabulary_of(options.model)
            if vocabulary is None:
                raise OptionError(
                    "--random-prompts needs --model with a config.json that has vocab_size"
                )
            return jobs.work_of_plan(plan, jobs.random_prompts(options.seed, vocabulary), outputs)
        if options.engine == "replay":
            return jobs.work_of_plan(plan, jobs.planned_prompt, outputs)
        raise OptionError(
            "BATCH is missing: the batch file of the plan; --random-prompts runs prompts of "
            "the planned lengths"
        )
    if options.random_prompts:
        raise OptionError("--random-prompts stands for a BATCH; leave one of them out")
    if error is not None:
        raise OptionError("--output-error is of runs without a BATCH, which says how long")
    reading = Reading(
        tokenizer=options.tokenizer or tokenizer_of(options.model),
        models=() if options.any_model else options.names,
        may_estimate=options.engine == "replay",
    )
    with watch.status(f"reading {batch}"):
        source = open_source(batch)
        if (schema := schema_of(source)) is not None:
            fault = f"no batch file but a {schema} document"
            raise InputError([Fault(source.name, None, fault)])
        return read_work(plan, source, reading, watch.note)


UNIDENTIFYING = ("batch", "steptime")
"""Remembered in the manifest, but they change no answer: the requests are known by their hashes."""


def batch_path(batch: str | None) -> str | None:
    """Give the batch's path as it is found again from another folder."""
    return batch if batch in (None, "-") else str(Path(str(batch)).resolve())


def remembered_batch(folder: str | Path, manifest: Mapping[str, Any]) -> str | None:
    """Give the batch file that a run was begun with.

    Raises
    ------
    InputError
        When it was stdin, or lies there no longer: it has to be given again.
    """
    batch = manifest.get("batch")
    if batch is None or (batch != "-" and Path(batch).exists()):
        return batch
    gone = "came from stdin" if batch == "-" else f"is no longer at {batch}"
    plan, target = (shlex.quote(str(path)) for path in (Path(folder) / manifest["plan"], folder))
    text = f"its batch {gone}; give it: sortedf run {plan} BATCH --resume {target}"
    raise InputError([Fault(str(folder), None, text)])


def unidentifying(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Give what of a manifest need not be the same when the run is resumed."""
    return {key: manifest.get(key) for key in UNIDENTIFYING}
