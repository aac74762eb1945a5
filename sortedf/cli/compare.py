"""`sortedf compare`: many solvers on one backlog, side by side."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import OptionError


@options.grouped
def compare(
    given: options.Backlog,
    reading: options.Reading,
    solvers: Annotated[
        str, typer.Option(metavar="A,B,...", help="Solvers by name, or fast, or all.")
    ] = "fast",
    time_limit: options.TimeLimit = None,
    lookahead: options.Lookahead = None,
    seed: options.Seed = 0,
    no_bound: options.NoBound = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a backlog with several solvers.

    Each plan is verified; times and latencies stand beside each other, and how far each plan is
    from the best one at most.
    """
    from sortedf.cli.workers import told_workers
    from sortedf.lp import Bound, lower_bounds
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
    loaded = options.load_backlog(given, reading, console)
    if solvers in ("fast", "all"):
        n = len(loaded.instance)
        taken = [
            entry
            for entry in entries
            if entry.takes(loaded.instance) and (solvers == "all" or n <= entry.fast_up_to)
        ]
        if left_out := [entry.name for entry in entries if entry not in taken]:
            one = " or for one worker" if len(loaded.instance.workers) > 1 else ""
            console.note(f"left out, slow on {n:,} requests{one}: {', '.join(left_out)}")
        entries = taken
    for entry in entries:
        entry.check_instance(loaded.instance)
    rows = []
    interrupted = False
    bounds: list[Bound] = []  # once for all
    try:
        if not no_bound:
            with console.status("bounding"):
                bounds = lower_bounds(loaded.instance.in_blocks(given.block_size))
        for entry in console.track(entries, "planning", len(entries)):
            chosen: dict[str, Any] = {}
            if lookahead is not None and "lookahead" in entry.options:
                chosen["lookahead"] = lookahead
            if time_limit is not None and entry.anytime:
                chosen["stop"] = MaxSeconds(time_limit)
            if not entry.deterministic:
                chosen["seed"] = seed
            result = solve(
                loaded.instance,
                solver=entry.name,
                block_size=given.block_size,
                bound=bounds,
                **chosen,
            )
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
                **told_workers(instance),
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
