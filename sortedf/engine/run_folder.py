"""A folder that a run of the engine left: what was asked of it, and when each token came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.replay_input import check_fit
from sortedf.engine.run_series import LONGEST_RUN, Series, read_series
from sortedf.engine.run_settings import settings_of
from sortedf.engine.settings import EngineSettings
from sortedf.engine.unfinished import META as META
from sortedf.engine.unfinished import is_unfinished, open_records
from sortedf.errors import Fault, InfeasibleError, InputError, InvalidRequestError
from sortedf.instances.json_values import BadLine, decode_object, shown, whole_number
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source, open_source
from sortedf.model import Instance

FloatArray: TypeAlias = npt.NDArray[np.float64]

REQUESTS, SERIES = "requests.jsonl", "timeseries.csv"

STAMPS = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
"""Of one monotonic clock, in seconds, in the order in which they must come."""

LATEST = 1e11
"""Seconds; in later stamps (or in other units) a float has no microseconds any more."""

SLACK = 1.0
"""Seconds that stamps may last longer than the run did by its wall clock."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of the engine; arrays of shape (n,) in the order of the file.

    Parameters
    ----------
    folder
        As it was named.
    instance
        Lengths and ids. Its KV budget is that of the settings.
    settings
        The engine's.
    blocks_known
        Whether the size of the KV cache was recorded or given.
    notes
        What the folder does not say and was assumed, a line each.
    arrivals
        Seconds at which each request came to the engine's queue, the first at 0.
    admitted, first_token, last_token
        On the same clock: first admission, first and last token.
    series
        Running, waiting and KV use over time, where they were recorded.
    hardware
        The device's name, "" where it was not recorded.
    model
        The model's name.
    """

    folder: str
    instance: Instance
    settings: EngineSettings
    blocks_known: bool
    notes: tuple[str, ...]
    arrivals: FloatArray
    admitted: FloatArray
    first_token: FloatArray
    last_token: FloatArray
    series: Series | None
    hardware: str
    model: str

    @property
    def makespan(self) -> float:
        """Seconds from the first arrival to the last token."""
        return float(self.last_token.max())

    @property
    def ttft(self) -> FloatArray:
        """Seconds from arrival to first token."""
        return self.first_token - self.arrivals

    @property
    def latency(self) -> FloatArray:
        """Seconds from arrival to last token."""
        return self.last_token - self.arrivals


def read_run(folder: str | Path, **given: Any) -> Run:
    """Read a run folder: ``meta.json``, ``requests.jsonl`` and, if it is there, ``timeseries.csv``.

    Of a run that was cut short (``started_at`` without ``finished_at``) what it recorded is read,
    a torn last line left out.

    Parameters
    ----------
    given
        Settings of :class:`sortedf.engine.EngineSettings`, instead of what the folder says or
        leaves open; above all ``num_gpu_blocks``.

    Raises
    ------
    InputError
        For a file that is missing or cannot be read; with a line for each request whose times are
        missing, of different clocks or in an order that cannot be; for settings that the replay
        does not know.
    """
    path = Path(folder)
    if not path.is_dir():
        raise _fault(folder, "no such folder; name one with meta.json and requests.jsonl")
    source = open_source(path / META)
    try:
        meta = decode_object(source.data)
    except BadLine as error:
        raise _fault(source.name, str(error)) from None
    rows = _read_requests(open_records(path / REQUESTS))
    stamps = np.array([row[3:] for row in rows]).T
    start = stamps[0].min()
    _check_whole(meta, len(rows), float(stamps.max() - start), source.name)
    ids = [row[0] for row in rows]
    prompt, output = (np.array([row[k] for row in rows], np.int64) for k in (1, 2))
    settings, blocks_known, notes = settings_of(meta, source.name, prompt, output, given)
    if is_unfinished(meta):
        notes = [*notes, "the run did not come to its end; what it recorded until then is read"]
    arrivals, admitted, first, last = stamps - start
    instance = Instance(prompt, output, settings.kv_tokens, ids=ids)
    _check_served(instance, settings, source.name)
    return Run(
        folder=str(folder),
        instance=instance,
        settings=settings,
        blocks_known=blocks_known,
        notes=tuple(notes),
        arrivals=arrivals,
        admitted=admitted,
        first_token=first,
        last_token=last,
        series=read_series(path / SERIES) if (path / SERIES).exists() else None,
        hardware=str(_section(meta, "hardware").get("device_name") or ""),
        model=str(meta.get("model") or ""),
    )


def _read_requests(source: Source) -> list[tuple[Any, ...]]:
    """Read id, lengths and stamps of each request."""
    log = FaultLog(source.name)
    rows: list[tuple[Any, ...]] = []
    seen: dict[str, int] = {}
    for line, text in source.lines():
        try:
            row = _request(decode_object(text))
        except BadLine as error:
            log.add(line, str(error))
            continue
        if (first := seen.setdefault(row[0], line)) != line:
            log.add(line, f"request_id {shown(row[0])} stands on line {first} too")
        rows.append(row)
    log.close(lambda note: None)
    if not rows:
        raise _fault(source.name, "holds no request")
    span = max(row[6] for row in rows) - min(row[3] for row in rows)
    if span > LONGEST_RUN:
        raise _fault(
            source.name,
            f"its stamps are {span:,.0f} s apart; {', '.join(STAMPS)} must be of one clock",
        )
    return rows


def _request(value: Mapping[str, Any]) -> tuple[Any, ...]:
    name = value.get("request_id")
    if not isinstance(name, str) or not name:
        raise BadLine(f"request_id is {shown(name)}; a text that names the request is expected")
    prompt = whole_number(value.get("input_toks"), "input_toks")
    output = whole_number(value.get("output_toks"), "output_toks")
    stamps = tuple(_stamp(value, key) for key in STAMPS)
    for (one, before), (other, after) in zip(
        zip(STAMPS, stamps, strict=True), zip(STAMPS[1:], stamps[1:], strict=False), strict=False
    ):
        if after < before:
            raise BadLine(
                f"{other} ({after!r}) is before {one} ({before!r}); times of one monotonic clock "
                f"in the order {', '.join(STAMPS)} are expected"
            )
        if after - before > LONGEST_RUN:
            raise BadLine(f"{one} ({before!r}) and {other} ({after!r}) are of different clocks")
    if stamps[2] == stamps[1]:
        raise BadLine("first_token_ts is scheduled_ts: a token cannot take no time")
    if (output == 1) != (stamps[3] == stamps[2]):
        less = "are equal" if output > 1 else "differ"
        raise BadLine(f"output_toks is {output}, but first_token_ts and last_token_ts {less}")
    return (name, prompt, output, *stamps)


def _stamp(value: Mapping[str, Any], key: str) -> float:
    stamp = value.get(key)
    if stamp is None:
        raise BadLine(f"{key} is missing; a request that did not finish cannot be in a run folder")
    number = isinstance(stamp, int | float) and not isinstance(stamp, bool)
    if not number or abs(stamp) > LATEST:
        raise BadLine(f"{key} is {shown(stamp)}, not a time in seconds")
    return float(stamp)


def _check_whole(meta: Mapping[str, Any], n: int, span: float, name: str) -> None:
    """See that the requests are all of the run, and of this run."""
    count = meta.get("num_requests")
    if count is not None and type(count) is not int:
        raise _fault(name, f"num_requests is {shown(count)}, not a whole number")
    if count is not None and count != n:
        raise _fault(name, f"num_requests is {count}, but {REQUESTS} has {n}; is it truncated?")
    try:
        began, ended = (
            datetime.fromisoformat(str(meta[key])) for key in ("started_at", "finished_at")
        )
        lasted = (ended - began).total_seconds()
    except (KeyError, TypeError, ValueError):
        return  # not said, or not in a way that can be read: nothing to hold the stamps against
    if span > lasted + SLACK:
        raise _fault(
            name,
            f"the run lasted {lasted:.1f} s by started_at and finished_at, "
            f"but the stamps in {REQUESTS} span {span:.1f} s",
        )


def _check_served(instance: Instance, settings: EngineSettings, name: str) -> None:
    """See that an engine of these settings can have served what was served."""
    longest = settings.max_model_len
    tokens = instance.prompt_tokens + instance.output_tokens
    if longest is not None and tokens.max() > longest:
        index = int(tokens.argmax())
        raise _fault(
            name,
            f"request {instance.ids[index]!r} has {tokens[index]} tokens, but max_model_len is "
            f"{longest}: settings and requests are not of one run",
        )
    try:
        check_fit(instance, instance.output_tokens, settings)
    except (InfeasibleError, InvalidRequestError) as error:
        first = str(error).splitlines()[0]
        raise _fault(name, f"{first}: settings and requests are not of one run") from None


def _section(meta: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = meta.get(name)
    return value if isinstance(value, dict) else {}


def _fault(path: str | Path, message: str) -> InputError:
    return InputError([Fault(str(path), None, message)])
