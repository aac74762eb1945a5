"""Read finished requests, to learn from, and requests whose outputs are to be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sortedf.errors import Fault, InputError, OptionError
from sortedf.instances.answers import Usage, read_usages
from sortedf.instances.read import kind_of, read_source
from sortedf.instances.reading import FaultLog, Note, ReadOptions
from sortedf.instances.source import open_source
from sortedf.instances.told import has_arrivals, hours_told, rows_told, traits_told
from sortedf.instances.traits import History, Traits
from sortedf.model import Instance
from sortedf.model.instance import MAX_TOKENS

_ROWS = ("csv", "jsonl")
DAY = 24 * 3600
"""Seconds that a history must span for the hour of a day to be a feature."""


class Requests(NamedTuple):
    """Requests of a file: as a backlog, and what is known of them on arrival."""

    instance: Instance
    traits: Traits
    seconds: Sequence[float]
    """Arrivals, from the first; releases where there are such; else all 0."""
    kind: str
    """``csv``, ``jsonl``, ``batch`` or ``sharegpt``."""


def read_requests(
    path: str | Path,
    *,
    finished: bool = False,
    columns: Sequence[str] = (),
    skip_bad_lines: bool = False,
    tokenizer: str | None = None,
    prompt_tokens: str | None = None,
    note: Note,
) -> Requests:
    """Read requests of any format of :func:`sortedf.read_backlog`, with all that is known of them.

    Besides prompt tokens that is, where there is such: the hour of a time stamp that is a date; a
    limit (``max_tokens``); the text (``prompt``, or the messages of a batch file); the columns,
    keys or ``metadata`` of :data:`.traits.COLUMN_NAMES`; and the ``columns`` asked for. Others are
    not looked at, as they may be known only afterwards.

    Parameters
    ----------
    finished
        Whether output tokens must be there; otherwise they count as 1, even if they are.
    columns
        More of the file that are known on arrival, by name.
    skip_bad_lines, tokenizer, prompt_tokens
        As :func:`sortedf.read_backlog`; the last two are not for token counts and left aside there.

    Raises
    ------
    InputError
        As :func:`sortedf.read_backlog`; for a column that there is not.
    """
    source = open_source(path)
    log = FaultLog(source.name, skip_bad_lines)
    kind = kind_of(source, log)
    if kind in _ROWS:
        options = ReadOptions(
            arrivals=has_arrivals(source, kind),
            skip_bad_lines=skip_bad_lines,
            without_outputs=not finished,
        )
    else:
        outputs = None if finished else 1
        options = ReadOptions(False, skip_bad_lines, tokenizer, prompt_tokens, outputs)
    instance, read = read_source(source, MAX_TOKENS, options, note)
    told = rows_told(source, kind, read.lines)
    traits = traits_told(instance, told, read.lines, columns, log)
    if options.arrivals:
        traits = replace(traits, hours=hours_told(told))
        # Read for their order alone: stamps are no releases unless somebody asks for that.
        instance = instance.replace(release=np.zeros(len(instance), np.int64))
    seconds = read.seconds if options.arrivals else read.release
    return Requests(instance, traits, seconds or [0] * len(instance), kind)


def read_history(
    path: str | Path,
    *,
    answers: str | Path | None = None,
    columns: Sequence[str] = (),
    skip_bad_lines: bool = False,
    tokenizer: str | None = None,
    prompt_tokens: str | None = None,
    note: Note,
) -> History:
    """Read finished requests, in the order of their arrival.

    They are told by time stamps or releases where there are such, else by their order in the file.

    Parameters
    ----------
    path
        A trace, or any file of prompt and output tokens; ShareGPT; or an OpenAI batch file.
    answers
        The output file of the batch, such as ``output.jsonl`` of a run folder: output tokens are
        those of its usage. So are prompt tokens, unless the options say how to count them.
        Requests that are not answered, or with several answers, are left out.
    columns, skip_bad_lines, tokenizer, prompt_tokens
        As :func:`read_requests`.

    Raises
    ------
    InputError
        As :func:`read_requests`; when nothing in the file is finished.
    OptionError
        For a batch without answers, or answers to what is none.
    """
    counted = tokenizer is not None or prompt_tokens is not None
    options: dict[str, Any] = {"columns": columns, "skip_bad_lines": skip_bad_lines}
    options["tokenizer"] = tokenizer
    if answers is None:
        if kind_of(open_source(path), FaultLog(str(path))) == "batch":
            raise OptionError(f"{path} is a batch file; name the file of its answers (--answers)")
        options["prompt_tokens"] = prompt_tokens
        return _in_order(read_requests(path, finished=True, note=note, **options), str(path))
    # Where nobody says how to count, an estimate stands in until the usage says how many they are.
    options["prompt_tokens"] = prompt_tokens if counted else "chars/4"
    found = read_requests(path, note=note if counted else _no_note, **options)
    if found.kind != "batch":
        raise OptionError(f"answers are to a batch file, which {path} is not")
    source = open_source(answers)
    log = FaultLog(source.name, skip_bad_lines)
    usages = read_usages(source, log)
    log.close(note)
    return _in_order(_answered(found, usages, counted, source.name, note), str(path))


def _in_order(found: Requests, source: str) -> History:
    seconds = np.asarray(found.seconds)
    order = np.argsort(seconds, kind="stable")
    traits = found.traits.select(order)
    if seconds[order[-1]] - seconds[order[0]] < DAY:  # says nothing of the hours of a day
        traits = replace(traits, hours=None)
    return History(
        traits=traits,
        output_tokens=found.instance.output_tokens[order],
        source=source,
    )


def _answered(
    found: Requests, usages: Mapping[str, Usage], counted: bool, source: str, note: Note
) -> Requests:
    """Put the lengths of answers to their requests."""
    instance = found.instance
    kept = [i for i, name in enumerate(instance.ids) if name in usages]
    if not kept:
        raise InputError([Fault(source, None, "no answer to a request of the batch")])
    if left := len(instance) - len(kept):
        noun = "sequence" if left == 1 else "sequences"
        note(f"{left} {noun} without an answer, or one of several of a request, left out")
    given = [usages[instance.ids[i]] for i in kept]
    some = instance.select(np.array(kept))
    prompts = some.prompt_tokens if counted else np.array([usage.prompt_tokens for usage in given])
    outputs = np.array([usage.output_tokens for usage in given])
    traits = replace(found.traits.select(np.array(kept)), prompt_tokens=prompts)
    finished = some.replace(prompt_tokens=prompts, output_tokens=outputs)
    return Requests(finished, traits, [0] * len(kept), found.kind)


def _no_note(_: str) -> None:
    """Say nothing of an estimate that is not used."""
