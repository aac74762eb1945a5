"""The files that a command writes, looked at before it does any work."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from sortedf.errors import OptionError


def same_file(one: str | None, other: str | None) -> bool:
    """Whether two names are of one file that exists."""
    try:
        return Path(str(one)).samefile(str(other))
    except OSError:  # at least one of them does not exist
        return False


def check_outputs(outputs: Mapping[str, str | None], *read: str | None, json: bool) -> None:
    """Refuse what cannot be written, before any work is done.

    Parameters
    ----------
    outputs
        All files that the command writes, by their options; ``None`` where one is not.
    read
        Files that it reads, which are not written over.
    json
        Whether it prints a document on stdout besides.

    Raises
    ------
    OptionError
        If two of these go to one place, or one over a file that is read.
    InputError
        If no file can be written there.
    """
    from sortedf.instances.files import check_writable

    given = {flag: path for flag, path in outputs.items() if path is not None}
    on_stdout = [f"{flag} -" for flag, path in given.items() if path == "-"]
    on_stdout += ["--json"] if json else []
    if len(on_stdout) > 1:
        *others, last = on_stdout
        both = "both" if len(others) == 1 else "all"
        raise OptionError(
            f"{', '.join(others)} and {last} {both} want stdout; name a file, or leave one out"
        )
    for (one, first), (other, second) in combinations(given.items(), 2):
        if _same_place(first, second):
            raise OptionError(
                f"{one} and {other} are both to be written to {second}; choose another name for one"
            )
    for flag, written in given.items():
        if any(path is not None and same_file(path, written) for path in read):
            raise OptionError(f"{flag} {written} is a file that is read; choose another name")
        check_writable(written)


def _same_place(one: str, other: str) -> bool:
    """Whether a file of one name would be lost by one of the other; a device takes both."""
    path = Path(one)
    if path.exists() and not path.is_file():
        return False
    return same_file(one, other) or path.resolve() == Path(other).resolve()
