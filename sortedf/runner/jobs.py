"""From a batch file and its plan to lines that can run, and error records for those that cannot."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sortedf.instances.plan import Plan
from sortedf.runner.engines import Job
from sortedf.runner.sampling import Form, Sampling


class LineError(NamedTuple):
    """Why a line is not answered: an error record of the output.

    ``custom_id`` is ``None`` for a line without one of its own; ``line`` is its number in the batch
    file, ``None`` where there is no such file. ``status`` is that of a server, 400 for what would
    fail again, ``None`` for what might not.
    """

    custom_id: str | None
    line: int | None
    code: str
    message: str
    status: int | None = 400


@dataclass(frozen=True, slots=True)
class Place:
    """A sequence as the plan has it."""

    index: int
    name: str
    place: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the batch that can run.

    Parameters
    ----------
    number
        Of the line in the batch file, ``None`` where there is none.
    custom_id
        As it is written.
    sampling
        How it is sampled.
    choices
        Answers to each prompt.
    prompts
        Token ids of each prompt.
    places
        Its sequences in the order of the choices: all of the first prompt, then all of the second.
    errs
        Whether what the plan predicts is told to the engine even where it is known to be wrong.
    """

    number: int | None
    custom_id: str
    sampling: Sampling
    choices: int
    prompts: Sequence[Sequence[int]]
    places: Sequence[Place]
    errs: bool = False

    @property
    def most_tokens(self) -> int:
        """Tokens that the context must hold: the longest prompt and its output, or one token."""
        return max(map(len, self.prompts)) + (self.sampling.limit or 1)

    def jobs(self, max_model_len: int | None) -> Iterator[Job]:
        """Give its sequences as jobs.

        Parameters
        ----------
        max_model_len
            The context in tokens: a line without a limit gets what its prompt leaves, or, without a
            context either, what the plan says.
        """
        for k, planned in enumerate(self.places):
            prompt = self.prompts[k // self.choices]
            limit, foreseen = self.sampling.limit, planned.output_tokens
            if limit is None:
                room = None if max_model_len is None else max_model_len - len(prompt)
                limit = planned.output_tokens if room is None else room
            yield Job(
                index=planned.index,
                name=planned.name,
                place=planned.place,
                prompt=prompt,
                # A prediction beyond what is allowed is of no use.
                output_tokens=foreseen if self.errs else min(foreseen, limit),
                sampling=self.sampling.of_choice(k % self.choices) | {"max_tokens": limit},
            )


@dataclass(frozen=True)
class Work:
    """What a run has to do.

    Parameters
    ----------
    lines
        Those that can run, by ``custom_id``, in the order of the batch.
    errors
        Of those that cannot.
    inputs
        SHA-256 of what each line asks for, by ``custom_id``.
    """

    lines: Mapping[str, Line]
    errors: Sequence[LineError]
    inputs: Mapping[str, str]

    def without(self, errors: Sequence[LineError]) -> Work:
        """Copy in which these lines, too, cannot run."""
        bad = {error.custom_id for error in errors}
        lines = {name: line for name, line in self.lines.items() if name not in bad}
        return Work(lines, [*self.errors, *errors], self.inputs)

    def is_left(self, done: Mapping[str, Any]) -> bool:
        """Whether a line that can run is not done."""
        return any(name not in done for name in self.lines)

    def jobs(self, done: Mapping[str, Any], max_model_len: int | None) -> list[Job]:
        """Give the jobs of all lines that are not done, in the order of the plan."""
        jobs = [
            job
            for name, line in self.lines.items()
            if name not in done
            for job in line.jobs(max_model_len)
        ]
        return sorted(jobs, key=lambda job: job.place)


def work_of_plan(
    plan: Plan,
    prompts: Callable[[int, int], Sequence[int]],
    outputs: Callable[[int, int], int] = lambda index, planned: planned,
) -> Work:
    """Give a run of the plan alone, each sequence a line of its own.

    Parameters
    ----------
    prompts
        Token ids of a prompt from its index in the backlog and its tokens.
    outputs
        Tokens that an answer will have, from its index and what is planned. The engine is told the
        plan's prediction all the same.
    """
    lines, inputs = {}, {}
    columns = (plan.index, plan.ids, plan.prompt_tokens, plan.output_tokens)
    for place, (index, name, prompt, output) in enumerate(zip(*columns, strict=True)):
        real = outputs(index, output)
        fixed = {"ignore_eos": True, "min_tokens": real, "detokenize": False}
        sampling = Sampling(fixed, real, Form(chat=False))
        planned = Place(index, name, place, output)
        lines[name] = Line(None, name, sampling, 1, [prompts(index, prompt)], [planned], errs=True)
        inputs[name] = hashlib.sha256(f"{prompt},{real}".encode()).hexdigest()
    return Work(lines, [], inputs)


def random_prompts(seed: int, vocabulary: int) -> Callable[[int, int], array[int]]:
    """Make a source of prompts of random token ids, each by the seed and its index alone."""

    def prompt(index: int, tokens: int) -> array[int]:
        generator = np.random.default_rng((seed, index))
        ids = array("i")
        ids.frombytes(generator.integers(0, vocabulary, tokens, dtype=np.int32).tobytes())
        return ids

    return prompt


def random_outputs(seed: int, error: float) -> Callable[[int, int], int]:
    """Make a source of outputs that are by a share longer or shorter than planned, as a coin falls.

    Each by the seed and its index alone; at least one token, rounded to the nearest.
    """

    def output(index: int, planned: int) -> int:
        if error == 0:
            return planned
        longer = np.random.default_rng((seed, index, 1)).random() < 0.5
        return max(1, round(planned * (1 + error if longer else 1 - error)))

    return output


def planned_prompt(index: int, tokens: int) -> range:
    """Stand in for a prompt of which the length alone is known; takes no memory."""
    return range(tokens)


def too_long(lines: Mapping[str, Line], max_model_len: int | None) -> list[LineError]:
    """Find lines that ask for more tokens than the context holds; the engine would cut them."""
    if max_model_len is None:
        return []
    return [
        LineError(name, line.number, "context_length_exceeded", _too_long(line, max_model_len))
        for name, line in lines.items()
        if line.most_tokens > max_model_len
    ]


def _too_long(line: Line, max_model_len: int) -> str:
    prompt, limit = max(map(len, line.prompts)), line.sampling.limit
    asked = "at least 1 of output" if limit is None else f"up to {limit:,} of output"
    return (
        f"a prompt of {prompt:,} tokens and {asked} are more than max_model_len, "
        f"{max_model_len:,} tokens"
    )
