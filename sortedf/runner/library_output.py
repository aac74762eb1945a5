"""What the library of an engine prints, and what its exceptions say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def output_into(log: Path) -> Iterator[None]:
    """Lead standard output and error into a file, for the processes started meanwhile for good."""
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("ab") as file:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        for number, _ in kept:
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)


def reason(error: BaseException) -> str:
    """Give the line of an exception that says most."""
    errors = getattr(error, "errors", None)  # of pydantic: what was wrong, without the frame
    text = str(errors()[0]["msg"]) if callable(errors) and errors() else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0].removeprefix("Value error, ") if lines else type(error).__name__
