"""From a batch file and its plan to lines that can run, and error records for those that cannot."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from sortedf.errors import SHOWN_FAULTS, Fault, InputError
from sortedf.instances.batch_entries import BadEntry, BatchEntries, Entry
from sortedf.instances.json_values import BadLine, shown
from sortedf.instances.plan import Plan
from sortedf.instances.prompts import Text
from sortedf.instances.reading import Note
from sortedf.instances.source import Source
from sortedf.instances.tokenizer import TokenizerCounter
from sortedf.instances.tokens import has_text, prompts_of
from sortedf.runner.engines import Job
from sortedf.runner.sampling import COMPLETION_LIMIT, INT32, Form, Sampling, sampling_of

LINES_AT_ONCE = 4096
"""Lines whose texts are tokenized together."""


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
    """

    number: int | None
    custom_id: str
    sampling: Sampling
    choices: int
    prompts: Sequence[Sequence[int]]
    places: Sequence[Place]

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
            limit = self.sampling.limit
            if limit is None:
                room = None if max_model_len is None else max_model_len - len(prompt)
                limit = planned.output_tokens if room is None else room
            yield Job(
                index=planned.index,
                name=planned.name,
                place=planned.place,
                prompt=prompt,
                # A prediction beyond what is allowed is of no use.
                output_tokens=min(planned.output_tokens, limit),
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

    def jobs(self, done: Mapping[str, Any], max_model_len: int | None) -> list[Job]:
        """Give the jobs of all lines that are not done, in the order of the plan."""
        jobs = [
            job
            for name, line in self.lines.items()
            if name not in done
            for job in line.jobs(max_model_len)
        ]
        return sorted(jobs, key=lambda job: job.place)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a batch is read.

    Parameters
    ----------
    tokenizer
        Folder or file of the tokenizer, loaded when the first text comes; without one, prompts of
        text can have the planned number of tokens, which only the replay can do with.
    models
        Names that the engine answers to; empty for any.
    may_estimate
        Whether prompts may go without token ids where there is no tokenizer.
    """

    tokenizer: str | None = None
    models: Sequence[str] = ()
    may_estimate: bool = False


def read_work(plan: Plan, batch: Source, reading: Reading, note: Note) -> Work:
    """Read the batch that a plan was made of.

    A line that cannot run is an error of its own. The prompts' real tokens count, whatever the plan
    took them for.

    Parameters
    ----------
    note
        Told of keys that are ignored, and of prompts that are not as long as planned.

    Raises
    ------
    InputError
        When the plan has requests that the batch does not have, or prompts are text and there is no
        tokenizer.
    OptionError
        When the tokenizer cannot tokenize the prompts, or has no chat template.

    Notes
    -----
    Linear in the size of the file. Four bytes a prompt token are kept, and nothing of the bodies
    but what the sampling needs.
    """
    reader = _Reader(plan, reading, batch.name)
    entries = BatchEntries()
    for entry in entries.read(batch):
        reader.take(entry)
    reader.count()
    _check_planned(plan, reader.seen, batch.name)
    reader.tell(note)
    return Work(reader.lines, reader.errors, reader.inputs)


def work_of_plan(plan: Plan, prompts: Callable[[int, int], Sequence[int]]) -> Work:
    """Give a run of the plan alone: outputs of exactly the planned tokens, each a line of its own.

    Parameters
    ----------
    prompts
        Token ids of a prompt from its index in the backlog and its tokens.
    """
    lines, inputs = {}, {}
    columns = (plan.index, plan.ids, plan.prompt_tokens, plan.output_tokens)
    for place, (index, name, prompt, output) in enumerate(zip(*columns, strict=True)):
        fixed = {"ignore_eos": True, "min_tokens": output, "detokenize": False}
        sampling = Sampling(fixed, output, Form(chat=False))
        planned = Place(index, name, place, output)
        lines[name] = Line(None, name, sampling, 1, [prompts(index, prompt)], [planned])
        inputs[name] = hashlib.sha256(f"{prompt},{output}".encode()).hexdigest()
    return Work(lines, [], inputs)


def random_prompts(seed: int, vocabulary: int) -> Callable[[int, int], array[int]]:
    """Make a source of prompts of random token ids, each by the seed and its index alone."""

    def prompt(index: int, tokens: int) -> array[int]:
        generator = np.random.default_rng((seed, index))
        ids = array("i")
        ids.frombytes(generator.integers(0, vocabulary, tokens, dtype=np.int32).tobytes())
        return ids

    return prompt


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


@dataclass
class _Waiting:
    """A line whose texts are not tokenized yet."""

    entry: Entry
    sampling: Sampling
    places: list[Place]
    prompts: list[Text | list[int]]


@dataclass
class _Reader:
    """The lines so far. Some wait until their texts are tokenized together."""

    plan: Plan
    reading: Reading
    source: str
    lines: dict[str, Line] = field(default_factory=dict)
    errors: list[LineError] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._rows = {name: row for row, name in enumerate(self.plan.ids)}
        self._oversized = {request.id: request for _, request in self.plan.skipped}
        self._waiting: list[_Waiting | LineError] = []
        self._ignored: dict[str, int] = {}
        self._differ = [0, 0, 0]  # prompts that are not as planned, their tokens planned and real
        self._cut = 0

    def take(self, entry: Entry | BadEntry) -> None:
        """Check one line."""
        if entry.custom_id is not None and entry.value is not None:
            self.inputs[entry.custom_id] = _fingerprint(entry.value)
        waiting: _Waiting | LineError
        if isinstance(entry, BadEntry):
            message = entry.message
            if entry.custom_id is None:
                message = f"line {entry.line}: {message}"
            waiting = LineError(entry.custom_id, entry.line, entry.code, message)
        else:
            self.seen.update(entry.sequences)
            try:
                waiting = self._request(entry)
            except BadLine as bad:
                status = 404 if bad.code == "model_not_found" else 400
                name = entry.custom_id
                waiting = LineError(name, entry.line, bad.code, str(bad), status)
        self._waiting.append(waiting)
        if len(self._waiting) >= LINES_AT_ONCE:
            self.count()

    def _request(self, entry: Entry) -> _Waiting:
        checked = entry.checked
        self._check_model(checked.body.get("model"))
        sampling = sampling_of(checked)
        for name in sampling.ignored:
            self._ignored[name] = self._ignored.get(name, 0) + 1
        places = [self._place(name) for name in entry.sequences]
        if has_text(checked) and self.reading.tokenizer is None:
            if not self.reading.may_estimate:
                fault = "its prompt is text: name a local tokenizer with --tokenizer FOLDER"
                raise InputError([Fault(self.source, entry.line, fault)])
            return _Waiting(entry, sampling, places, [])
        counter = self._tokenizer if has_text(checked) else None
        return _Waiting(entry, sampling, places, prompts_of(checked, counter))

    @cached_property
    def _tokenizer(self) -> TokenizerCounter:
        assert self.reading.tokenizer is not None
        return TokenizerCounter(self.reading.tokenizer)

    def _check_model(self, model: object) -> None:
        names = self.reading.models
        if model is None or not names or model in names:
            return
        if not isinstance(model, str):
            raise BadLine(f"model is {shown(model)}, not a name")
        raise BadLine(
            f"model is {shown(model)}, the engine serves {' and '.join(map(shown, names))}; "
            "--served-model-name gives it this name, --any-model answers whatever is asked for",
            "model_not_found",
        )

    def _place(self, name: str) -> Place:
        row = self._rows.get(name)
        if row is not None:
            return Place(self.plan.index[row], name, row, self.plan.output_tokens[row])
        if (request := self._oversized.get(name)) is not None:
            tokens = request.prompt_tokens + request.output_tokens
            raise BadLine(
                f"{name!r} needs {tokens:,} tokens, the plan's KV budget is "
                f"{self.plan.kv_tokens:,}: it was left out of the plan",
                "kv_budget_exceeded",
            )
        raise BadLine(f"{name!r} is not in the plan, which left it out", "not_planned")

    def count(self) -> None:
        """Tokenize what waits and sort the lines into good and bad."""
        waiting, self._waiting = self._waiting, []
        # Prompts that several lines share are tokenized, and kept, once.
        texts = {
            p: None
            for one in waiting
            if isinstance(one, _Waiting)
            for p in one.prompts
            if isinstance(p, Text)
        }
        ids: dict[Text, array[int]] = {}
        if texts:
            ids = dict(zip(texts, self._tokenizer.token_ids(list(texts)), strict=True))
        for one in waiting:
            if isinstance(one, LineError):
                self.errors.append(one)
                continue
            name, line = one.entry.custom_id, one.entry.line
            try:
                self.lines[name] = self._line(one, ids)
            except BadLine as bad:
                self.errors.append(LineError(name, line, bad.code, str(bad)))

    def _line(self, one: _Waiting, ids: Mapping[Text, array[int]]) -> Line:
        entry, choices = one.entry, one.entry.checked.choices
        if one.prompts:
            prompts: list[Sequence[int]] = [
                ids[p] if isinstance(p, Text) else _packed(p) for p in one.prompts
            ]
        else:
            prompts = [
                planned_prompt(place.index, self.plan.prompt_tokens[place.place])
                for place in one.places[::choices]
            ]
        if not all(prompts):
            raise BadLine("its prompt has no tokens")
        for k, place in enumerate(one.places):
            planned, real = self.plan.prompt_tokens[place.place], len(prompts[k // choices])
            if planned != real:
                self._differ = [
                    x + y for x, y in zip(self._differ, (1, planned, real), strict=True)
                ]
        chat = one.sampling.form.chat
        self._cut += not chat and entry.checked.output_limit is None
        return Line(entry.line, entry.custom_id, one.sampling, choices, prompts, one.places)

    def tell(self, note: Note) -> None:
        """Say what the user would not see otherwise."""
        for name, count in self._ignored.items():
            note(f"{self.source}: unknown key {name!r} is ignored ({count:,} {_lines(count)})")
        if self._cut:
            note(
                f"{self.source}: {self._cut:,} {_lines(self._cut)} without max_tokens: a "
                f"completion ends after {COMPLETION_LIMIT} tokens then, by the API"
            )
        differ, planned, real = self._differ
        if differ:
            note(
                f"{differ:,} of {len(self.plan.ids):,} prompts do not have the planned tokens "
                f"({planned:,} planned, {real:,} counted): the plan was made with estimates or "
                "another tokenizer; the counted ones are used"
            )


def _packed(ids: Sequence[int]) -> array[int]:
    if (largest := max(ids, default=0)) > INT32:
        raise BadLine(f"its prompt holds {largest}, which is no token id")
    return array("i", ids)


def _check_planned(plan: Plan, seen: set[str], source: str) -> None:
    """Refuse a plan of requests that the batch does not have."""
    missing = [name for name in plan.ids if name not in seen]
    if not missing:
        return
    shown_ones = [
        Fault(plan.source, None, f"has {name!r}, which {source} does not ask for")
        for name in missing[: SHOWN_FAULTS - 1]
    ]
    advice = Fault(source, None, "is not the batch that the plan was made of; plan it again")
    raise InputError([advice, *shown_ones], len(missing) + 1)


def _fingerprint(value: Mapping[str, Any]) -> str:
    """Hash what a line asks for, whatever the order and the layout of its keys."""
    asked = {"url": value.get("url"), "body": value.get("body")}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"
