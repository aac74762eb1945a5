"""What the runner asks of an engine, and what it gets back.

An engine is anything that generates sequences: vLLM, the replay of it, another library. The runner
knows nothing of it but what stands here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from sortedf.engine import EngineSettings


class Handover(StrEnum):
    """How an engine is given the plan.

    ``planned``: to a scheduler that keeps room for predicted outputs. ``priority``: as priorities
    of the engine's own scheduler. ``order``: to the engine's own scheduler, one after another in
    the order of the plan. ``chunks``: as ``order``, but as many at a time as fit to the end.
    """

    PLANNED = "planned"
    PRIORITY = "priority"
    ORDER = "order"
    CHUNKS = "chunks"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One sequence to generate: a prompt and one answer.

    Parameters
    ----------
    index
        Position in the instance of the plan.
    name
        Its id in the plan: ``custom_id``, or ``custom_id#k`` for the k-th of several.
    place
        Position in the order of the plan, from 0.
    prompt
        Token ids.
    output_tokens
        Predicted output, tokens.
    sampling
        How to sample, under the names of vLLM's ``SamplingParams``; ``max_tokens`` is among them.
    """

    index: int
    name: str
    place: int
    prompt: Sequence[int]
    output_tokens: int
    sampling: Mapping[str, Any]


class Times(NamedTuple):
    """When things happened to a job, in seconds on the engine's own monotonic clock."""

    arrival: float
    """The same moment by the clock of the wall, seconds since 1970."""
    queued: float
    admitted: float
    first_token: float
    last_token: float
    preemptions: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A job that was answered.

    ``finish_reason`` is ``stop`` or ``length``; ``logprobs`` is what the engine gave, token by
    token: a mapping from token id to what has ``logprob`` and ``decoded_token``, the token that was
    taken among them; or ``None``. ``text`` is empty where the engine has no tokenizer. ``counted``
    is the number of output tokens of an engine that knows no more of them.
    """

    job: Job
    text: str
    token_ids: Sequence[int]
    finish_reason: str
    stop_reason: str | int | None
    logprobs: Any
    times: Times
    counted: int | None = None

    @property
    def output_tokens(self) -> int:
        """How many tokens were generated."""
        return len(self.token_ids) if self.counted is None else self.counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """A job that the engine does not do, or could not end: a code and one line for the user."""

    job: Job
    code: str
    message: str


Outcome: TypeAlias = Answer | Refusal


class Load(NamedTuple):
    """State of an engine now: jobs, share of the KV cache, and counts since it was started."""

    running: int
    waiting: int
    kv_use: float
    steps: int
    preemptions: int


class Engine(Protocol):
    """An engine that was started, for one execution at a time."""

    @property
    def settings(self) -> EngineSettings:
        """What it was started with, resolved: the real blocks, the policy it admits by."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """What ``meta.json`` of a run folder says of it, see :mod:`sortedf.engine.run_folder`."""

    def refuses(self, job: Job) -> Refusal | None:
        """Say why a job cannot be done, before anything is begun; ``None`` when it can."""

    def execute(
        self, jobs: Sequence[Job], *, steps: Path | None = None
    ) -> Iterator[Sequence[Outcome]]:
        """Do jobs, given in the order of the plan, none of which it refuses.

        Yields after every step what has ended in it, often nothing. Closing the iterator aborts
        what is left.

        Parameters
        ----------
        steps
            Where to write the step log, see :mod:`sortedf.engine.step_log`, as it goes.

        Raises
        ------
        EngineError
            When the engine dies. What was yielded stays done.
        """

    def load(self) -> Load:
        """Say how it is doing."""

    def close(self) -> None:
        """Stop it."""
