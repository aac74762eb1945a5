"""`sortedf solve`: one plan by one solver."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import OptionError


def solve(
    backlog: options.Backlog = None,
    kv_tokens: options.KvTokens = None,
    solver: Annotated[
        str, typer.Option(metavar="NAME", help="auto, fcfs, mcsf, size, svf, svf-1bit, ...")
    ] = "auto",
    time_limit: options.TimeLimit = None,
    lookahead: options.Lookahead = None,
    proxies: Annotated[
        str | None,
        typer.Option(
            metavar="T,S,L", help="svf-1bit: outputs up to T count as S tokens, others as L."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            metavar="A",
            help="sorted-lp, lp-swap: rank by the step by which a share A of a request has started "
            "in the relaxation, above 0 and at most 1.",
            show_default="rank by expected start",
        ),
    ] = None,
    seed: options.Seed = 0,
    block_size: options.BlockSize = 1,
    arrivals: options.Arrivals = False,
    tokenizer: options.Tokenizer = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    skip_bad_lines: options.SkipBadLines = False,
    skip_oversized: options.SkipOversized = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PLAN", help="Plan: .json, .jsonl; - is stdout."),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a backlog with one solver.

    The plan is verified before it is shown; -o writes it to a file.
    """
    if output == "-" and json:
        raise OptionError("-o - and --json both want stdout; leave one out")
    if None not in (output, backlog) and _same_file(output, backlog):
        raise OptionError(f"-o {output} is the backlog itself; choose another name for the plan")
    from sortedf import solvers

    chosen: dict[str, Any] = {}
    if lookahead is not None:
        chosen["lookahead"] = lookahead
    if proxies is not None:
        chosen["proxies"] = _numbers(proxies)
    if alpha is not None:
        chosen["alpha"] = alpha
    # Before a large backlog is read for nothing.
    entry = solvers.find_solver(solver)
    entry.check_options(chosen)
    entry.check_seed(seed)
    if time_limit is not None:
        entry.check_stop(solvers.MaxSeconds(time_limit))
    console = Console(quiet=quiet)
    loaded = options.load_backlog(
        backlog,
        kv_tokens,
        console,
        block_size=block_size,
        skip_oversized=skip_oversized,
        arrivals=arrivals,
        skip_bad_lines=skip_bad_lines,
        tokenizer=tokenizer,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
    )
    with console.search(f"planning {len(loaded.instance):,} requests with {solver}") as report:
        result = solvers.solve(
            loaded.instance,
            solver=solver,
            stop=None if time_limit is None else solvers.MaxSeconds(time_limit),
            seed=seed,
            block_size=block_size,
            report=report,
            **chosen,
        )
    if output is not None:
        from sortedf.instances import write_plan

        with console.status(f"writing {output}"):
            write_plan(result, output, skipped=loaded.skipped)
        if output != "-":
            console.note(f"plan written to {output}")
    row = result.to_dict() | {"skipped": len(loaded.skipped)}
    if json:
        console.json(row)
    elif output != "-":
        from sortedf.report import tables

        console.show(tables.result(row))
    if result.stop_reason == "interrupted":
        console.note("this is the best plan so far")
        raise typer.Exit(130)


def _same_file(one: str | None, other: str | None) -> bool:
    try:
        return Path(str(one)).samefile(str(other))
    except OSError:  # at least one of them does not exist
        return False


def _numbers(text: str) -> tuple[float, float, float]:
    try:
        threshold, short, long = map(float, text.split(","))
    except ValueError:
        raise OptionError(
            f"--proxies is {text!r}; it takes three numbers T,S,L: threshold, short, long"
        ) from None
    return threshold, short, long
