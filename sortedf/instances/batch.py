"""Reader of OpenAI batch files: one request a line, one or more sequences a request."""

from __future__ import annotations

from typing import NamedTuple

from sortedf.instances.batch_entries import BadEntry, BatchEntries, Entry
from sortedf.instances.batch_line import BatchLine
from sortedf.instances.json_values import BadLine
from sortedf.instances.predictions import read_predictions
from sortedf.instances.prompts import Text
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source
from sortedf.instances.tokens import NEEDS_COUNTER, has_text, prompt_counter, prompts_of


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
    entries = BatchEntries()
    batch = _Batch(log, options, note)
    for entry in entries.read(source):
        batch.take(entry)
    return batch.finish(entries)


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
        self._waiting: list[tuple[int, _Request | str]] = []
        self._prompt_tokens: list[int] = []
        self._output_tokens: list[int] = []
        self._lines: list[int] = []
        self._ids: list[str] = []

    def take(self, entry: Entry | BadEntry) -> None:
        """Check one line."""
        request: _Request | str
        try:
            request = entry.message if isinstance(entry, BadEntry) else self._request(entry)
        except BadLine as bad:
            request = str(bad)
        # Bad lines wait too, so that faults are logged in the order of the file.
        self._waiting.append((entry.line, request))

    def finish(self, entries: BatchEntries) -> Columns:
        """Count what still waits and hand over the requests."""
        self._count()
        if self._predictions is not None:
            self._predictions.note_unknown(entries.line_of, self._note)
        return Columns(self._prompt_tokens, self._output_tokens, self._lines, ids=self._ids)

    def _request(self, entry: Entry) -> _Request:
        names, checked = entry.sequences, entry.checked
        output = [self._output(entry.custom_id, sequence, checked) for sequence in names]
        if has_text(checked) and self._counter is None:
            self._count()
            raise self._log.stop(entry.line, NEEDS_COUNTER)
        prompts = [p if isinstance(p, Text) else len(p) for p in prompts_of(checked, self._counter)]
        return _Request(names, [p for p in prompts for _ in range(checked.choices)], output)

    def _output(self, name: str, sequence: str, checked: BatchLine) -> int:
        if self._predictions is not None:
            return self._predictions.tokens(sequence, name)
        if checked.output_limit is None:
            raise BadLine(
                "no max_completion_tokens and no max_tokens: give the output tokens with "
                "--output-tokens FILE|N"
            )
        return checked.output_limit

    def _count(self) -> None:
        """Count the texts of the lines that wait and sort the lines into good and bad."""
        requests = [request for _, request in self._waiting if isinstance(request, _Request)]
        # The answers to one prompt share its text, which is counted once.
        texts = {p: 0 for request in requests for p in request.prompts if isinstance(p, Text)}
        if texts and self._counter is not None:
            texts = dict(zip(texts, self._counter.count(list(texts)), strict=True))
        for line, request in self._waiting:
            if isinstance(request, str):
                self._log.add(line, request)
                continue
            tokens = [texts[p] if isinstance(p, Text) else p for p in request.prompts]
            if not all(tokens):
                self._log.add(line, "its prompt has no tokens")
                continue
            self._ids += request.names
            self._prompt_tokens += tokens
            self._output_tokens += request.output_tokens
            self._lines += [line] * len(tokens)
