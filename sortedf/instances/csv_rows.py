"""Rows of a CSV file, each with its line: what all readers of CSV share."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from sortedf.instances.reading import FaultLog
from sortedf.instances.source import Source


def csv_rows(source: Source, log: FaultLog) -> Iterator[tuple[int, list[str]]]:
    """Give each row that is not blank with the line where it begins.

    A row that is no CSV is a fault and left out. Bytes that are not UTF-8 become lone surrogates,
    which valid text cannot hold: ask :func:`bad_cell`.

    Raises
    ------
    InputError
        For a quote that is not closed as it should be, after which nothing can be read.

    Notes
    -----
    O(size of the file). A row with a cell longer than ``csv.field_size_limit()`` (131,072
    characters) is a fault.
    """
    text = io.TextIOWrapper(
        io.BytesIO(source.data), encoding="utf-8", errors="surrogateescape", newline="\n"
    )
    reader = csv.reader(text, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if reader.line_num > line:
                # The rows in between are lost, and nobody knows which they were.
                raise log.stop(
                    line, f"a quote that is not closed as it should be: {error}"
                ) from None
            stray = "new-line character" in str(error)
            log.add(line, "a CR in the middle of the line" if stray else f"not CSV: {error}")
            continue
        if len(row) > 1 or (row and row[0].strip()):
            yield line, row


def bad_cell(row: list[str]) -> str | None:
    """Say what is not UTF-8 in a row; ``None`` when nothing is."""
    for cell in row:
        try:
            cell.encode()
        except UnicodeEncodeError as error:
            byte = ord(cell[error.start]) & 0xFF
            return f"not valid UTF-8 (byte 0x{byte:02x}); save the file as UTF-8"
    return None
