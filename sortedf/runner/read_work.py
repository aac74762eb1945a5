"""Reads a batch file beside its plan: lines that can run, and why the others cannot."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sortedf.errors import SHOWN_FAULTS, Fault, InputError
from sortedf.instances.batch_entries import BadEntry, BatchEntries, Entry
from sortedf.instances.json_values import BadLine, shown
from sortedf.instances.plan import Plan
from sortedf.instances.prompts import Text
from sortedf.instances.reading import Note
from sortedf.instances.source import Source
from sortedf.instances.tokenizer import TokenizerCounter
from sortedf.instances.tokens import has_text, prompts_of
from sortedf.runner.jobs import Line, LineError, Place, Work, planned_prompt
from sortedf.runner.sampling import COMPLETION_LIMIT, Sampling, sampling_of
from sortedf.runner.sampling_values import INT32

LINES_AT_ONCE = 4096
"""Lines whose texts are tokenized together."""


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
        self._shared: dict[str, Sampling] = {}
        self._differ = [0, 0, 0]  # prompts that are not as planned, their tokens planned and real
        self._cut = self._uncounted = 0

    def take(self, entry: Entry | BadEntry) -> None:
        """Check one line."""
        if entry.custom_id is not None and entry.value is not None:
            self.inputs[entry.custom_id] = _fingerprint(entry.value)
        waiting: _Waiting | LineError
        if isinstance(entry, BadEntry):
            waiting = LineError(entry.custom_id, entry.line, entry.code, entry.message)
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
        if "seed" not in sampling.parameters:
            # Lines that are sampled alike, as most are, share what says how.
            sampling = self._shared.setdefault(repr(sampling), sampling)
        places = [self._place(name) for name in entry.sequences]
        if has_text(checked) and self.reading.tokenizer is None:
            if not self.reading.may_estimate:
                fault = "its prompt is text: name a local tokenizer with --tokenizer FOLDER"
                raise InputError([Fault(self.source, entry.line, fault)])
            self._uncounted += 1
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
        raise BadLine(f"the plan has no {name!r}: it was left out when planning", "not_planned")

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
        if self._uncounted:
            note(
                f"{self.source}: the prompts of {self._uncounted:,} {_lines(self._uncounted)} are "
                "taken to have the planned tokens; --tokenizer counts them"
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
    said = "is not the batch that the plan was made of; plan it again"
    if not seen:
        said = (
            "no line of it is a request of an OpenAI batch file; without BATCH, --random-prompts "
            "runs the plan of any other backlog"
        )
    advice = Fault(source, None, said)
    raise InputError([advice, *shown_ones], len(missing) + 1)


def _fingerprint(value: Mapping[str, Any]) -> str:
    """Hash what a line asks for, whatever the order and the layout of its keys."""
    asked = {"url": value.get("url"), "body": value.get("body")}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"
