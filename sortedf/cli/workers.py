"""`--workers R|FILE`: the workers that a backlog is planned on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortedf.errors import InvalidRequestError, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sortedf.cli.options import Backlog
    from sortedf.model import Instance
    from sortedf.model.workers import Worker


def workers_file(given: Backlog) -> tuple[Worker, ...]:
    """Read the workers from the file that --workers names; none if it gives a number.

    Raises
    ------
    OptionError
        Beside --kv-tokens for what is no number: a file takes the place of it.
    InputError
        As :func:`sortedf.instances.workers.read_workers`.
    """
    if given.workers is None or _is_number(given.workers):
        return ()
    if given.kv_tokens is not None:
        if given.workers != "-" and not (given.workers and Path(given.workers).exists()):
            raise OptionError(
                f"--workers is {given.workers!r}: neither a number of workers nor a file that is "
                "there"
            )
        raise OptionError(
            f"--kv-tokens is left out where --workers names a file: the budgets are in "
            f"{given.workers}; for identical workers give their number"
        )
    from sortedf.instances.workers import read_workers

    return read_workers(given.workers)


def put_on_workers(instance: Instance, listed: Sequence[Worker], workers: str | None) -> Instance:
    """Put a backlog on the workers listed, or on so many identical ones.

    Raises
    ------
    OptionError
        For a number that is none of workers.
    """
    from sortedf.model.workers import identical_workers

    if workers is None:
        return instance
    try:
        return instance.on_workers(listed or identical_workers(int(workers), instance.kv_tokens))
    except InvalidRequestError as error:
        raise OptionError(f"--workers: {error}") from None


def told_workers(instance: Instance) -> dict[str, Any]:
    """Name the workers of an instance, where there are several, as plain data."""
    if len(instance.workers) == 1:
        return {}
    return {"workers": [worker._asdict() for worker in instance.workers]}


def refuse_workers(instance: Instance, what: str) -> None:
    """Refuse several workers, as an :class:`OptionError`, where one engine is meant."""
    if len(instance.workers) > 1:
        raise OptionError(f"{what} is of one engine; leave --workers out")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()
