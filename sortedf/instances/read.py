"""Read a backlog: the format told by what is in the file, the rows checked, the instance built."""

from __future__ import annotations

import warnings
from pathlib import Path

import msgspec

from sortedf.errors import Fault, InputError, InvalidRequestError, OptionError
from sortedf.instances.csv_lengths import read_csv
from sortedf.instances.json_text import (
    JSON_ERRORS,
    first_object,
    is_one_object,
    json_fault,
    schema_of,
)
from sortedf.instances.json_values import shown
from sortedf.instances.jsonl_lengths import read_jsonl
from sortedf.instances.lengths import names_lengths
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source, open_source
from sortedf.instances.timestamps import SECOND
from sortedf.model import Instance


def read_backlog(
    path: str | Path,
    *,
    kv_tokens: int,
    arrivals: bool = False,
    step_seconds: float = 1.0,
    skip_bad_lines: bool = False,
    tokenizer: str | None = None,
    prompt_tokens: str | None = None,
    output_tokens: str | int | None = None,
    note: Note | None = None,
) -> Instance:
    """Read the requests of a file and put them on a KV budget.

    The format is told by the content: CSV or JSONL of token counts (sortedf's own names or those of
    the Azure, BurstGPT, Vidur, splitwise, vLLM and Mooncake traces), an OpenAI batch file, or
    ShareGPT conversations; each also gzipped.

    Parameters
    ----------
    path
        The file; ``-`` is standard input.
    kv_tokens
        The KV budget M in tokens.
    arrivals
        Turn the time stamps of a trace into releases: whole steps since the earliest, rounded
        down. Otherwise they are ignored. A column (or key) ``release``, in steps, is part of the
        backlog and always honoured.
    step_seconds
        Seconds of a step, to the nanosecond, for ``arrivals``.
    skip_bad_lines
        Leave bad lines out, each of them noted, instead of refusing the file.
    tokenizer, prompt_tokens
        Batch files and ShareGPT: where prompt tokens come from, a local tokenizer (folder or file)
        or a rule such as ``"chars/4"``.
    output_tokens
        Batch files and ShareGPT: output tokens where a request does not say, a constant or a file.
    note
        Called with each line for the user on what was left out or estimated; by default each is a
        ``UserWarning``.

    Raises
    ------
    InputError
        With the faults of the file, each with its line.
    OptionError
        For an option that the format of the file does not take.
    InvalidRequestError
        For a KV budget that is none.
    """
    Instance([1], [1], kv_tokens)  # A bad budget is not the file's fault, nor worth reading it.
    options = ReadOptions(
        arrivals,
        skip_bad_lines,
        tokenizer,
        prompt_tokens,
        output_tokens,
        step=_step(arrivals, step_seconds),
    )
    if note is not None:
        return read_source(open_source(path), kv_tokens, options, note)[0]
    notes: list[str] = []
    instance, _ = read_source(open_source(path), kv_tokens, options, notes.append)
    for text in notes:
        warnings.warn(text, stacklevel=2)
    return instance


def _step(arrivals: bool, seconds: float) -> int:
    """Nanoseconds of a step."""
    if not 1e-9 <= seconds <= 1e12:
        raise OptionError(f"step_seconds is {seconds!r}; it must be from 1e-9 to 1e12")
    if seconds != 1 and not arrivals:
        raise OptionError("step_seconds: time stamps are ignored without arrivals")
    return round(seconds * SECOND)


def read_trace(
    path: str | Path, *, kv_tokens: int, skip_bad_lines: bool = False, note: Note | None = None
) -> tuple[Instance, list[float]]:
    """Read the requests of a trace and when each arrived, in seconds since the first, exactly.

    As :func:`read_backlog` with ``arrivals``, whose releases are whole seconds, reads them. In a
    backlog with releases each step of these counts as a second.
    """
    Instance([1], [1], kv_tokens)
    options = ReadOptions(arrivals=True, releases=True, skip_bad_lines=skip_bad_lines)
    notes: list[str] = []
    take = notes.append if note is None else note
    instance, columns = read_source(open_source(path), kv_tokens, options, take)
    for text in notes:
        warnings.warn(text, stacklevel=2)
    if columns.seconds is None:
        return instance, instance.release.astype(float).tolist()
    return instance, list(columns.seconds)


def read_source(
    source: Source, kv_tokens: int, options: ReadOptions, note: Note
) -> tuple[Instance, Columns]:
    """Read the requests of a file, and give the columns that they were built from, too."""
    log = FaultLog(source.name, options.skip_bad_lines)
    columns = _read_columns(source, log, options, note)
    columns = _without_repeated_ids(columns, log)
    log.close(note, left=bool(columns.lines))
    if not columns.lines:
        raise InputError([Fault(source.name, None, "no requests in the file")])
    try:
        instance = Instance(
            columns.prompt_tokens,
            columns.output_tokens,
            kv_tokens,
            release=columns.release,
            ids=columns.ids,
        )
    except InvalidRequestError as error:
        line = None if error.index is None else columns.lines[error.index]
        raise InputError([Fault(source.name, line, str(error))]) from None
    return instance, columns


def _read_columns(source: Source, log: FaultLog, options: ReadOptions, note: Note) -> Columns:
    kind = kind_of(source, log)
    if kind in ("csv", "jsonl"):
        for name in ("tokenizer", "prompt_tokens", "output_tokens"):
            if getattr(options, name) is not None:
                raise OptionError(
                    f"{name} is only for OpenAI batch files and ShareGPT; "
                    f"{source.name} brings its token counts"
                )
        return (read_csv if kind == "csv" else read_jsonl)(source, log, options, note)
    if options.arrivals:
        raise OptionError(f"arrivals: {source.name} has no time stamps")
    # These two may need a tokenizer; a trace is read without loading them.
    if kind == "batch":
        from sortedf.instances.batch import read_batch

        return read_batch(source, log, options, note)
    from sortedf.instances.sharegpt import read_sharegpt

    return read_sharegpt(source, log, options, note)


def kind_of(source: Source, log: FaultLog) -> str:
    """Tell the format by the first character and, for JSON, by the keys of the first object."""
    start = source.data.lstrip()[:1]
    if start not in (b"[", b"{"):
        return "csv"
    first_line = next(source.lines())[0]
    if start == b"[":
        if b'"conversations"' in source.data:
            return "sharegpt"
        raise log.stop(first_line, "this is a JSON array, not one object a line")
    if schema := schema_of(source):
        raise log.stop(first_line, f"no backlog but a {schema} document, for `sortedf verify`")
    found = first_object(source)
    if found is None or (found[0] > first_line and is_one_object(source)):
        raise _nothing_but_faults(source, log)
    keys = found[1].keys()
    if names_lengths(keys):
        return "jsonl"
    if "conversations" in keys:
        return "sharegpt"
    return "batch" if keys & {"custom_id", "method", "url", "body"} else "jsonl"


def _nothing_but_faults(source: Source, log: FaultLog) -> InputError:
    if is_one_object(source):
        return log.stop(1, "this is one JSON object over several lines, not one object a line")
    for line, text in source.lines():
        try:
            msgspec.json.decode(text, type=dict)
        except JSON_ERRORS as error:
            log.add(line, json_fault(text, error))
    return InputError(log.faults, log.total)


def _without_repeated_ids(columns: Columns, log: FaultLog) -> Columns:
    """Leave out each request whose id an earlier one has; ids are compared as they are."""
    ids, lines = columns.ids, columns.lines
    if ids is None or len(set(ids)) == len(ids):
        return columns
    seen: dict[str, int] = {}
    keep = []
    for index, name in enumerate(ids):
        if (first := seen.setdefault(name, index)) == index:
            keep.append(index)
        else:
            log.add(lines[index], f"repeats the id {shown(name)} of line {lines[first]}")
    log.faults.sort(key=lambda fault: fault.line or 0)
    release, seconds = columns.release, columns.seconds
    return Columns(
        [columns.prompt_tokens[i] for i in keep],
        [columns.output_tokens[i] for i in keep],
        [lines[i] for i in keep],
        ids=[ids[i] for i in keep],
        release=None if release is None else [release[i] for i in keep],
        seconds=None if seconds is None else [seconds[i] for i in keep],
    )
