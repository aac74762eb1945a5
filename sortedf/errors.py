"""Everything that sortedf raises on purpose: one root, few leaves.

The leaf carries what is at fault (a line, a request, a violation), so that a program can act on it;
``str(error)`` is the text for a person, one line a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SHOWN_FAULTS = 20
"""How many faults a message spells out before it only counts them."""


class SortedfError(Exception):
    """Root of all errors that sortedf raises on purpose."""


class Fault(NamedTuple):
    """One thing wrong in one place of an input.

    ``line`` is 1-based; ``None`` when the whole file is at fault.
    """

    source: str
    line: int | None
    message: str

    def __str__(self) -> str:
        where = self.source if self.line is None else f"{self.source}:{self.line}"
        return f"{where}: {self.message}"


class InputError(SortedfError):
    """A file that cannot be read as what it should be.

    Parameters
    ----------
    faults
        What is wrong, in the order of the file; at least one.
    total
        How many faults there are in all, when the reader stopped collecting them.
    skippable
        Whether there is something left to read where lines at fault are skipped.
    """

    def __init__(
        self, faults: Sequence[Fault], total: int | None = None, *, skippable: bool = False
    ) -> None:
        self.faults = tuple(faults)
        self.total = len(self.faults) if total is None else total
        self.skippable = skippable
        super().__init__(self.faults, self.total)

    def __str__(self) -> str:
        return _capped([str(fault) for fault in self.faults], self.total, "fault")


class StorageError(InputError):
    """A file of work that is under way can no longer be written: a full disk, a failing one.

    What was written to it before is kept, whole lines only; the work can be resumed.
    """


class InvalidRequestError(SortedfError, ValueError):
    """A request (or the whole set of them) that breaks a rule of the model.

    Parameters
    ----------
    message
        What is wrong and what to do.
    index
        Position of the request in the instance; ``None`` when no single request is at fault.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        self.index = index
        super().__init__(message)


class InfeasibleError(SortedfError):
    """Requests that no schedule can serve: each alone is larger than the KV budget.

    Parameters
    ----------
    oversized
        ``(index, id, tokens)`` of each such request; tokens = prompt + output.
    kv_tokens, block_size
        The KV budget that they exceed, in tokens, and of how many tokens its blocks are.
    owner
        Whose budget it is, where there are several.
    """

    def __init__(
        self,
        oversized: Sequence[tuple[int, str, int]],
        kv_tokens: int,
        block_size: int = 1,
        owner: str = "",
    ) -> None:
        self.oversized = tuple(oversized)
        self.kv_tokens = kv_tokens
        self.block_size = block_size
        self.owner = owner
        super().__init__(self.oversized, kv_tokens, block_size, owner)

    def __str__(self) -> str:
        blocks = f" in whole blocks of {self.block_size}" if self.block_size > 1 else ""
        owner = f" of {self.owner}" if self.owner else ""
        lines = [
            f"request {name!r} (index {index}) needs {tokens} tokens, "
            f"the KV budget{owner} is {self.kv_tokens}{blocks}"
            for index, name, tokens in self.oversized[:SHOWN_FAULTS]
        ]
        return _capped(lines, len(self.oversized), "oversized request")


class BudgetError(SortedfError):
    """A plan for more KV cache than the engine has."""


class VerificationError(SortedfError):
    """A schedule that the independent verifier does not accept.

    Parameters
    ----------
    violations
        What is violated, one text each.
    total
        How many violations there are in all, when only some are given.
    """

    def __init__(self, violations: Sequence[str], total: int | None = None) -> None:
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        super().__init__(self.violations, self.total)

    def __str__(self) -> str:
        return _capped(list(self.violations), self.total, "violation")


class OptionError(SortedfError, ValueError):
    """An option or name that the thing called does not know or does not take."""


class EngineError(SortedfError):
    """An engine that could not be started, or died."""


def whole_number(name: str, value: object, least: int, most: int | None = None) -> None:
    """Refuse, as an :class:`OptionError`, what is not an ``int`` in ``least .. most``."""
    if type(value) is not int or value < least:
        raise OptionError(f"{name} is {value!r}; it must be a whole number of at least {least}")
    if most is not None and value > most:
        raise OptionError(f"{name} is {value!r}; it must be at most {most}")


def _capped(lines: list[str], total: int, what: str) -> str:
    shown = lines[:SHOWN_FAULTS]
    if total > len(shown):
        shown.append(f"... {total - len(shown)} more ({what}s: {total} in all)")
    return "\n".join(shown)
