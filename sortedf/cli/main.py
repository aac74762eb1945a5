"""The program `sortedf`: its commands, and what every error becomes."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from sortedf import __version__, errors
from sortedf.cli import (
    bound,
    calibrate,
    compare,
    generate,
    kv_budget,
    predict,
    prove,
    report,
    route,
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
    run_plan.run,
    validate.validate,
    route.route,
):
    app.command()(command)
app.command("kv-budget")(kv_budget.kv_budget)
app.add_typer(prove.app)

INTERRUPTED = 130
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
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller; what is meant for it must not go elsewhere
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As an exception it unwinds: no temporary file is left behind.
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        code = app(arguments, prog_name="sortedf", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        # Python would try, and complain, once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader of our output has gone (`| head`)
            return 1
        _complain(f"standard output cannot be written: {error.strerror or error}")
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


def _complain(text: str) -> None:
    for line in text.splitlines():
        print(line, file=sys.stderr)
