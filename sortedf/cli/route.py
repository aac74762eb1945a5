"""`sortedf route`: which instance each request goes to, by several rules beside each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs
from sortedf.errors import OptionError

MOST_REQUESTS = 1_000_000
MOST_SEEDS = 1_000
DEFAULT_RULES = "shortest-queue,latency-agnostic,sfs,priced"


def route(
    instances: Annotated[
        str | None,
        typer.Argument(
            metavar="INSTANCES",
            help="JSON file of instances. Left out: the three published ones.",
            show_default=False,
        ),
    ] = None,
    *,
    rules: Annotated[
        str, typer.Option(metavar="A,B,...|all", help="Rules to hold against each other.")
    ] = DEFAULT_RULES,
    rates: Annotated[
        str, typer.Option(metavar="R,R,...", help="Requests a second, ascending.")
    ] = "3,5,7,9",
    arrivals: Annotated[
        str, typer.Option(metavar="NAME", help="poisson, or mmpp-R: two states, rates 1 : R.")
    ] = "poisson",
    requests: Annotated[
        int,
        typer.Option(
            "--requests",
            "-n",
            min=1,
            max=MOST_REQUESTS,
            metavar="N",
            help="Requests at each rate.",
        ),
    ] = 2_000,
    seeds: Annotated[
        int, typer.Option(min=1, max=MOST_SEEDS, metavar="K", help="Workloads at each rate.")
    ] = 1,
    seed: options.Seed = 0,
    sigma: Annotated[
        float,
        typer.Option(metavar="S", help="Log-normal deviation of predicted outputs; 0 is exact."),
    ] = 0.4,
    cost_weight: Annotated[
        float,
        typer.Option(metavar="L", help="Utility is quality in % less this x cost in 1e-6 $."),
    ] = 5e-4,
    bound: Annotated[bool, typer.Option(help="Hold each rule against the offline bound.")] = True,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PAGE",
            help="Page with tables and pictures, one HTML file; - is stdout.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Send requests to one of several instances: rules simulated beside each other.

    Every instance is replayed forward; a rule sees them as they are when a request comes.
    """
    check_outputs({"-o": output}, instances, json=json)
    wanted = _rates(rates)
    from sortedf import __version__
    from sortedf.routing.compare import compare
    from sortedf.routing.instance_file import read_instances
    from sortedf.routing.instances import check_weight, published_instances
    from sortedf.routing.rules import RULES

    check_weight(cost_weight, "--cost-weight")
    console = Console(quiet=quiet)
    fleet = published_instances() if instances is None else read_instances(instances)
    names = list(RULES) if rules == "all" else [name.strip() for name in rules.split(",")]
    with console.work("routing") as say:
        document: dict[str, Any] = {"version": __version__} | compare(
            fleet,
            names,
            wanted,
            arrivals=arrivals,
            n=requests,
            seeds=seeds,
            first_seed=seed,
            sigma=sigma,
            weight=cost_weight,
            bounded=bound,
            say=say,
        )
    if output is not None:
        from sortedf.instances.files import write_whole
        from sortedf.report.routing import page

        with console.status(f"writing {output}"):
            write_whole(output, [page(document).encode()])
        if output != "-":
            console.note(f"page written to {output}")
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report.routing import summary, table

        console.show(summary(document))
        for rate in document["rates"]:
            console.show(table(document, rate))


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"--rates is {text!r}; write numbers like 3,5,8.8") from None
