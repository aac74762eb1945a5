"""Offline vLLM as an engine of the runner."""

from __future__ import annotations

import gc
import importlib
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sortedf.engine import EngineSettings
from sortedf.errors import EngineError
from sortedf.runner.checks import refused_by_size
from sortedf.runner.engines import Handover, Job, Load, Outcome, Refusal
from sortedf.runner.feeding import next_jobs
from sortedf.runner.library_output import reason
from sortedf.runner.process_ends import when_ended
from sortedf.runner.vllm_load import Counter
from sortedf.runner.vllm_meta import meta_of, settings_in
from sortedf.runner.vllm_options import VllmOptions
from sortedf.runner.vllm_requests import Requests, outcome_of, refusal_of
from sortedf.runner.vllm_start import first_exception, start_vllm


class VllmEngine:
    """Offline vLLM, in this process or in one of its own; one at a time.

    Made by :meth:`start`, ended by :meth:`close`.
    """

    def __init__(self, options: VllmOptions, engine: Any, counter: Counter, log: Path) -> None:
        self._options = options
        self._engine = engine
        self._counter = counter
        self._log = log
        self._meta = meta_of(options, engine.vllm_config)
        self._settings = settings_in(self._meta)
        self._vocabulary: int = engine.vllm_config.model_config.get_vocab_size()
        self._tasks = engine.get_supported_tasks()
        self._requests = Requests(
            has_text=not options.skip_tokenizer_init,
            defaults=engine.vllm_config.model_config.get_diff_sampling_param(),
        )
        self._dead_error = importlib.import_module("vllm.v1.engine.exceptions").EngineDeadError
        self._dead: str | None = None
        self._not_fed: deque[Job] = deque()
        self._log_begin = 0
        if options.own_process:
            processes = engine.engine_core.resources.engine_manager.processes
            when_ended([process.sentinel for process in processes], self._wake)

    @classmethod
    def start(cls, options: VllmOptions, *, log: Path) -> VllmEngine:
        """Start it.

        Parameters
        ----------
        log
            File for everything that vLLM prints, here and in its processes.

        Raises
        ------
        OptionError
            For options that vLLM refuses.
        EngineError
            When vLLM is not installed, not a version that was tested, or does not start.
        """
        counter = Counter()
        return cls(options, start_vllm(options, log=log, counter=counter), counter, log)

    @property
    def settings(self) -> EngineSettings:
        """What it was started with, resolved: the real blocks, the policy it admits by."""
        return self._settings

    @property
    def meta(self) -> Mapping[str, Any]:
        """What ``meta.json`` of a run folder says of it, see :mod:`sortedf.runner.vllm_meta`."""
        return self._meta

    def load(self) -> Load:
        """Say how it is doing, as of the last step that it told of."""
        return self._counter.load(len(self._not_fed))

    def refuses(self, job: Job) -> Refusal | None:
        """Say why a job cannot be done; ``None`` when it can.

        What vLLM would cut, die of or never end is looked at here; the rest is asked of vLLM.
        """
        refusal = refused_by_size(job, self._settings, self._vocabulary)
        if refusal is not None:
            return refusal
        try:
            self._engine.input_processor.process_inputs(
                job.name,
                self._requests.prompt(job),
                self._requests.parameters(job, None),
                self._tasks,
            )
        except Exception as error:
            return refusal_of(job, error)
        return None

    def execute(
        self, jobs: Sequence[Job], *, steps: Path | None = None
    ) -> Generator[Sequence[Outcome], None, None]:
        """Do jobs, given in the order of the plan, none of which it refuses.

        Yields after every step what has ended in it. Closing the iterator aborts what is left; then
        the engine can go on with other jobs.

        Raises
        ------
        EngineError
            When the engine dies, and when it is dead.
        """
        self._log_begin = self._log.stat().st_size
        self._not_fed = deque(jobs)
        running: dict[str, Job] = {}
        try:
            with self._living():
                # In a process of its own it would otherwise begin with the first that comes.
                self._engine.sleep(level=0, mode="keep")
                refused = self._feed(running, steps)
                self._engine.wake_up(tags=["scheduling"])
            yield refused
            while running:
                with self._living():
                    ended = self._step(running)
                    if self._not_fed:
                        ended += self._feed(running, steps)
                yield ended
        finally:
            self._not_fed.clear()
            self._abort(list(running))

    def close(self) -> None:
        """Stop it."""
        if self._engine is not None:
            self._dead = "it was closed"
            self._engine.engine_core.shutdown()
            self._engine = None
            gc.collect()  # or the next one in this process would find what is left of this one

    def _feed(self, running: dict[str, Job], steps: Path | None) -> list[Outcome]:
        """Hand over the jobs whose turn has come; give those back that vLLM refuses."""
        refused: list[Outcome] = []
        chunks = self._options.handover == Handover.CHUNKS
        for job in next_jobs(self._not_fed, running.values(), self._settings, chunks=chunks):
            try:
                self._engine.add_request(
                    str(job.index),
                    self._requests.prompt(job),
                    self._requests.parameters(job, steps),
                    priority=job.place if self._options.handover == Handover.PRIORITY else 0,
                )
            except self._dead_error:
                raise
            except Exception as error:
                refused.append(refusal_of(job, error))
                continue
            running[str(job.index)] = job
        return refused

    def _step(self, running: dict[str, Job]) -> list[Outcome]:
        """Do a step, or wait for one; give what has ended in it."""
        ended = [output for output in self._engine.step() if output.finished]
        return [outcome_of(running.pop(output.request_id), output) for output in ended]

    def _abort(self, names: list[str]) -> None:
        self._counter.forget()
        if names and self._dead is None:
            with suppress(EngineError), self._living():
                self._engine.abort_request(names)

    @contextmanager
    def _living(self) -> Iterator[None]:
        """Take what is raised inside for the engine's death."""
        if self._dead is not None:
            raise EngineError(f"vLLM does not run any more: {self._dead}")
        try:
            yield
        except KeyboardInterrupt:
            if not self._options.own_process:
                self._dead = "it was interrupted in a step"
            raise
        except Exception as error:
            self._dead = self._cause(error)
            raise EngineError(f"vLLM died: {self._dead}; see {self._log}") from None

    def _cause(self, error: Exception) -> str:
        if not isinstance(error, self._dead_error):
            return reason(error)
        if (logged := first_exception(self._log, self._log_begin)) is not None:
            return logged
        process = self._engine.engine_core.resources.engine_manager.processes[0]
        # It is dead, but one thread alone learns its code first, and it may be one of vLLM's.
        for _ in range(100):
            if (code := process.exitcode) is not None:
                break
            time.sleep(0.02)
        return "its process ended" if code is None else f"its process ended with code {code}"

    def _wake(self) -> None:
        """Raise, in whoever waits for the engine, that it is dead: vLLM would let him wait."""
        core = self._engine.engine_core if self._engine is not None else None
        if core is None:
            return
        core.resources.engine_dead = True
        core.outputs_queue.put(self._dead_error())
        for future in list(core.utility_results.values()):
            if not future.done():
                future.set_exception(self._dead_error())
