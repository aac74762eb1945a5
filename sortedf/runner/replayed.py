"""The engine `replay`: what vLLM would do, by its replayed scheduler; it needs no model and no GPU.

Its answers have no text: outputs are as long as predicted, or, where a request lets nothing end
it, as long as it may be; they come when the replay says.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_log import COLUMNS
from sortedf.engine.step_time import StepTimeModel
from sortedf.model import Instance
from sortedf.runner.append_file import AppendFile
from sortedf.runner.engines import Answer, Handover, Job, Load, Outcome, Refusal, Times
from sortedf.runner.start import EngineOptions

IntArray = npt.NDArray[np.int64]

ONE_SECOND = StepTimeModel(fixed=1.0, source="one second a step")
"""Where no step times are given."""

POLICIES = {
    Handover.PLANNED: Policy.PLANNED,
    Handover.PRIORITY: Policy.PRIORITY,
    Handover.ORDER: Policy.FCFS,
}
"""What a handover makes of the engine's policy. Chunks depend on when answers end."""

STATE = ("begin", "running", "waiting", "kv_use", "preempted")
"""Columns of a step log of a run beside those of :mod:`sortedf.engine.step_log`."""

LOGGED_TOKENS = 20_000_000
"""Most output tokens of a replay whose steps are logged, at 24 bytes each."""

TICK = 0.1
"""Longest silence in seconds of a paced replay, so that it can be stopped."""


def replay_jobs(
    jobs: Sequence[Job],
    settings: EngineSettings,
    step_time: StepTimeModel,
    *,
    outputs: Sequence[int] | None = None,
    log: bool = False,
) -> Replayed:
    """Replay jobs that all come at once, given in the order of the plan.

    Parameters
    ----------
    outputs
        Tokens of each answer; those predicted when left out. The engine knows what is predicted.
    """
    predicted = np.array([job.output_tokens for job in jobs], np.int64)
    prompts = np.array([len(job.prompt) for job in jobs], np.int64)
    return replay_in_order(
        prompts,
        predicted if outputs is None else np.array(outputs, np.int64),
        predicted,
        [job.name for job in jobs],
        settings,
        step_time,
        log=log,
    )


def replay_in_order(
    prompts: IntArray,
    outputs: IntArray,
    predicted: IntArray,
    names: Sequence[str],
    settings: EngineSettings,
    step_time: StepTimeModel,
    *,
    log: bool = False,
) -> Replayed:
    """Replay requests that all come at once and are handed over in this order.

    Parameters
    ----------
    prompts, outputs, predicted
        Tokens, shape (n,): of prompt and answer, and what is predicted of the answer.
    """
    instance = Instance(prompts, outputs, settings.kv_tokens, ids=names)
    places = None if settings.policy == Policy.FCFS else np.arange(len(prompts))
    foreseen = predicted if settings.policy == Policy.PLANNED else None
    replay = Replay(instance, settings, priorities=places, predicted=foreseen)
    return replay.run(step_time, log=log)


def _outputs(jobs: Sequence[Job]) -> list[int]:
    """Tokens that each answer will have."""
    return [
        int(job.sampling["max_tokens"]) if job.sampling.get("ignore_eos") else job.output_tokens
        for job in jobs
    ]


class ReplayEngine:
    """The replay behind the interface of engines."""

    def __init__(
        self,
        settings: EngineSettings,
        step_time: StepTimeModel | None = None,
        *,
        pace: float | None = None,
    ) -> None:
        self._settings = settings
        self._step_time = ONE_SECOND if step_time is None else step_time
        self._pace = pace
        self._load = Load(0, 0, 0.0, 0, 0)

    @classmethod
    def start(cls, options: EngineOptions) -> ReplayEngine:
        """Build the engine that a plan was made for, with what is given instead."""
        given = dict(options.settings)
        given.setdefault("policy", POLICIES[options.handover])
        if options.block_size > 1:
            given.setdefault("block_size", options.block_size)
        if "num_gpu_blocks" in given:
            settings = EngineSettings(**given)
        else:
            settings = EngineSettings.for_budget(options.kv_tokens, **given)
        return cls(settings, options.step_time, pace=options.pace)

    @property
    def settings(self) -> EngineSettings:
        """What was asked for; vLLM's defaults otherwise."""
        return self._settings

    @property
    def meta(self) -> Mapping[str, Any]:
        """What a run folder says of the engine."""
        settings = self._settings
        return {
            "model": "replay",
            "vllm_version": settings.version.name.removeprefix("vLLM "),
            "engine_kwargs": {"max_model_len": settings.max_model_len},
            "kv_cache": {
                "num_gpu_blocks": settings.num_gpu_blocks,
                "block_size": settings.block_size,
                "enable_prefix_caching": settings.enable_prefix_caching,
            },
            "hardware": {"device_name": "replay"},
            "resolved_config": {
                "scheduler_config": {
                    "max_num_batched_tokens": settings.max_num_batched_tokens,
                    "max_num_seqs": settings.max_num_seqs,
                    "long_prefill_token_threshold": settings.long_prefill_token_threshold,
                    "enable_chunked_prefill": settings.enable_chunked_prefill,
                    "scheduler_reserve_full_isl": settings.scheduler_reserve_full_isl,
                    "policy": str(settings.policy),
                    "async_scheduling": settings.async_scheduling,
                }
            },
            "step_time": self._step_time.to_dict(),
        }

    def refuses(self, job: Job) -> Refusal | None:
        """Refuse what does not fit into the KV cache or the context."""
        (output,) = _outputs([job])
        needed = len(job.prompt) + output - 1
        budget, longest = self._settings.kv_tokens, self._settings.max_model_len
        if needed > budget:
            text = f"needs {needed:,} tokens, the KV cache has {budget:,}"
            return Refusal(job=job, code="kv_budget_exceeded", message=text)
        if longest is not None and needed + 1 > longest:
            text = f"{needed + 1:,} tokens are more than max_model_len, {longest:,}"
            return Refusal(job=job, code="context_length_exceeded", message=text)
        return None

    def execute(
        self, jobs: Sequence[Job], *, steps: Path | None = None
    ) -> Iterator[Sequence[Outcome]]:
        """Answer jobs in the order in which the replay ends them, a step at a time."""
        if not jobs:
            return
        wall, clock = time.time(), time.monotonic()
        outputs = _outputs(jobs)
        log = sum(outputs) <= LOGGED_TOKENS
        replayed = replay_jobs(jobs, self._settings, self._step_time, outputs=outputs, log=log)
        with ExitStack() as stack:
            file = None
            if steps is not None and log:
                steps.unlink(missing_ok=True)
                file = stack.enter_context(closing(AppendFile(steps, sync_seconds=None)))
                file.append((",".join(("seconds", *COLUMNS, *STATE)) + "\n").encode())
            seen = 0
            for answers, moment in _answers(jobs, outputs, replayed, wall):
                yield from self._wait(clock + moment / self._pace if self._pace else clock)
                now = self._look(replayed, moment)
                if file is not None:
                    file.append("".join(self._step_rows(replayed, seen, now)).encode())
                seen = now
                yield answers

    def load(self) -> Load:
        """Say what the replay says of now."""
        return self._load

    def close(self) -> None:
        """Nothing was started."""

    def _wait(self, until: float) -> Iterator[Sequence[Outcome]]:
        """Wait for a moment of the clock, with a sign of life now and then."""
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, TICK))
            if left > TICK:
                yield ()

    def _look(self, replayed: Replayed, moment: float) -> int:
        """Note the state of the engine by the end of a step, and count the steps until then."""
        log = replayed.log
        if log is None:
            return 0
        step = int(np.searchsorted(log.end, moment))
        self._load = Load(
            running=int(log.running[step]),
            waiting=int(log.waiting[step]),
            kv_use=float(log.used[step] / self._settings.usable_blocks),
            steps=step + 1,
            preemptions=int(log.evictions[step + 1]),
        )
        return step + 1

    def _step_rows(self, replayed: Replayed, first: int, end: int) -> Iterator[str]:
        """Give steps ``first .. end - 1`` as lines of a step log."""
        log = replayed.log
        assert log is not None
        steps = slice(first, end)
        begin, running, waiting = log.begin[steps], log.running[steps], log.waiting[steps]
        kv_use = log.used[steps] / self._settings.usable_blocks
        preempted = np.diff(log.evictions[first : end + 1])
        columns = (begin, running, waiting, kv_use, preempted)
        states = zip(*(column.tolist() for column in columns), strict=True)
        seconds = (log.end[steps] - begin).tolist()
        for lasted, work, state in zip(seconds, log.work[steps].tolist(), states, strict=True):
            row = [repr(lasted), *(f"{term:.17g}" for term in work[1:]), *map(str, state)]
            yield ",".join(row) + "\n"


def _answers(
    jobs: Sequence[Job], outputs: Sequence[int], replayed: Replayed, wall: float
) -> Iterator[tuple[list[Answer], float]]:
    """Answers of each step that ends some, and the second at which it ends."""
    order = np.lexsort((np.arange(len(jobs)), replayed.completion_step))
    last = np.flatnonzero(np.diff(replayed.completion_step[order])) + 1
    for places in np.split(order, last):
        answers = [
            _answer(jobs[place], outputs[place], replayed, place, wall) for place in places.tolist()
        ]
        yield answers, answers[0].times.last_token


def _answer(job: Job, output: int, replayed: Replayed, place: int, wall: float) -> Answer:
    moments = (replayed.arrivals, replayed.admitted, replayed.first_token, replayed.completion)
    queued, admitted, first, last = (float(times[place]) for times in moments)
    ended = output < job.sampling["max_tokens"]
    return Answer(
        job=job,
        text="",
        token_ids=(),
        finish_reason="stop" if ended else "length",
        stop_reason=None,
        logprobs=None,
        times=Times(wall + queued, queued, admitted, first, last, int(replayed.preemptions[place])),
        counted=output,
    )
