"""Reader of ShareGPT conversations: the first turn is the prompt, the second the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from sortedf.instances.json_text import JSON_ERRORS, json_fault
from sortedf.instances.json_values import BadLine, decode_object, shown
from sortedf.instances.predictions import Predictions, read_predictions
from sortedf.instances.prompts import Text
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source
from sortedf.instances.tokens import NEEDS_COUNTER, prompt_counter

_BYTE = re.compile(r"\(byte ([0-9]+)\)")


def read_sharegpt(source: Source, log: FaultLog, options: ReadOptions, note: Note) -> Columns:
    """Read a JSON array of conversations, or one conversation a line, as a backlog.

    A request is the first two turns, whoever speaks them, as in vLLM's serving benchmark; later
    turns are ignored. Its prompt tokens are those of the first turn's text without a chat template,
    its output tokens ``output_tokens`` if given, else those of the second turn's text, at least 1.
    Conversations with fewer than two turns, without text in the first, or without an answer in the
    second while answers are counted, are left out and their number is noted.

    Requests are named by the ``id`` of their conversation when all have one and no two share one,
    which is not so in every published file; otherwise by its position in the file, from "0".

    Parameters
    ----------
    source
        The file.
    log
        Takes one fault for each element (or line) that is not a conversation, with its first line.
    options
        Where the lengths come from.
    note
        Told of conversations left out, estimates, and predictions that were not used.

    Raises
    ------
    InputError
        When the file is not a JSON array after all, or the options do not say how to count tokens;
        a fault in the file of predictions.
    OptionError
        Options that contradict each other, or a tokenizer that cannot be used.

    Notes
    -----
    Time and memory are linear in the size of the file. A damaged line of JSON Lines is one fault;
    in an array it makes the whole file unreadable.
    """
    predictions = read_predictions(options.output_tokens)
    counter = prompt_counter(options, note)
    kept: list[_Conversation] = []
    short = empty = 0
    for position, (line, raw) in enumerate(_elements(source, log)):
        try:
            entry = decode_object(raw)
            turns = _first_two_turns(entry)
        except BadLine as bad:
            log.add(line, str(bad))
            continue
        if turns is None:
            short += 1
        elif not turns[0] or (predictions is None and not turns[1]):
            empty += 1
        else:
            kept.append(_Conversation(line, str(position), entry.get("id"), *turns))
    _note_left_out(short, "fewer than two turns", source, note)
    _note_left_out(empty, "an empty prompt or answer", source, note)
    if counter is None:
        if kept:
            raise log.stop(kept[0].line, NEEDS_COUNTER)
        return Columns([], [], [], ids=[])
    names = _names(kept)
    prompts = counter.count([Text(conversation.prompt) for conversation in kept])
    if predictions is None:
        answers = counter.count([Text(conversation.answer) for conversation in kept])
        outputs = [max(1, tokens) for tokens in answers]
    else:
        outputs = _predicted(kept, names, predictions, log)
        predictions.note_unknown(set(names), note)
    good = [k for k, tokens in enumerate(outputs) if tokens]
    return Columns(
        prompt_tokens=[max(1, prompts[k]) for k in good],
        output_tokens=[outputs[k] for k in good],
        lines=[kept[k].line for k in good],
        ids=[names[k] for k in good],
    )


class _Conversation(NamedTuple):
    line: int
    position: str
    id: object
    prompt: str
    answer: str


def _elements(source: Source, log: FaultLog) -> Iterator[tuple[int, bytes]]:
    """Give each conversation, undecoded, and the line where it begins."""
    data = source.data
    if not data.lstrip().startswith(b"["):
        yield from source.lines()
        return
    line, end = 1, 0
    for raw in _array(data, log):
        element = bytes(raw)
        # Only blanks and a comma lie before it, so that it is found at once.
        start = data.index(element, end)
        line += data.count(b"\n", end, start)
        yield line, element
        line += element.count(b"\n")
        end = start + len(element)


def _array(data: bytes, log: FaultLog) -> list[msgspec.Raw]:
    """Take an array apart without decoding its elements; all of it must be JSON."""
    try:
        return msgspec.json.decode(data, type=list[msgspec.Raw])
    except JSON_ERRORS as error:
        match = _BYTE.search(str(error))
        at = int(match[1]) if match else len(data.rstrip())
        line = data.count(b"\n", 0, at) + 1
        raise log.stop(line, json_fault(data, error)) from None


def _first_two_turns(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """Texts of the first two turns; ``None`` when there are fewer."""
    turns = entry.get("conversations")
    if not isinstance(turns, list):
        raise BadLine(f"conversations is {shown(turns)}, not a list of turns")
    texts = []
    for k, turn in enumerate(turns[:2]):
        text = turn.get("value") if isinstance(turn, dict) else None
        if not isinstance(text, str):
            raise BadLine(f"conversations[{k}] is not an object with a text as its value")
        texts.append(text)
    return (texts[0], texts[1]) if len(texts) == 2 else None


def _names(kept: Sequence[_Conversation]) -> list[str]:
    """Own ids where they tell all conversations apart, else their positions in the file."""
    own = [c.id for c in kept if isinstance(c.id, str) and c.id]
    return own if len(set(own)) == len(kept) else [c.position for c in kept]


def _predicted(
    kept: Sequence[_Conversation], names: Sequence[str], predictions: Predictions, log: FaultLog
) -> list[int]:
    """Predicted output tokens of each conversation; 0, and a fault, where there are none."""
    outputs = []
    for conversation, name in zip(kept, names, strict=True):
        try:
            outputs.append(predictions.tokens(name))
        except BadLine as bad:
            log.add(conversation.line, str(bad))
            outputs.append(0)
    return outputs


def _note_left_out(count: int, why: str, source: Source, note: Note) -> None:
    if count:
        noun = "conversation" if count == 1 else "conversations"
        note(f"{source.name}: {count} {noun} with {why} left out")
