"""What the readers of backlogs share: their options, their columns, their list of faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sortedf.errors import SHOWN_FAULTS, Fault, InputError
from sortedf.instances.timestamps import SECOND

Note = Callable[[str], None]
"""Takes one line for the user: something that was left out or estimated, never an error."""


@dataclass(frozen=True)
class ReadOptions:
    """How to read what a backlog file leaves open; see :func:`sortedf.read_backlog`."""

    arrivals: bool = False
    skip_bad_lines: bool = False
    tokenizer: str | None = None
    prompt_tokens: str | None = None
    output_tokens: str | int | None = None
    releases: bool = False
    """With ``arrivals``: releases will do as well."""
    without_outputs: bool = False
    """Do without output tokens, which count as 1 then: they are about to be predicted."""
    step: int = SECOND
    """Ticks (nanoseconds) of a step, for arrivals."""


@dataclass
class Columns:
    """The requests of a file, column by column, and the line that each of them stands on."""

    prompt_tokens: Sequence[int]
    output_tokens: Sequence[int]
    lines: Sequence[int]
    ids: Sequence[str] | None = None
    release: Sequence[int] | None = None
    seconds: Sequence[float] | None = None
    """Time stamps as seconds since the earliest, where they are read."""


@dataclass
class FaultLog:
    """The faults of one file. Readers add them and go on; ``close`` raises or reports them."""

    source: str
    skip: bool = False
    faults: list[Fault] = field(default_factory=list)
    total: int = 0

    def add(self, line: int | None, message: str) -> None:
        """Note one fault; only the first of them are kept in words."""
        self.total += 1
        if len(self.faults) < SHOWN_FAULTS:
            self.faults.append(Fault(self.source, line, message))

    def stop(self, line: int | None, message: str) -> InputError:
        """Build the error for a fault after which nothing of the file can be read."""
        self.add(line, message)
        return InputError(self.faults, self.total)

    def close(self, note: Note, *, left: bool = False) -> None:
        """Raise what was collected or, when bad lines are skipped, list and count them.

        ``left`` says whether there are other lines.

        Raises
        ------
        InputError
            When there are faults and bad lines are not skipped.
        """
        if not self.total:
            return
        if not self.skip:
            raise InputError(self.faults, self.total, skippable=left)
        for fault in self.faults:
            note(f"left out: {fault}")
        lines = ", ".join(str(fault.line) for fault in self.faults)
        more = ", ..." if self.total > len(self.faults) else ""
        noun = "line" if self.total == 1 else "lines"
        note(f"{self.source}: {self.total} {noun} skipped: {lines}{more}")
