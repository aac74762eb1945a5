"""Reader of OpenAI batch files: one request a line, one or more sequences a request."""

from __future__ import annotations

from typing import NamedTuple

from sortedf.instances.batch_line import BatchLine, check_line, custom_id
from sortedf.instances.json_values import BadLine, decode_object, flag
from sortedf.instances.predictions import read_predictions
from sortedf.instances.prompts import Text
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source
from sortedf.instances.tokens import NEEDS_COUNTER, prompt_counter

MOST_SEQUENCES = 2**20
"""Most sequences that one line may ask for."""


def read_batch(source: Source, log: FaultLog, options: ReadOptions, note: Note) -> Columns:
    """Read a file of chats and completions as a backlog.

    A line with one prompt and one answer is a request named ``custom_id``. With ``n`` > 1, or a
    list of prompts, each sequence is a request of its own, ``custom_id#0``, ``custom_id#1``, ... in
    the order of the choices in the answer (all for the first prompt, then all for the second). No
    KV is assumed to be shared between them, so that a plan needs no prefix caching.

    Parameters
    ----------
    source
        The file.
    log
        Takes one fault for each line that cannot be planned.
    options
        Where the lengths come from. Prompts that are token ids are counted as they are, all others
        by the tokenizer or the estimate; the output tokens are ``output_tokens`` if given, else the
        line's ``max_completion_tokens``, else its ``max_tokens``.
    note
        Told of estimates and of predictions that were not used.

    Raises
    ------
    InputError
        When a prompt is text and the options do not say how to count it; for a fault in the file of
        predictions.
    OptionError
        Options that contradict each other, or a tokenizer that cannot be used.

    Notes
    -----
    Time and memory are linear in the size of the file.
    """
    batch = _Batch(log, options, note)
    for line, raw in source.lines():
        batch.take(line, raw)
    return batch.finish()


class _Request(NamedTuple):
    """A line that can be planned once its texts are counted: a column entry for each sequence."""

    names: list[str]
    prompts: list[Text | int]
    output_tokens: list[int]


class _Batch:
    """The requests so far. Lines wait here until their texts are counted together."""

    def __init__(self, log: FaultLog, options: ReadOptions, note: Note) -> None:
        self._log = log
        self._note = note
        self._predictions = read_predictions(options.output_tokens)
        self._counter = prompt_counter(options, note)
        self._line_of: dict[str, int] = {}
        self._waiting: list[tuple[int, _Request | BadLine]] = []
        self._prompt_tokens: list[int] = []
        self._output_tokens: list[int] = []
        self._lines: list[int] = []
        self._ids: list[str] = []

    def take(self, line: int, raw: bytes) -> None:
        """Check one line."""
        request: _Request | BadLine
        try:
            request = self._request(line, raw)
        except BadLine as bad:
            request = bad
        # Bad lines wait too, so that faults are logged in the order of the file.
        self._waiting.append((line, request))

    def finish(self) -> Columns:
        """Count what still waits and hand over the requests."""
        self._count()
        if self._predictions is not None:
            self._predictions.note_unknown(self._line_of, self._note)
        return Columns(self._prompt_tokens, self._output_tokens, self._lines, ids=self._ids)

    def _request(self, line: int, raw: bytes) -> _Request:
        entry = decode_object(raw)
        name = custom_id(entry)
        # This counts against a line even when the earlier one is bad for another reason: which of
        # the two was meant cannot be known.
        if (earlier := self._line_of.setdefault(name, line)) != line:
            raise BadLine(f"repeats the custom_id {name!r} of line {earlier}")
        checked = check_line(entry)
        names = self._sequences(line, name, checked)
        output = [self._output(name, sequence, checked) for sequence in names]
        prompts = [p for p in self._prompts(line, checked) for _ in range(checked.choices)]
        return _Request(names, prompts, output)

    def _sequences(self, line: int, name: str, checked: BatchLine) -> list[str]:
        """Names of the sequences of a line, which no other line may have."""
        count = checked.choices * max(1, len(checked.prompts))
        if count == 1:
            return [name]
        if count > MOST_SEQUENCES:
            raise BadLine(f"{count} sequences; a line may ask for {MOST_SEQUENCES}")
        names = [f"{name}#{k}" for k in range(count)]
        for sequence in names:
            if (earlier := self._line_of.setdefault(sequence, line)) != line:
                raise BadLine(f"its sequence {sequence!r} has the custom_id of line {earlier}")
        return names

    def _output(self, name: str, sequence: str, checked: BatchLine) -> int:
        if self._predictions is not None:
            return self._predictions.tokens(sequence, name)
        if checked.output_limit is None:
            raise BadLine(
                "no max_completion_tokens and no max_tokens: give the output tokens with "
                "--output-tokens FILE|N"
            )
        return checked.output_limit

    def _prompts(self, line: int, checked: BatchLine) -> list[Text | int]:
        """Prompts of a line: the text to count, or how many token ids there are."""
        needs_counter = checked.chat is not None or any(isinstance(p, str) for p in checked.prompts)
        if needs_counter and self._counter is None:
            self._count()
            raise self._log.stop(line, NEEDS_COUNTER)
        if checked.chat is not None and self._counter is not None:
            return [self._counter.chat(checked.body, checked.chat)]
        special_tokens = flag(checked.body, "add_special_tokens", True)
        return [
            Text(prompt, special_tokens) if isinstance(prompt, str) else len(prompt)
            for prompt in checked.prompts
        ]

    def _count(self) -> None:
        """Count the texts of the lines that wait and sort the lines into good and bad."""
        requests = [request for _, request in self._waiting if isinstance(request, _Request)]
        # The answers to one prompt share its text, which is counted once.
        texts = {p: 0 for request in requests for p in request.prompts if isinstance(p, Text)}
        if texts and self._counter is not None:
            texts = dict(zip(texts, self._counter.count(list(texts)), strict=True))
        for line, request in self._waiting:
            if isinstance(request, BadLine):
                self._log.add(line, str(request))
                continue
            tokens = [texts[p] if isinstance(p, Text) else p for p in request.prompts]
            if not all(tokens):
                self._log.add(line, "its prompt has no tokens")
                continue
            self._ids += request.names
            self._prompt_tokens += tokens
            self._output_tokens += request.output_tokens
            self._lines += [line] * len(tokens)
