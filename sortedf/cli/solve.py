"""`sortedf solve`: one plan by one solver."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.engine_options import Engine, StepTimes
from sortedf.cli.outputs import check_outputs
from sortedf.cli.seconds import best_in_seconds, check_engine, in_seconds
from sortedf.cli.workers import refuse_workers
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.model import Result


@options.grouped
def solve(
    given: options.Backlog,
    reading: options.Reading,
    *,
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
    prefill_weight: Annotated[
        float | None,
        typer.Option(
            metavar="W",
            help="svf: token-steps that a prompt token counts beyond its memory.",
            show_default="0",
        ),
    ] = None,
    on_seconds: Annotated[
        bool,
        typer.Option(
            "--on-seconds",
            help="Of many orders take the one with the least mean seconds by --steptime.",
        ),
    ] = False,
    steptime: StepTimes = None,
    engine: Engine,
    seed: options.Seed = 0,
    no_bound: options.NoBound = False,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="PLAN", help="Plan: .json, .jsonl; - is stdout."),
    ] = None,
    certificate: options.CertificateFile = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Plan a backlog with one solver.

    The plan is verified before it is shown; -o writes it to a file. Its distance from the best plan
    is at most the gap to the lower bound. --steptime adds what it takes on the engine, in seconds;
    --num-gpu-blocks to --policy say how that is started.
    """
    read = given.backlog, given.workers, reading.output_tokens, steptime
    if read.count("-") > 1:
        raise OptionError("only one of the files that are read can be stdin")
    check_outputs({"-o": output, "--certificate": certificate}, *read, json=json)
    if certificate is not None and no_bound:
        raise OptionError("--certificate is of the bound, which --no-bound leaves out")
    from sortedf import solvers

    chosen: dict[str, Any] = {}
    if lookahead is not None:
        chosen["lookahead"] = lookahead
    if proxies is not None:
        chosen["proxies"] = _numbers(proxies)
    if alpha is not None:
        chosen["alpha"] = alpha
    if prefill_weight is not None:
        chosen["prefill_weight"] = prefill_weight
    # Before a large backlog is read for nothing.
    entry = solvers.find_solver(solver)
    entry.check_options(chosen)
    entry.check_seed(seed)
    if time_limit is not None:
        entry.check_stop(solvers.MaxSeconds(time_limit))
    if steptime is not None:
        from sortedf.engine import read_step_times
    step_times = None if steptime is None else read_step_times(steptime)
    settings = {} if step_times is None else engine.settings(step_times)
    if step_times is None:
        engine.refuse()
    if on_seconds:
        if step_times is None:
            raise OptionError("--on-seconds needs --steptime, by which it counts")
        if solver != "auto" or time_limit is not None or seed or chosen.keys() - {"lookahead"}:
            raise OptionError(
                "--on-seconds chooses the order itself; of these, it takes --lookahead"
            )
    console = Console(quiet=quiet)
    loaded = options.load_backlog(given, reading, console)
    if step_times is not None:
        refuse_workers(loaded.instance, "--steptime")
        check_engine(loaded.instance, given.block_size, settings)
    if on_seconds and step_times is not None:
        result = best_in_seconds(
            loaded.instance,
            step_times.model,
            console,
            bound=not no_bound,
            settings=settings,
            block_size=given.block_size,
            **chosen,
        )
    else:
        with console.search(f"planning {len(loaded.instance):,} requests with {solver}") as report:
            result = solvers.solve(
                loaded.instance,
                solver=solver,
                stop=None if time_limit is None else solvers.MaxSeconds(time_limit),
                seed=seed,
                block_size=given.block_size,
                bound=not no_bound,
                report=report,
                **chosen,
            )
    if output is not None:
        from sortedf.instances import write_plan

        with console.status(f"writing {output}"):
            write_plan(result, output, skipped=loaded.skipped)
        if output != "-":
            console.note(f"plan written to {output}")
    if certificate is not None:
        _write_certificate(result, certificate, loaded, console)
    row = result.to_dict() | {"skipped": len(loaded.skipped)}
    if step_times is not None:
        row |= in_seconds(result, steptime, step_times, settings, console)[1]
    if json:
        console.json(row)
    elif "-" not in (output, certificate):
        from sortedf.report import tables

        console.show(tables.result(row))
    if result.stop_reason == "interrupted":
        console.note("this is the best plan so far")
        raise typer.Exit(130)


def _write_certificate(result: Result, path: str, loaded: options.Loaded, console: Console) -> None:
    """Write what proves the bound of a result; where that is no certificate, prices instead."""
    from sortedf.instances import new_certificate, write_certificate
    from sortedf.lp.bounds import prices_bound

    proof = result.proof
    if proof is None:
        with console.status("bounding by prices"):
            proof = prices_bound(loaded.instance.in_blocks(result.block_size))
    if result.lower_bound_exact is not None and ceil(proof.value) < ceil(result.lower_bound_exact):
        console.note(
            f"the certificate proves {ceil(proof.value):,}; the rest up to {result.lower_bound:,} "
            "is by a formula or a full search, which have none"
        )
    certificate = new_certificate(
        loaded.instance, proof, block_size=result.block_size, skipped=loaded.positions
    )
    with console.status(f"writing {path}"):
        write_certificate(certificate, path)
    if path != "-":
        console.note(f"certificate written to {path}")


def _numbers(text: str) -> tuple[float, float, float]:
    try:
        threshold, short, long = map(float, text.split(","))
    except ValueError:
        raise OptionError(
            f"--proxies is {text!r}; it takes three numbers T,S,L: threshold, short, long"
        ) from None
    return threshold, short, long
