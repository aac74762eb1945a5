"""A file that grows by whole lines: what was appended stays, whatever happens to the process."""

from __future__ import annotations

import csv
import io
import os
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sortedf.errors import Fault, StorageError

SYNC_SECONDS = 1.0
"""How much may be lost if the power fails, in seconds of work; nothing if the process dies."""


class AppendFile:
    """Lines appended by one write each, in the hands of the kernel when :meth:`append` returns.

    No end of the process, not even ``kill -9``, can lose such a line. Against a failing machine
    the file is also forced to the disk, at most once in ``sync_seconds`` and on closing.

    Parameters
    ----------
    path
        Made if it is not there. One that does not end in a newline must be repaired first.
    sync_seconds
        ``None`` leaves it to the kernel when lines reach the disk: for records that can be made
        again.

    Raises
    ------
    StorageError
        When it cannot be opened.
    """

    def __init__(self, path: str | Path, *, sync_seconds: float | None = SYNC_SECONDS) -> None:
        self._path = Path(path)
        self._sync_seconds = sync_seconds
        self._synced = time.monotonic()
        self._torn = False
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            status = os.fstat(self._fd)
        except OSError as error:
            raise storage_error(path, error) from None
        self._is_file = stat.S_ISREG(status.st_mode)
        self._size = status.st_size
        self._identity = (status.st_dev, status.st_ino)
        sync_folder(self._path.parent)

    @property
    def size(self) -> int:
        """Length of the whole lines, bytes."""
        return self._size

    def append(self, line: bytes) -> int:
        """Append a line, newline included; returns the offset where it begins. O(its length).

        Raises
        ------
        StorageError
            When it cannot be written whole. Then nothing of it is left in the file, and the next
            call begins where this one did.
        """
        start = self._size
        try:
            if self._torn:
                self._cut()
            # Until the line is whole: an interruption at any point of this leaves a torn one.
            self._torn = True
            written = os.write(self._fd, line)
            while written < len(line):  # a nearly full disk takes a part; the next says why
                written += os.write(self._fd, line[written:])
        except BaseException as error:
            with suppress(OSError):
                self._cut()
            if isinstance(error, OSError):
                raise storage_error(self._path, error) from None
            raise
        self._size = start + len(line)
        self._torn = False
        if self._sync_seconds is not None:
            now = time.monotonic()
            if now - self._synced >= self._sync_seconds:
                self.sync()
                self._synced = now
        return start

    def sync(self) -> None:
        """Force what was appended to the disk.

        Raises
        ------
        StorageError
            When that fails, or when the file at the path is no longer the one that is written to.
        """
        if not self._is_file:
            return
        try:
            os.fsync(self._fd)
            status = self._path.stat()
        except OSError as error:
            raise storage_error(self._path, error) from None
        if (status.st_dev, status.st_ino) != self._identity or status.st_size != self._size:
            text = "was changed or replaced by another program while it was written to"
            raise StorageError([Fault(str(self._path), None, text)])

    def close(self) -> None:
        """Force it to the disk and close it; a second call does nothing.

        Raises
        ------
        StorageError
            As :meth:`sync`; it is closed nevertheless.
        """
        if self._fd < 0:
            return
        try:
            if self._torn:
                with suppress(OSError):
                    self._cut()
            if self._sync_seconds is not None and not self._torn:
                self.sync()
        finally:
            os.close(self._fd)
            self._fd = -1

    def _cut(self) -> None:
        """Cut off what an unfinished write left."""
        if self._is_file:
            os.ftruncate(self._fd, self._size)
        self._torn = False


def json_line(value: Mapping[str, Any]) -> bytes:
    """Encode an object as one line of JSON."""
    return msgspec.json.encode(value) + b"\n"


def sync_folder(path: Path) -> None:
    """Force the names in a folder to the disk, where its file system can."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def storage_error(path: str | Path, error: OSError) -> StorageError:
    """Say in one line that a file cannot be written, and what to do."""
    text = (
        f"cannot be written: {error.strerror or error}; "
        "what was written before is kept, resume once it can be written again"
    )
    return StorageError([Fault(str(path), None, text)])


def csv_line(values: Iterable[Any]) -> bytes:
    """Encode values as one line of CSV, ended by LF."""
    text = io.StringIO()
    csv.writer(text).writerow(values)  # told that lines end so, it would leave a lone CR unquoted
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"
