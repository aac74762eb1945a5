"""CSV files of token counts: sortedf's own and those of the public traces."""

from __future__ import annotations

import re

from sortedf.instances.csv_rows import bad_cell, csv_rows
from sortedf.instances.json_values import BadLine
from sortedf.instances.lengths import ABSENT, Rows, find_layout
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.source import Source

_MOST_DIGITS = 4000
"""Of a number, so that Python's own limit for integers in text is never met."""

_NUMBER = re.compile(rf"-?[0-9]{{1,{_MOST_DIGITS}}}")


def read_csv(source: Source, log: FaultLog, options: ReadOptions, note: Note) -> Columns:
    """Read a CSV file whose first row names its columns.

    Columns may come in any order; those without meaning here are ignored. A number is written in
    plain digits, blanks around it do not matter; ids are taken as they are. An id may hold line
    breaks: the line of a row is the one where it begins. Blank lines are left out, and a file of
    them alone has no rows.

    Raises
    ------
    InputError
        When the first row does not name the token counts, each once.

    Notes
    -----
    O(size of the file). A row with a cell longer than ``csv.field_size_limit()`` (131,072
    characters) is a fault.
    """
    records = csv_rows(source, log)
    line, header = next(records, (1, []))
    if not header:
        return Columns([], [], [])
    if fault := bad_cell(header):
        raise log.stop(line, fault)
    try:
        layout = find_layout(header, source.name, options)
    except BadLine as error:
        if any(_NUMBER.fullmatch(cell.strip()) for cell in header):
            raise log.stop(line, f"the first row names no columns: {error}") from None
        raise log.stop(line, str(error)) from None
    rows = Rows(layout, log, options.step, options.without_outputs)
    width, all_utf8 = len(header), source.is_utf8
    for line, row in records:
        if len(row) != width:
            fewer = "few" if len(row) < width else "many"
            log.add(line, f"too {fewer} cells: {len(row)}, the header has {width}")
        elif not all_utf8 and (fault := bad_cell(row)):
            log.add(line, fault)
        else:
            rows.add(
                line,
                _number(row[layout.prompt]),
                ABSENT if layout.output is None else _number(row[layout.output]),
                ABSENT if layout.id is None else row[layout.id],
                ABSENT if layout.release is None else _number(row[layout.release]),
                ABSENT if layout.stamp is None else row[layout.stamp],
            )
    return rows.columns(note)


def _number(cell: str) -> int | str:
    """Give the number that the cell holds in plain digits; else the cell itself, to be refused."""
    # int() alone would take "1_024", "+64" and the digits of other scripts.
    if cell.isdigit() and cell.isascii() and len(cell) <= _MOST_DIGITS:
        return int(cell)
    cell = cell.strip()
    return int(cell) if _NUMBER.fullmatch(cell) else cell
