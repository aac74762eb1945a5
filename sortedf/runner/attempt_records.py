"""The records of one start of a run, in the files that :func:`sortedf.engine.read_run` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from sortedf.engine.run_folder import META, REQUESTS, SERIES
from sortedf.engine.step_log import STEPS_FILE
from sortedf.errors import SortedfError
from sortedf.instances.files import write_whole
from sortedf.runner.append_file import AppendFile, json_line
from sortedf.runner.engines import Answer

TICKS = 60
"""Rows that the time series of a short run has; of a long one it has one a second."""


class AttemptRecords:
    """Writes ``meta.json`` and ``requests.jsonl`` as a run goes, ``timeseries.csv`` at its end.

    A context manager. Before its end ``meta.json`` does not say how many requests there are, so
    that the folder of a run that was killed can be read as far as it came.

    Parameters
    ----------
    folder
        Where to.
    meta
        What the engine says of itself, and what else is to be known of this start.

    Attributes
    ----------
    refused
        Jobs that ended without an answer, for ``meta.json``.

    Raises
    ------
    StorageError
        When a file cannot be written.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any]) -> None:
        self.folder = folder
        self._meta = {**meta, "started_at": _told(_now())}
        self._began = _now()
        self._count = 0
        self.refused = 0
        self._first = float("inf")
        self._last = float("-inf")
        self._file: AppendFile | None = None

    def __enter__(self) -> AttemptRecords:
        self._write_meta(self._meta)
        self._file = AppendFile(self.folder / REQUESTS, sync_seconds=None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._file is not None
        self._file.close()
        # What ended the run is to be told, not what its end brought.
        with suppress(SortedfError) if kind is not None else nullcontext():
            self._finish()

    def _finish(self) -> None:
        # The clock of a replay runs ahead of the wall's.
        lasted = max(0.0, self._last - self._first)
        finished = max(_now(), self._began + timedelta(seconds=lasted))
        with suppress(FileNotFoundError):  # the engine may not have come to a step
            self._write_series(self.folder / STEPS_FILE)
        self._write_meta(
            {
                **self._meta,
                "finished_at": _told(finished),
                "num_requests": self._count,
                "num_refused": self.refused,
            }
        )

    def take(self, answer: Answer) -> None:
        """Note an answer."""
        assert self._file is not None
        times = answer.times
        row = {
            "request_id": answer.job.name,
            "input_toks": len(answer.job.prompt),
            "output_toks": answer.output_tokens,
            "arrival_time": times.arrival,
            "queued_ts": times.queued,
            "scheduled_ts": times.admitted,
            "first_token_ts": times.first_token,
            "last_token_ts": times.last_token,
            "preemptions": times.preemptions,
            "predicted_output_toks": answer.job.output_tokens,
        }
        self._file.append(json_line(row))
        self._count += 1
        self._first = min(self._first, times.queued)
        self._last = max(self._last, times.last_token)

    def _write_meta(self, meta: Mapping[str, Any]) -> None:
        write_whole(self.folder / META, [json.dumps(meta, indent=2, default=str).encode() + b"\n"])

    def _write_series(self, steps: Path) -> None:
        """Write the state of the engine at even moments, out of its step log."""
        text = steps.read_text()
        whole = text[: text.rfind("\n") + 1].splitlines()  # a full disk leaves a torn line
        rows = [(float(row["begin"]) + float(row["seconds"]), row) for row in csv.DictReader(whole)]
        if not rows:
            return
        begin, end = float(rows[0][1]["begin"]), rows[-1][0]
        tick = min(1.0, (end - begin) / TICKS)
        self._meta["tick_seconds"] = tick
        lines = ["t,running,waiting,kv_cache_pct"]
        place, number = 0, 1
        while begin + number * tick <= end:
            moment = begin + number * tick
            while place + 1 < len(rows) and rows[place + 1][0] <= moment:
                place += 1
            state = rows[place][1]
            use = 100 * float(state["kv_use"])
            lines.append(f"{number * tick:.6g},{state['running']},{state['waiting']},{use:.4f}")
            number += 1
        write_whole(self.folder / SERIES, ["\n".join(lines).encode() + b"\n"])


def _now() -> datetime:
    return datetime.now(UTC)


def _told(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
