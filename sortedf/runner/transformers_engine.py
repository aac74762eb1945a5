"""Transformers' continuous batching as an engine of the runner, where vLLM is not installed.

It is stepped by hand, in this process, without the library's thread: so each step is known, with
its beginning and its end.
"""

from __future__ import annotations

import gc
import queue
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sortedf.engine import EngineSettings
from sortedf.errors import EngineError
from sortedf.runner.checks import refused_by_size
from sortedf.runner.engines import Handover, Job, Load, Outcome, Refusal
from sortedf.runner.feeding import next_jobs
from sortedf.runner.library_output import reason
from sortedf.runner.start import EngineOptions
from sortedf.runner.step_recorder import StepRecorder
from sortedf.runner.transformers_answers import Running, outcome_of
from sortedf.runner.transformers_start import meta_of, not_this_version, settings_in, start


class TransformersEngine:
    """Transformers' continuous batching, in this process.

    Made by :meth:`start`, ended by :meth:`close`.
    """

    def __init__(self, options: EngineOptions, manager: Any, tokenizer: Any, log: Path) -> None:
        from sortedf.runner.transformers_sampling import Sampling

        self._options = options
        self._manager = manager
        self._processor = manager.batch_processor
        self._tokenizer = tokenizer
        self._log = log
        self._settings = settings_in(manager, options)
        self._meta = meta_of(manager, options, self._settings)
        self._vocabulary = int(manager.model.config.get_text_config().vocab_size)
        self._sampling = Sampling(manager.model.generation_config, self._vocabulary)
        self._processors = tuple(manager.logit_processor.logits_processor)
        self._not_fed: deque[Job] = deque()
        self._running: dict[str, Running] = {}
        self._holding: set[str] = set()
        self._steps = self._preemptions = 0
        self._dead: str | None = None

    @classmethod
    def start(cls, options: EngineOptions, *, log: Path) -> TransformersEngine:
        """Start it.

        Parameters
        ----------
        log
            File for what the library prints.

        Raises
        ------
        OptionError
            For options that it does not take, and a model that cannot be loaded.
        EngineError
            When it does not start.
        """
        try:
            return cls(options, *start(options, log), log)
        except AttributeError as error:
            raise EngineError(not_this_version(error)) from None

    @property
    def settings(self) -> EngineSettings:
        """What it was started with, resolved: the real blocks, the policy nearest to its own."""
        return self._settings

    @property
    def meta(self) -> Mapping[str, Any]:
        """What ``meta.json`` of a run folder says of it."""
        return self._meta

    def load(self) -> Load:
        """Say how it is doing, as of the last step."""
        running = len(self._holding)
        return Load(
            running=running,
            waiting=len(self._running) - running + len(self._not_fed),
            kv_use=self._kv_use(),
            steps=self._steps,
            preemptions=self._preemptions,
        )

    def refuses(self, job: Job) -> Refusal | None:
        """Say why a job cannot be done; ``None`` when it can."""
        refusal = refused_by_size(job, self._settings, self._vocabulary)
        if refusal is None and (text := self._sampling.refused(job)) is not None:
            return Refusal(job=job, code="unsupported_parameter", message=text)
        return refusal

    def execute(
        self, jobs: Sequence[Job], *, steps: Path | None = None
    ) -> Generator[Sequence[Outcome], None, None]:
        """Do jobs, given in the order of the plan, none of which it refuses.

        Yields after every step what has ended in it. Closing the iterator gives up what is left;
        then the engine can go on with other jobs.

        Raises
        ------
        EngineError
            When the engine dies, and when it is dead.
        """
        recorder = StepRecorder(self._complain)
        try:
            with self._living():
                self._begin(jobs)
            if steps is not None:
                recorder.record(str(steps))
            while self._not_fed or self._running:
                with self._living():
                    self._feed()
                    ended = self._step(recorder)
                yield ended
        finally:
            recorder.close()
            self._forget()

    def close(self) -> None:
        """Stop it."""
        self._dead = "it was closed"
        self._processor = self._manager = self._tokenizer = None
        gc.collect()

    def _begin(self, jobs: Sequence[Job]) -> None:
        """Make ready for these jobs: an empty cache, their plan, and how they are sampled."""
        from sortedf.runner.transformers_sampling import needed

        self._processor.reset()
        self._not_fed = deque(jobs)
        if self._options.handover == Handover.PLANNED:
            named = {str(job.index): job for job in jobs}
            self._processor.scheduler.begin(named, self._settings.max_model_len)
        listed = self._processor.logit_processor
        every = [self._sampling.chosen(job) for job in jobs]
        listed.logits_processor = needed(self._processors, every, self._vocabulary)
        listed.do_processing = len(listed.logits_processor) > 0
        graphs = self._processor.inputs_and_outputs
        graphs.graphs = type(graphs.graphs)()  # what was captured has the former processors in it

    def _feed(self) -> None:
        """Hand over the jobs whose turn has come."""
        running = _Jobs(self._running)
        chunks = self._options.handover == Handover.CHUNKS
        for job in next_jobs(self._not_fed, running, self._settings, chunks=chunks):
            ends = self._sampling.ends(job)
            self._running[str(job.index)] = Running(job, ends, time.time(), time.monotonic())
            self._manager.add_request(
                list(job.prompt),
                request_id=str(job.index),
                max_new_tokens=job.sampling["max_tokens"],
                eos_token_id=ends,
                **self._sampling.chosen(job)._asdict(),
            )

    def _step(self, recorder: StepRecorder) -> list[Outcome]:
        """Do a step; give what has ended in it."""
        processor, scheduler = self._processor, self._processor.scheduler
        begin = time.monotonic()
        if not processor.prepare_next_batch():
            raise EngineError("it chose no request for a step, though some wait")
        preempted = [name for name in self._holding if name in scheduler.waiting_requests]
        for name in preempted:
            self._running[name].preemptions += 1
        self._preemptions += len(preempted)
        self._holding = set(scheduler.active_requests)
        batch = list(processor.inputs_and_outputs.requests_in_batch)
        recorder.scheduled(
            begin,
            [part.query_length for part in batch],
            [part.state.position_offset - part.query_length for part in batch],
            running=len(self._holding),
            waiting=len(scheduler.waiting_requests),
            kv_use=self._kv_use(),
            preempted=len(preempted),
        )
        processor._generation_step(self._manager.model)
        processor.update_batch()
        end = time.monotonic()
        self._steps += 1
        for part in batch:
            running = self._running[part.state.request_id]
            if running.admitted is None:
                running.admitted = begin
            if part.has_new_token and running.first_token is None:
                running.first_token = end
        ended = [self._outcome(output, end) for output in self._outputs()]
        recorder.ended(end, ran=True, idle=not self._running and not self._not_fed)
        return ended

    def _outputs(self) -> Iterator[Any]:
        """Take what the library has delivered."""
        while True:
            try:
                yield self._manager.output_router.output_queue.get_nowait()
            except queue.Empty:
                return

    def _outcome(self, output: Any, end: float) -> Outcome:
        name = output.request_id
        self._holding.discard(name)
        return outcome_of(output, self._running.pop(name), end, self._tokenizer)

    def _kv_use(self) -> float:
        if self._processor is None:
            return 0.0
        return 1.0 - float(self._processor.cache.compute_free_capacity())

    def _forget(self) -> None:
        """Give up what is left."""
        self._not_fed.clear()
        self._running.clear()
        self._holding.clear()
        if self._dead is None:
            self._processor.reset()
            for _ in self._outputs():
                pass

    def _complain(self, text: str) -> None:
        with self._log.open("a") as file:
            file.write(text + "\n")

    @contextmanager
    def _living(self) -> Iterator[None]:
        """Take what is raised inside for the engine's death."""
        if self._dead is not None:
            raise EngineError(f"transformers does not run any more: {self._dead}")
        try:
            yield
        except KeyboardInterrupt:
            self._dead = "it was interrupted in a step"
            raise
        except Exception as error:
            self._dead = reason(error)
            raise EngineError(f"transformers died: {self._dead}; see {self._log}") from None


class _Jobs:
    """The jobs of those that run, as they are now."""

    def __init__(self, running: Mapping[str, Running]) -> None:
        self._running = running

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Job]:
        return (running.job for running in self._running.values())

    def __contains__(self, job: object) -> bool:
        return any(running.job is job for running in self._running.values())
