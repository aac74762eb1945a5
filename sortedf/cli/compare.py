"""`sortedf compare`: many solvers on one backlog, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import OptionError


def compare(
    backlog: options.Backlog = None,
    kv_tokens: options.KvTokens = None,
    solvers: Annotated[
        str, typer.Option(metavar="A,B,...", help="Solvers by name, or fast, or all.")
    ] = "fast",
    time_limit: options.TimeLimit = None,
    lookahead: options.Lookahead = None,
    seed: options.Seed = 0,
    block_size: options.BlockSize = 1,
    arrivals: options.Arrivals = False,
    tokenizer: options.Tokenizer = None,
    prompt_tokens: options.PromptTokens = None,
    output_tokens: options.OutputTokens = None,
    skip_bad_lines: options.SkipBadLines = False,
    skip_oversized: options.SkipOversized = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a backlog with several solvers.

    Each plan is verified; times and latencies stand beside each other.
    """
    from sortedf.solvers import MaxSeconds, find_solvers, solve

    entries = find_solvers(solvers)
    if lookahead is not None and not any("lookahead" in entry.options for entry in entries):
        raise OptionError(f"none of {solvers} takes --lookahead")
    if time_limit is not None:
        MaxSeconds(time_limit)  # refused before a large backlog is read for nothing
        if not any(entry.anytime for entry in entries):
            raise OptionError(f"none of {solvers} takes --time-limit")
    if seed and all(entry.deterministic for entry in entries):
        raise OptionError(f"none of {solvers} takes --seed")
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
    if solvers in ("fast", "all"):
        n = len(loaded.instance)
        taken = [
            entry
            for entry in entries
            if entry.supports(loaded.instance) and (solvers == "all" or n <= entry.fast_up_to)
        ]
        if left_out := [entry.name for entry in entries if entry not in taken]:
            console.note(f"left out, slow on {n:,} requests: {', '.join(left_out)}")
        entries = taken
    for entry in entries:
        entry.check_instance(loaded.instance)
    rows = []
    interrupted = False
    try:
        for entry in console.track(entries, "planning", len(entries)):
            chosen: dict[str, Any] = {}
            if lookahead is not None and "lookahead" in entry.options:
                chosen["lookahead"] = lookahead
            if time_limit is not None and entry.anytime:
                chosen["stop"] = MaxSeconds(time_limit)
            if not entry.deterministic:
                chosen["seed"] = seed
            result = solve(loaded.instance, solver=entry.name, block_size=block_size, **chosen)
            rows.append(result.to_dict())
            if result.stop_reason == "interrupted":
                interrupted = True
                break
    except KeyboardInterrupt:
        interrupted = True
        if not rows:
            raise
    if json:
        instance = loaded.instance
        console.json(
            {
                "n": len(instance),
                "kv_tokens": instance.kv_tokens,
                "instance_sha256": instance.sha256,
                "skipped": len(loaded.skipped),
                "complete": not interrupted,
                "rows": rows,
            }
        )
    else:
        from sortedf.report import tables

        console.show(tables.comparison(rows, console.width))
    if interrupted:
        console.note(f"{len(rows)} of {len(entries)} solvers were run")
        raise typer.Exit(130)
