"""What is shown while a command works: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
from fractions import Fraction

import pytest

from sortedf.cli.console import Console
from sortedf.solvers import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


REPORTS = [
    (Progress(0, 1234, None), ["best 1,234", "0.0/s"]),
    (Progress(7, 1234, Fraction(2000, 2)), ["bound 1,000", "gap 23.40%"]),
    (Progress(7, 1234, Fraction(3701, 3)), ["bound 1,234", "gap 0.03%"]),
    (Progress(7, 10**30, Fraction(10**30 - 1, 3)), ["gap 200.00%"]),
    (Progress(7, 3, Fraction(-5)), ["best 3"]),
    (Progress(7, 3, Fraction(0)), ["best 3"]),
]


@pytest.mark.parametrize(("progress", "parts"), REPORTS)
def test_a_search_is_told_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    progress: Progress,
    parts: list[str],
) -> None:
    """Best, bound, gap and iterations a second on stderr, whatever the bound; stdout is left."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    with Console().search("planning") as report:
        report(progress)
    for part in parts:
        assert part in terminal.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_nothing_is_told_elsewhere(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    """Piped or told to be quiet, a search says nothing."""
    with Console(quiet=quiet).search("planning") as report:
        report(Progress(7, 1234, Fraction(2000, 2)))
    assert capsys.readouterr() == ("", "")
