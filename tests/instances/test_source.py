"""The bytes of an input and its lines."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from sortedf.errors import InputError
from sortedf.instances.source import Source, bad_byte, open_source


def refusal(path: Path | str) -> str:
    """Open what must be refused; give the message."""
    with pytest.raises(InputError) as caught:
        open_source(path)
    [fault] = caught.value.faults
    assert fault.source == ("<stdin>" if path == "-" else str(path))
    return fault.message


def test_lines_end_at_lf_only() -> None:
    """Blank lines are left out but counted; CR and BOM go; U+2028 and lone CRs end nothing."""
    data = b"a\r\n\n \t\r\n\xef\xbb\xbfb\nc\xe2\x80\xa8d\re\x0cf\n\ng"
    assert list(Source("x", data).lines()) == [
        (1, b"a"),
        (4, b"b"),
        (5, b"c\xe2\x80\xa8d\re\x0cf"),
        (7, b"g"),
    ]


def test_bom_is_taken_off(tmp_path: Path) -> None:
    """A file with a byte-order mark is the same file as without."""
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfabc\n")
    assert open_source(path) == Source(str(path), b"abc\n")


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    """Gzip is unpacked whatever its name says, also in several members."""
    path = tmp_path / "x.csv"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfabc\n") + gzip.compress(b"def\n"))
    assert open_source(path).data == b"abc\ndef\n"
    path = tmp_path / "plain.gz"
    path.write_bytes(b"abc\n")
    assert open_source(path).data == b"abc\n"


@pytest.mark.parametrize("cut", [2, 5, 12, -9, -1])
def test_truncated_gzip(tmp_path: Path, cut: int) -> None:
    """Gzip that ends too early is refused, never read in part."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"prompt_tokens,output_tokens\n1,2\n" * 50)[:cut])
    assert "gzip" in refusal(path)


def test_damaged_gzip(tmp_path: Path) -> None:
    """A flipped bit, and rubbish behind the end, are found by gzip's own checks."""
    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(b"prompt_tokens,output_tokens\n1,2\n" * 50))
    path.write_bytes(packed + b"rubbish")
    assert "gzip" in refusal(path)
    packed[-6] ^= 1
    path.write_bytes(packed)
    assert "gzip" in refusal(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    """UTF-16 and UTF-32 are named by their mark; without one they are not text."""
    path = tmp_path / "x"
    path.write_bytes("\ufeffa,b\n".encode(encoding))
    assert encoding[:6].upper() in refusal(path)
    path.write_bytes("a,b\n".encode(encoding.removesuffix("-be") + "-le"))
    assert "not text" in refusal(path)


def test_nul_byte_has_a_line(tmp_path: Path) -> None:
    """A NUL byte is no text; the line of the first is given."""
    path = tmp_path / "x"
    path.write_bytes(b"a\nb\nc\0\n\0")
    with pytest.raises(InputError, match=r"x:3: not text"):
        open_source(path)


def test_cr_only(tmp_path: Path) -> None:
    """Line ends of CR alone are refused by name; a single line that ends in one is a line."""
    path = tmp_path / "x"
    path.write_bytes(b"a,b\r1,2\r")
    assert "CR only" in refusal(path)
    path.write_bytes(b"a,b\r")
    assert list(open_source(path).lines()) == [(1, b"a,b")]


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing file, a folder, a forbidden file and a broken disk each say so."""
    assert refusal(tmp_path / "none") == "no such file"
    assert "directory" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / ("n" * 5000))
    assert "cannot be read" in refusal("a\0b")

    def forbidden(_: Path) -> NoReturn:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    assert "permission" in refusal(tmp_path / "x")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """``-`` is standard input, also packed; one that is closed is refused."""
    for data in (b"abc\n", gzip.compress(b"abc\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert open_source("-") == Source("<stdin>", b"abc\n")
    monkeypatch.setattr(sys, "stdin", None)
    assert "closed" in refusal("-")


def test_bad_byte() -> None:
    """The first byte that is not UTF-8 is named; encoded surrogates are none either."""
    assert bad_byte("aé€😀".encode()) is None
    assert "0xe9" in str(bad_byte(b"caf\xe9"))
    assert "0xed" in str(bad_byte(b"\xed\xa0\x80"))
    assert not Source("x", b"\xff").is_utf8
    assert Source("x", b"x").is_utf8
