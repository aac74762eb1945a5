"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from sortedf.errors import Fault, InputError


def write_whole(path: str | Path, chunks: Iterable[bytes]) -> None:
    """Write bytes to a file that appears complete or, after any failure, not at all.

    They go to a temporary file in the same folder, to disk, and only then to the name. A name that
    ends in ``.gz`` is packed, always to the same bytes (no time, no name inside); ``-`` is standard
    output. What is no regular file (a pipe, ``/dev/null``) is written to as it is.

    Raises
    ------
    InputError
        Naming the path, when it cannot be written. Errors of standard output are passed on.
    """
    if str(path) == "-":
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return
    if Path(path).suffix == ".gz":
        chunks = _packed(chunks)
    # A link stays a link: the file behind it is the one to replace.
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                file.writelines(chunks)
        else:
            _replace(target, chunks)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError([Fault(str(path), None, f"cannot be written: {reason}")]) from None


def check_writable(path: str | Path) -> None:
    """Refuse a name that :func:`write_whole` would refuse, before long work rather than after it.

    Raises
    ------
    InputError
        If the name is a folder's, or its folder does not exist or takes no files.
    """
    if str(path) == "-":
        return
    target = Path(os.path.realpath(path))
    reason = None
    if target.is_dir():
        reason = "Is a directory"
    elif not target.parent.is_dir():
        reason = f"there is no folder {str(Path(path).parent)!r}"
    elif not os.access(target if target.exists() else target.parent, os.W_OK):
        reason = "Permission denied"
    if reason:
        raise InputError([Fault(str(path), None, f"cannot be written: {reason}")])


def make_folder(path: str | Path) -> None:
    """Make a folder, and those above it, where there is none.

    Raises
    ------
    InputError
        Naming it, when that cannot be done.
    """
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"cannot be made a folder: {error.strerror or error}"
        raise InputError([Fault(str(path), None, text)]) from None


def kind_by_name(path: str | Path) -> str:
    """Give the ending of a name that tells its layout, ``.gz`` left aside: ``.jsonl``, ``.csv``."""
    name = Path(path)
    return (name.with_suffix("") if name.suffix == ".gz" else name).suffix


def _replace(target: Path, chunks: Iterable[bytes]) -> None:
    temporary = target.with_name(f".sortedf-{secrets.token_hex(8)}.tmp")
    # "x" with the plain mode leaves the permissions to the umask; tempfile would close them.
    try:
        with temporary.open("xb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _packed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    # 31 = 16 (gzip) + 15 (largest window). zlib writes a header without name and with time 0.
    packer = zlib.compressobj(wbits=31)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()
