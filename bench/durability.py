"""How fast answers are put where no end of the process can lose them, beside SQLite.

    python bench/durability.py [FOLDER] [--seconds 2] [--bytes 1000] [--repeats 3]

Each row appends answers of so many bytes one by one, each durable before the next, for so many
seconds of the clock, into files of their own in FOLDER (a temporary one; what a disk takes to be
forced decides the rows that force it). Lines a second by the clock and microseconds of processor
time a line; medians of the repetitions. SQLite: a table of custom_id and line, a transaction for
each, with the write-ahead log.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from sortedf.runner.append_file import AppendFile, json_line
from sortedf.runner.folder import RunFolder

Append: TypeAlias = Callable[[int], object]


def answer(name: str, text: str) -> dict[str, Any]:
    """Give a line of output."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    response = {"status_code": 200, "request_id": "r", "body": {"choices": [choice]}}
    return {"id": f"batch_req_{name}", "custom_id": name, "response": response, "error": None}


@contextmanager
def appended(folder: Path, text: str, sync_seconds: float | None) -> Iterator[Append]:
    """Append to a file, forced to the disk every so often, or never by us."""
    with closing(AppendFile(folder / "output.jsonl", sync_seconds=sync_seconds)) as file:
        yield lambda number: file.append(json_line(answer(f"r-{number}", text)))


@contextmanager
def run_folder(folder: Path, text: str) -> Iterator[Append]:
    """Append to a run folder: each line is read back, and what is done is kept."""
    inputs = _Numbered()
    path = folder / "run"
    with RunFolder.create(path, {}, plan=b"", plan_name="-", inputs=inputs) as run:
        yield lambda number: run.append(answer(f"r-{number}", text))


class _Numbered(dict[str, str]):
    """Inputs without end, of which none is written down."""

    def __contains__(self, name: object) -> bool:
        return True


@contextmanager
def database(folder: Path, text: str, synchronous: str) -> Iterator[Append]:
    """Insert into a table, a transaction for each line."""
    with closing(sqlite3.connect(folder / "output.db", isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {synchronous}")
        connection.execute("create table output (custom_id text primary key, line blob)")

        def insert(number: int) -> None:
            name = f"r-{number}"
            row = (name, json_line(answer(name, text)))
            connection.execute("insert into output values (?, ?)", row)

        yield insert


def measure(append: Append, seconds: float) -> tuple[float, float]:
    """Give lines a second, and seconds of processor time a line."""
    begin, worked = time.perf_counter(), time.process_time()
    done = 0
    for number in count():
        append(number)
        done += 1
        if done % 16 == 0 and time.perf_counter() - begin > seconds:
            break
    return done / (time.perf_counter() - begin), (time.process_time() - worked) / done


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    text = "x" * max(0, options.bytes - len(json_line(answer("r-10000", ""))))
    rows: list[tuple[str, str, Callable[[Path], Any]]] = [
        ("run folder", "every second", lambda folder: run_folder(folder, text)),
        ("lines alone", "never", lambda folder: appended(folder, text, None)),
        ("lines alone", "every second", lambda folder: appended(folder, text, 1.0)),
        ("lines alone", "every line", lambda folder: appended(folder, text, 0.0)),
        ("SQLite, normal", "at checkpoints", lambda folder: database(folder, text, "normal")),
        ("SQLite, full", "every line", lambda folder: database(folder, text, "full")),
    ]
    table = Table("", "forced to the disk", box=SIMPLE_HEAD)
    for title in ("lines / s", "µs of processor time a line"):
        table.add_column(title, justify="right")
    for title, forced, begin in rows:
        figures = []
        for _ in range(options.repeats):
            with (
                tempfile.TemporaryDirectory(dir=options.folder) as name,
                begin(Path(name)) as append,
            ):
                figures.append(measure(append, options.seconds))
        rate, worked = np.median(figures, axis=0)
        table.add_row(title, forced, f"{rate:,.0f}", f"{worked * 1e6:,.1f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
