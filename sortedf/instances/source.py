"""The bytes of an input, wherever they come from, and its lines."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sortedf.errors import Fault, InputError

GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"

# UTF-32 before UTF-16: the little-endian mark of the one begins with that of the other.
_WIDE_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


@dataclass(frozen=True)
class Source:
    """A text file in memory: plain bytes, decompressed, without a byte-order mark.

    Parameters
    ----------
    name
        What messages call it: the path as it was given, or ``<stdin>``.
    data
        The bytes. UTF-8 is not checked yet, so that a bad byte can be reported with its line.
    """

    name: str
    data: bytes

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Give each line that is not blank with its number, counted from 1.

        Lines end at LF only (not at U+2028 or a lone CR). The LF, a CR before it and a byte-order
        mark at the start of the line (files joined with ``cat``) are taken off.
        """
        for number, line in enumerate(io.BytesIO(self.data), 1):
            text = line.removesuffix(b"\n").removesuffix(b"\r").removeprefix(BOM)
            if text and not text.isspace():
                yield number, text

    @cached_property
    def is_utf8(self) -> bool:
        """Whether all of it is valid UTF-8. If not, ask :func:`bad_byte` of each line."""
        return bad_byte(self.data) is None


def bad_byte(data: bytes) -> str | None:
    """Say what is wrong with bytes that should be UTF-8; ``None`` when nothing is."""
    if data.isascii():
        return None
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not valid UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
    return None


def open_source(path: str | Path) -> Source:
    """Read a file, or standard input for ``-``; gzip is told by its first bytes.

    Raises
    ------
    InputError
        When it cannot be read, is damaged gzip, or is not 8-bit text with LF or CRLF line ends.
    """
    piped = str(path) == "-"
    name = "<stdin>" if piped else str(path)
    try:
        data = _read_stdin() if piped else Path(path).read_bytes()
        if data.startswith(GZIP_MAGIC):
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise _refuse(name, "no such file") from None
    except IsADirectoryError:
        raise _refuse(name, "a directory; name a file in it") from None
    except PermissionError:
        raise _refuse(name, "no permission to read it") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _refuse(name, f"truncated or damaged gzip ({error}); compress it anew") from None
    except (OSError, ValueError) as error:
        raise _refuse(name, f"cannot be read: {error}") from None
    for mark, encoding in _WIDE_MARKS.items():
        if data.startswith(mark):
            raise _refuse(name, f"the file is {encoding}; save it as UTF-8")
    if (nul := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, nul) + 1
        raise _refuse(name, "not text (a NUL byte); of packed files only gzip is read", line)
    if b"\n" not in data and b"\r" in data.rstrip():
        raise _refuse(name, "its line ends are CR only; save it with LF line ends")
    return Source(name, data.removeprefix(BOM))


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read()


def _refuse(name: str, message: str, line: int | None = None) -> InputError:
    return InputError([Fault(name, line, message)])
