"""`sortedf prove find`: a search for the backlog on which a policy does worst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.quantities import parse_tokens
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.solvers import Stop

DEFAULT_SECONDS = 60.0


def find(
    policy: Annotated[str, typer.Option(metavar="NAME", help="A solver that follows a rule.")],
    kv_tokens: Annotated[
        int, options.quantity("--kv-tokens", parse_tokens, "M", "KV budget in tokens.")
    ] = 64,
    requests: Annotated[
        int, typer.Option(min=2, max=100_000, metavar="N", help="Requests of a backlog at most.")
    ] = 100,
    seed: options.Seed = 0,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Backlogs to try; same numbers, same files.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Seconds that the search gets.",
            show_default="60, without --iterations",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FOLDER",
            help="Where to write the backlog, both plans and the certificate.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Search for the backlog on which a policy is farthest from the optimum.

    The ratio is bracketed: by a better plan from below, by a certified bound from above. -o writes
    both plans and the certificate for others to check.
    """
    if kv_tokens < 2:
        raise OptionError(f"--kv-tokens is {kv_tokens}; a request takes 2 tokens at least")
    from sortedf import __version__
    from sortedf.instances.files import make_folder
    from sortedf.proofs_check.finder import find_policy, find_worst
    from sortedf.proofs_check.worst_case import FINAL_STEPS, worst_case, write_case

    find_policy(policy)
    console = Console(quiet=quiet)
    stop = _stop(iterations, time_limit)
    if output is not None:
        make_folder(output)  # before the search, so that it is not lost
    with console.work(f"searching for the worst of {policy}") as say:
        found = find_worst(
            policy,
            kv_tokens,
            seed=seed,
            stop=stop,
            most_requests=requests,
            report=lambda tried, ratio, n: say(f"{tried:,} tried, ratio {ratio:.3f}, n = {n}"),
        )
    interrupted = found.stop_reason == "interrupted"
    with console.status("bracketing the ratio"):
        case = worst_case(found.instance, policy, steps=0 if interrupted else FINAL_STEPS)
        bracket = case.bracket()
    if output is not None:
        write_case(case, output)
        console.note(f"backlog, plans and certificate written to {output}")
    row = bracket.to_dict()
    if json:
        console.json(
            row
            | {
                "seed": seed,
                "iterations": found.iterations,
                "stop_reason": found.stop_reason,
                "instance_sha256": found.instance.sha256,
                "version": __version__,
            }
        )
    else:
        from sortedf.report.growth import bracket_table

        console.show(bracket_table([row]))
    if interrupted:
        console.note("this is the worst so far")
        raise typer.Exit(130)


def _stop(iterations: int | None, time_limit: float | None) -> Stop:
    from sortedf.solvers import AnyOf, MaxIterations, MaxSeconds

    stops: list[Stop] = []
    if iterations is not None:
        stops.append(MaxIterations(iterations))
    if time_limit is not None or iterations is None:
        stops.append(MaxSeconds(DEFAULT_SECONDS if time_limit is None else time_limit))
    return AnyOf(*stops)
