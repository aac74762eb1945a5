"""The program `sortedf`: its commands, and what every error becomes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

from sortedf import __version__, errors
from sortedf.cli import (
    bound,
    calibrate,
    compare,
    generate,
    kv_budget,
    learn,
    predict,
    prove,
    report,
    route,
    simulate,
    solve,
    validate,
    verify,
)
from sortedf.cli import (
    run as run_plan,
)

app = typer.Typer(
    name="sortedf",
    help="Plan a backlog of LLM requests on a KV-cache budget; every plan is verified.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    solve.solve,
    compare.compare,
    bound.bound,
    verify.verify,
    report.report,
    generate.generate,
    calibrate.calibrate,
    predict.predict,
    learn.learn,
    run_plan.run,
    validate.validate,
    simulate.simulate,
    route.route,
):
    app.command()(command)
app.command("kv-budget")(kv_budget.kv_budget)
app.add_typer(prove.app)

INTERRUPTED = 130
READER_GONE = 128 + signal.SIGPIPE
"""As a shell tells of programs that end by the signal."""

EXIT_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.OptionError, 2),
    (errors.InputError, 3),
    (errors.InvalidRequestError, 3),
    (errors.InfeasibleError, 4),
    (errors.BudgetError, 4),
    (errors.VerificationError, 6),
    (errors.EngineError, 1),
    (KeyboardInterrupt, INTERRUPTED),
    (typer.Abort, INTERRUPTED),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sortedf {__version__}")
        raise typer.Exit


@app.callback()
def sortedf(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Plan a backlog of LLM requests on a KV-cache budget; every plan is verified."""


def run() -> None:
    """Run the program and exit with the documented code; no fault of the input is a traceback."""
    for number, name in enumerate(("stdout", "stderr"), 1):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _closed(number))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As an exception it unwinds: no temporary file is left behind.
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))


def _closed(number: int) -> TextIO:
    """Give a stream for a descriptor that the caller closed: stdout fails, stderr takes all.

    The descriptor is taken, so that what is meant for it does not go to a file that is opened next.
    """
    taken = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_WRONLY)
    if taken != number:
        os.dup2(taken, number)
        os.close(taken)
    return os.fdopen(number, "w", closefd=False)


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        code = app(arguments, prog_name="sortedf", standalone_mode=False)
        sys.stdout.flush()
    except (OSError, SystemExit) as error:
        # The libraries for arguments and tables make an exit of a pipe that nobody reads.
        if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
            _give_up_stdout()
            return READER_GONE
        if isinstance(error, SystemExit):
            raise
        _give_up_stdout()
        why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
        _complain(f"standard output cannot be written: {why}")
        return 3
    except tuple(kind for kind, _ in EXIT_CODES) as error:
        _complain(str(error) or "interrupted")
        return next(code for kind, code in EXIT_CODES if isinstance(error, kind))
    except Exception as error:
        # Usage errors of the argument parser, whose classes typer does not all export.
        if not hasattr(error, "format_message"):
            raise
        _complain(error.format_message())
        return 2
    if code == INTERRUPTED:
        _complain("interrupted")
    return code if isinstance(code, int) else 0


def _give_up_stdout() -> None:
    """Lead what is left to be written nowhere: Python would try, and complain, again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> None:
    for line in text.splitlines():
        print(line, file=sys.stderr)
