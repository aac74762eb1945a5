"""What `sortedf run` is asked for, settled: plan, requests, engine, and what identifies the run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, read_step_times
from sortedf.errors import Fault, InputError, OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.engine import Calibration
    from sortedf.instances import Plan
    from sortedf.runner.jobs import Work
    from sortedf.runner.start import EngineOptions

SCHEMA = "sortedf.run/1"

UNIDENTIFYING = ("batch", "steptime")
"""Remembered in the manifest, but they change no answer: the requests are known by their hashes."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The options of one call of the command.

    Parameters
    ----------
    chosen
        Those of :class:`sortedf.cli.run_options.Serving`, none left open.
    settings, arguments
        Of the engine.
    warm_up
        Whether it is warmed up; ``None`` for where the run is predicted.
    before
        The manifest of a run that is resumed.
    """

    chosen: Mapping[str, Any]
    settings: Engine
    arguments: Mapping[str, Any]
    batch: str | None
    steptime: str | None
    pace: float | None
    warm_up: bool | None
    before: Mapping[str, Any]
    console: Console

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return str(self.chosen["engine"])

    @property
    def warms_up(self) -> bool:
        """Whether the engine first does requests that are thrown away; the replay has no need."""
        wanted = self.steptime is not None if self.warm_up is None else self.warm_up
        return wanted and self.engine != "replay"

    def step_times(self) -> Calibration | None:
        """Read the step times."""
        return None if self.steptime is None else read_step_times(self.steptime)

    def read_plan(self, path: str) -> tuple[Plan, bytes]:
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

    def engine_options(self, plan: Plan, step_times: Calibration | None) -> EngineOptions:
        """Give what the engine is started with; refuse what it cannot be started with."""
        from sortedf.engine import Calibration
        from sortedf.runner.engines import Handover
        from sortedf.runner.replayed import ONE_SECOND
        from sortedf.runner.start import EngineOptions, check_engine, context_of, tokenizer_of

        model, handover = self.chosen["model"], self.chosen["handover"]
        if handover not in tuple(Handover):
            known = ", ".join(Handover)
            raise OptionError(f"--handover is {handover!r}; it must be one of {known}")
        settings = self.settings.settings(step_times or Calibration(model=ONE_SECOND))
        context = context_of(model)
        if context is not None and self.engine == "replay":
            settings.setdefault("max_model_len", context)
        options = EngineOptions(
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
        check_engine(self.engine, options)
        return options

    def context(self) -> int | None:
        """Give the most tokens of a request as far as they are known without the engine."""
        from sortedf.runner.start import context_of

        return self.settings.max_model_len or context_of(self.chosen["model"])

    def read_work(self, plan: Plan) -> Work:
        """Read the batch, or make requests of the plan alone."""
        from sortedf.instances import open_source
        from sortedf.instances.json_text import schema_of
        from sortedf.runner import jobs
        from sortedf.runner.read_work import Reading, read_work
        from sortedf.runner.start import tokenizer_of

        random, error = self.chosen["random_prompts"], self.chosen["output_error"]
        if error is not None and not 0 <= error < 1:
            raise OptionError(f"--output-error is {error}; it must be a share from 0 to below 1")
        if self.batch is None:
            outputs = jobs.random_outputs(self.chosen["seed"], error or 0.0)
            if random:
                prompts = jobs.random_prompts(self.chosen["seed"], self._vocabulary())
                return jobs.work_of_plan(plan, prompts, outputs)
            if self.engine == "replay":
                return jobs.work_of_plan(plan, jobs.planned_prompt, outputs)
            raise OptionError(
                "BATCH is missing: the batch file of the plan; --random-prompts runs prompts of "
                "the planned lengths"
            )
        if random:
            raise OptionError("--random-prompts stands for a BATCH; leave one of them out")
        if error is not None:
            raise OptionError("--output-error is of runs without a BATCH, which says how long")
        reading = Reading(
            tokenizer=self.chosen["tokenizer"] or tokenizer_of(self.chosen["model"]),
            models=() if self.chosen["any_model"] else self.names(),
            may_estimate=self.engine == "replay",
        )
        with self.console.status(f"reading {self.batch}"):
            source = open_source(self.batch)
            if (schema := schema_of(source)) is not None:
                fault = f"no batch file but a {schema} document"
                raise InputError([Fault(source.name, None, fault)])
            return read_work(plan, source, reading, self.console.note)

    def names(self) -> list[str]:
        """Give the names that bodies may call the model by; empty where there is no model."""
        model = self.chosen["model"]
        if names := self.chosen["served_model_name"]:
            return list(names)
        return [] if model is None else list(dict.fromkeys([model, Path(model).resolve().name]))

    def manifest(self, plan: Plan, data: bytes) -> dict[str, Any]:
        """Give what identifies the run."""
        manifest = {
            "schema": SCHEMA,
            "plan_sha256": hashlib.sha256(data).hexdigest(),
            "instance_sha256": plan.instance_sha256,
            **self.chosen,
            "settings": self.settings.given(),
            "engine_arguments": dict(self.arguments),
            "batch": self.batch if self.batch in (None, "-") else str(Path(self.batch).resolve()),
            "steptime": self.steptime,
        }
        if self.before:
            manifest |= {key: self.before.get(key) for key in UNIDENTIFYING}
        return manifest

    def _vocabulary(self) -> int:
        from sortedf.runner.start import vocabulary_of

        vocabulary = vocabulary_of(self.chosen["model"])
        if vocabulary is None:
            raise OptionError(
                "--random-prompts needs --model with a config.json that has vocab_size"
            )
        return vocabulary


def read_manifest(folder: str) -> dict[str, Any]:
    """Read what a run was begun with.

    Raises
    ------
    InputError
        When there is no run.
    """
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
