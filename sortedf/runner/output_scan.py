"""An output file that a stopped run left: what stands in it, and its torn end repaired."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sortedf.errors import Fault, InputError
from sortedf.instances.json_values import BadLine, shown
from sortedf.instances.reading import FaultLog
from sortedf.instances.source import BOM
from sortedf.runner.append_file import storage_error
from sortedf.runner.output_lines import Ledger, Status, read_line

_BLOCK = 1 << 20
_EMPTY = b"\0 \t\r\n"
"""What may stand after the last line: blanks, and the zeros that a failing machine leaves."""


@dataclass
class Scan:
    """An output file, read through.

    Parameters
    ----------
    ledger
        Which of its lines stand.
    end
        Where the last line that can be read ends, its newline not counted; bytes.
    notes
        What was found wrong, a line each.
    """

    ledger: Ledger = field(default_factory=Ledger)
    end: int = 0
    notes: list[str] = field(default_factory=list)


def holds_answer(path: Path) -> bool:
    """Whether a request was answered, by an output file that may not exist. O(up to the first)."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        for text in file:
            with suppress(BadLine):
                if read_line(text).status is Status.ANSWERED:
                    return True
    return False


def scan_output(path: Path, inputs: Collection[str]) -> Scan:
    """Read an output file through, a line at a time. O(its size); nothing is changed.

    Parameters
    ----------
    inputs
        The ``custom_id`` of every request.

    Raises
    ------
    InputError
        When it cannot be read; when none of several lines is one of an output file; for lines of
        requests that are not among the inputs.
    """
    scan = Scan()
    bad: list[tuple[int, int, str]] = []  # line, offset, what is wrong
    strangers = FaultLog(str(path))
    left_out = FaultLog(str(path), skip=True)
    if not path.is_file():  # a device or a pipe may have no end
        raise strangers.stop(None, "not a regular file")
    try:
        with path.open("rb") as file:
            for number, offset, text in _lines(file, _text_end(file)):
                if not text.strip(_EMPTY + BOM):
                    scan.ledger.dropped.add(offset)
                    continue
                try:
                    line = read_line(text)
                except BadLine as error:
                    bad.append((number, offset, str(error)))
                    continue
                scan.end = offset + len(text)
                if line.custom_id is not None and line.custom_id not in inputs:
                    what = f"custom_id {shown(line.custom_id)} is not in the input"
                    strangers.add(number, f"{what}; resume with the input of this run")
                elif not scan.ledger.enter(line, offset) and line.status is Status.ANSWERED:
                    what = f"a second answer of {shown(line.custom_id)}"
                    left_out.add(number, f"{what}; the first is kept")
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
        raise InputError([Fault(str(path), None, reason)]) from None
    strangers.close(lambda note: None)
    if not scan.end and len(bad) > 1:
        message = "none of its lines is one of an output file; move it away to begin anew"
        raise InputError([Fault(str(path), bad[0][0], message)])
    middle = [fault for fault in bad if fault[1] < scan.end]
    scan.ledger.dropped.update(offset for _, offset, _ in middle)
    scan.ledger.dropped = {offset for offset in scan.ledger.dropped if offset < scan.end}
    for number, _, what in middle:
        left_out.add(number, f"{what}; its request is run again")
    left_out.close(scan.notes.append)
    if torn := bad[len(middle) :]:
        scan.notes.append(f"{path}:{torn[0][0]}: a torn last line is cut off")
    return scan


def repair_output(path: Path, scan: Scan) -> None:
    """Cut off what follows the last line that can be read, and see that it ends in a newline.

    Raises
    ------
    StorageError
        When the file cannot be written.
    """
    try:
        with path.open("r+b") as file:
            file.seek(scan.end)
            if file.read(2) == b"\n" or not os.fstat(file.fileno()).st_size:
                return
            file.truncate(scan.end)
            if scan.end:
                file.seek(scan.end)
                file.write(b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_error(path, error) from None


def standing_lines(path: Path, dropped: Collection[int]) -> Iterator[bytes]:
    """Give the lines of a repaired output file, without those that begin at certain offsets."""
    with path.open("rb") as file:
        for _, offset, text in _lines(file, os.fstat(file.fileno()).st_size):
            if offset not in dropped:
                yield text + b"\n"


def _text_end(file: BinaryIO) -> int:
    """Find where blanks and zeros begin that reach to the end. O(their length)."""
    end = os.fstat(file.fileno()).st_size
    while end:
        begin = max(0, end - _BLOCK)
        file.seek(begin)
        if text := file.read(end - begin).rstrip(_EMPTY):
            return begin + len(text)
        end = begin
    return 0


def _lines(file: BinaryIO, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Give number, offset and text of the lines before an offset."""
    file.seek(0)
    offset = 0
    number = 0
    while offset < end:
        text = file.readline(end - offset)
        number += 1
        yield number, offset, text.removesuffix(b"\n")
        offset += len(text)
