"""Rows of token counts, as traces hold them: the names of their columns and the rules for a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sortedf.errors import SHOWN_FAULTS, OptionError
from sortedf.instances.json_values import BadLine, shown
from sortedf.instances.reading import Columns, FaultLog, Note, ReadOptions
from sortedf.instances.timestamps import Clock
from sortedf.model.instance import MAX_TOKENS

# Names are compared in lower case without the blanks around them. Of several names in one file the
# earlier in the list counts. Own, Azure, Vidur, BurstGPT, old Vidur, splitwise, vLLM, Mooncake.
PROMPT_NAMES = (
    "prompt_tokens",
    "contexttokens",
    "num_prefill_tokens",
    "request tokens",
    "prompttokencount",
    "prompt_size",
    "input_toks",
    "input_length",
)
OUTPUT_NAMES = (
    "output_tokens",
    "generatedtokens",
    "num_decode_tokens",
    "response tokens",
    "completiontokencount",
    "token_size",
    "output_toks",
    "output_length",
)
ID_NAMES = ("id", "request_id")
RELEASE_NAMES = ("release",)
STAMP_NAMES = ("timestamp", "arrived_at", "arrival_timestamp", "arrival_time")

ABSENT = msgspec.UNSET
"""Stands for a value that a row does not have."""


@dataclass(frozen=True)
class Layout:
    """Which of a file's columns (or keys) holds what: positions in ``names``."""

    names: tuple[str, ...]
    prompt: int
    output: int | None
    id: int | None
    release: int | None
    stamp: int | None

    @property
    def is_trace(self) -> bool:
        """Whether it is a trace of what was served, not a backlog in sortedf's own words."""
        return self.output is not None and _plain(self.names[self.output]) != OUTPUT_NAMES[0]

    @property
    def ticks_in_ms(self) -> bool:
        """Whether time stamps count milliseconds: Mooncake's do."""
        place = self.prompt if self.output is None else self.output
        return _plain(self.names[place]) in ("input_length", "output_length")


def find_layout(names: Sequence[str], source: str, options: ReadOptions) -> Layout:
    """Tell from the names of a file's columns (or keys) which of them holds what.

    Raises
    ------
    BadLine
        When token counts are missing, or a column that is needed is there twice.
    OptionError
        When arrivals are asked for and cannot be had from this file.
    """
    plain = [_plain(name) for name in names]
    # Of a file that is none of ours a "name" can be a page of text.
    found = ", ".join(" ".join(name[:40].split()) for name in names[:SHOWN_FAULTS])
    prompt, output = _place(plain, PROMPT_NAMES), _place(plain, OUTPUT_NAMES)
    arrivals = options.arrivals
    if prompt is None or (output is None and not options.without_outputs):
        missing = [
            what
            for what, place in (
                ("prompt tokens (prompt_tokens, ContextTokens, Request tokens, ...)", prompt),
                ("output tokens (output_tokens, GeneratedTokens, Response tokens, ...)", output),
            )
            if place is None
        ]
        raise BadLine(f"no column or key for the {' and the '.join(missing)}; found: {found}")
    release = _place(plain, RELEASE_NAMES)
    arrivals = options.arrivals and (release is None or not options.releases)
    stamp = _place(plain, STAMP_NAMES) if arrivals else None
    if arrivals and release is not None:
        raise OptionError(f"arrivals: {source} has releases, which are honoured as they are")
    if arrivals and stamp is None:
        raise OptionError(f"arrivals: {source} has no time stamps; found: {found}")
    return Layout(tuple(names), prompt, output, _place(plain, ID_NAMES), release, stamp)


def names_lengths(names: Iterable[str]) -> bool:
    """Whether any of these columns or keys holds token counts."""
    return any(_plain(name) in PROMPT_NAMES + OUTPUT_NAMES for name in names)


class Rows:
    """The good rows of one file; the others go to the fault log.

    Rules for a row: prompt and output tokens are whole numbers from 1 to 2^40, a release one from
    0; an id is a string that is not empty. In a trace (any names but sortedf's own) a row with 0
    output tokens is a request that failed: it is left out, and the number of such rows is noted.
    """

    def __init__(
        self, layout: Layout, log: FaultLog, step: int, without_outputs: bool = False
    ) -> None:
        self._layout = layout
        self._log = log
        self._without_outputs = without_outputs
        self._least_output = 0 if layout.is_trace else 1
        self._has_id = layout.id is not None
        self._clock = None if layout.stamp is None else Clock(layout.ticks_in_ms)
        self._step = step
        self._prompt: list[int] = []
        self._output: list[int] = []
        self._lines: list[int] = []
        self._ids: list[str] = []
        self._release: list[int] = []
        self._ticks: list[int] = []
        self._failed: list[int] = []

    def add(self, line: int, prompt: Any, output: Any, name: Any, release: Any, stamp: Any) -> None:
        """Take the row on this line: the values as found in the file, ``ABSENT`` where none is.

        Numbers must come as ``int``; whatever else comes is refused and shown.
        """
        if self._without_outputs:
            output = 1
        # One test for the many good rows; which of the rules is broken is found out apart.
        if not (
            type(prompt) is int
            and type(output) is int
            and 0 < prompt <= MAX_TOKENS
            and 0 < output <= MAX_TOKENS
            and (type(name) is str and name if self._has_id else name is ABSENT)
            and (release is ABSENT or self._good_release(release))
        ):
            self._refuse(line, prompt, output, name, release)
            return
        if self._clock is not None:
            try:
                self._ticks.append(self._clock.read(stamp))
            except BadLine as error:
                self._log.add(line, f"{self._name(self._layout.stamp)} {error}")
                return
        self._prompt.append(prompt)
        self._output.append(output)
        self._lines.append(line)
        if self._has_id:
            self._ids.append(name)
        self._release.append(0 if release is ABSENT else release)

    def columns(self, note: Note) -> Columns:
        """Give the rows column by column; note the failed requests that were left out."""
        if self._failed:
            note(f"{self._log.source}: {_counted(self._failed)}")
        clock = self._clock
        release = self._release if clock is None else clock.releases(self._ticks, self._step)
        return Columns(
            self._prompt,
            self._output,
            self._lines,
            ids=self._ids if self._has_id else None,
            release=release,
            seconds=None if clock is None else clock.seconds(self._ticks),
        )

    def _good_release(self, release: Any) -> bool:
        return self._clock is None and type(release) is int and 0 <= release <= MAX_TOKENS

    def _refuse(self, line: int, prompt: Any, output: Any, name: Any, release: Any) -> None:
        failed = output == 0 and type(output) is int and self._least_output == 0
        wrong = [
            _broken_rule(self._name(self._layout.prompt), prompt, 0 if failed else 1),
            _broken_rule(self._name(self._layout.output), output, self._least_output),
            self._broken_id_rule(name),
        ]
        if release is not ABSENT and self._clock is not None:
            wrong.append("has a release, the requests before have time stamps only")
        elif release is not ABSENT:
            wrong.append(_broken_rule("release", release, 0))
        if any(wrong):
            self._log.add(line, "; ".join(filter(None, wrong)))
        else:
            self._failed.append(line)

    def _broken_id_rule(self, name: Any) -> str | None:
        if not self._has_id:
            return None if name is ABSENT else "has an id, the requests before have none"
        what = self._name(self._layout.id)
        if name is ABSENT or name == "":
            return f"{what} is {'missing' if name is ABSENT else 'empty'}"
        return None if type(name) is str else f"{what} is {shown(name)}, not a string"

    def _name(self, place: int | None) -> str:
        return "" if place is None else self._layout.names[place].strip()


def _broken_rule(name: str, value: Any, least: int) -> str | None:
    if value is ABSENT or value == "":
        return f"{name} is {'missing' if value is ABSENT else 'empty'}"
    if type(value) is not int:
        return f"{name} is {shown(value)}, not a whole number in plain digits"
    if value < least:
        return f"{name} is {shown(value)}; it must be at least {least}"
    return f"{name} is over 2^40" if value > MAX_TOKENS else None


def _plain(name: str) -> str:
    return name.strip().lower()


def _place(plain: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Position of the first of the wanted names that is there; refuse it when there twice."""
    for name in wanted:
        if (count := plain.count(name)) > 1:
            raise BadLine(f"the column {name!r} is there {count} times; keep one")
        if count:
            return plain.index(name)
    return None


def _counted(lines: list[int]) -> str:
    shown_lines = ", ".join(map(str, lines[:SHOWN_FAULTS]))
    more = f" and {len(lines) - SHOWN_FAULTS} more" if len(lines) > SHOWN_FAULTS else ""
    plural = "" if len(lines) == 1 else "s"
    return (
        f"{len(lines)} row{plural} with 0 output tokens left out (line{plural} {shown_lines}{more})"
    )
