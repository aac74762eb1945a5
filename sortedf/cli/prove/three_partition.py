"""`sortedf prove three-partition`: a problem decided as a backlog, and in two more ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.errors import Fault, InputError, OptionError, VerificationError

if TYPE_CHECKING:
    from sortedf.proofs_check.three_partition import ThreePartition
    from sortedf.proofs_check.three_partition_check import Verdict

MOST_M = 7
"""Largest m that all three ways decide in seconds, whatever the numbers; 8 can take minutes."""

LIMIT = f"up to m = {MOST_M} ({3 * MOST_M} numbers) are decided"

DEFAULT_M, DEFAULT_TARGET = 5, 100


def three_partition(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help='JSON {"numbers": [...], "target": B}, also gzipped; - is stdin.',
            show_default=False,
        ),
    ] = None,
    random: Annotated[
        bool, typer.Option("--random", help="Draw a problem that has a partition.")
    ] = False,
    m: Annotated[
        int | None,
        typer.Option(
            "--m", metavar="M", min=1, help="Triples to draw.", show_default=str(DEFAULT_M)
        ),
    ] = None,
    target: Annotated[
        int | None,
        typer.Option(
            metavar="B", min=3, help="What triples sum to.", show_default=str(DEFAULT_TARGET)
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="K", min=0, help="Seed of what is drawn.", show_default="0"),
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Draw one that has no partition.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Decide a 3-Partition problem by planning a backlog.

    3m numbers between B/4 and B/2 that sum to m B: can they be put into triples that sum to B? Just
    if a backlog made of them has a schedule of total latency 3 m (m + 1) / 2. A clique of disjoint
    triples, an exact cover and the proven optimum of the backlog must say the same. Up to m = 7.
    """
    given = {"--m": m, "--target": target, "--seed": seed, "--no": no or None}
    if random == (file is not None):
        raise OptionError("name a FILE or say --random, one of the two")
    if file is not None and (
        unused := [flag for flag, value in given.items() if value is not None]
    ):
        raise OptionError(f"{unused[0]} goes with --random only, not with a FILE")
    if m is not None and m > MOST_M:
        raise OptionError(f"--m is {m}; {LIMIT}")
    console = Console(quiet=quiet)
    problem = (
        _read(file)
        if file is not None
        else _draw(
            DEFAULT_M if m is None else m,
            DEFAULT_TARGET if target is None else target,
            seed or 0,
            no=no,
        )
    )
    from sortedf.proofs_check.three_partition import reduce_three_partition
    from sortedf.proofs_check.three_partition_check import decide

    with console.status(f"deciding {len(problem.numbers)} numbers in three ways"):
        verdict = decide(reduce_three_partition(problem))
    if verdict.faults:
        raise VerificationError(verdict.faults)
    document = _document(verdict)
    if json:
        console.json(document)
    else:
        console.show(_table(document))


def _read(file: str) -> ThreePartition:
    from sortedf.proofs_check.three_partition_file import read_three_partition

    problem = read_three_partition(file)
    if problem.m > MOST_M:
        name = "<stdin>" if file == "-" else file
        raise InputError([Fault(name, None, f"m is {problem.m}; {LIMIT}: take a smaller problem")])
    return problem


def _draw(m: int, target: int, seed: int, *, no: bool) -> ThreePartition:
    from sortedf.proofs_check.three_partition_draw import draw_no, draw_yes

    if no and m == 1:
        raise OptionError("--no needs --m 2 or more: one triple always sums to the target")
    try:
        return draw_no(m, target, seed) if no else draw_yes(m, target, seed)
    except InputError as error:  # a target for which there is no valid problem
        raise OptionError(f"--target {target}: {error.faults[0].message}") from None


def _document(verdict: Verdict) -> dict[str, Any]:
    from sortedf import __version__
    from sortedf.proofs_check.three_partition_check import say

    reduction, partition = verdict.reduction, verdict.recovered
    problem = reduction.problem
    return {
        "numbers": list(problem.numbers),
        "target": problem.target,
        "m": problem.m,
        "answer": say(verdict.answer),
        "partition": partition and [[problem.numbers[i] for i in t] for t in partition],
        "positions": partition and [list(triple) for triple in partition],
        "target_latency": reduction.target_latency,
        "optimum": verdict.optimum,
        "kv_tokens": reduction.instance.kv_tokens,
        "factor": reduction.factor,
        "deciders": {
            "clique": say(verdict.clique is not None),
            "exact_cover": say(verdict.cover is not None),
            "schedule": say(verdict.by_schedule),
        },
        "starts": verdict.result.schedule.starts.tolist(),
        "bound_kind": verdict.result.bound_kind,
        "verified": verdict.result.verified,
        "version": __version__,
        "instance_sha256": reduction.instance.sha256,
    }


def _table(document: dict[str, Any]) -> Any:
    from sortedf.report import tables

    optimum = "not known" if document["optimum"] is None else f"{document['optimum']:,} steps"
    triples = document["partition"] or []
    return tables.facts(
        f"{document['answer']}: {len(document['numbers'])} numbers, triples of "
        f"{document['target']:,}",
        [
            ("numbers", ", ".join(map(str, document["numbers"]))),
            *((f"triple {k}", " + ".join(map(str, t))) for k, t in enumerate(triples, 1)),
            ("KV budget", f"{document['kv_tokens']:,} tokens"),
            ("target total latency", f"{document['target_latency']:,} steps"),
            ("least total latency", optimum),
            *((way.replace("_", " "), says) for way, says in document["deciders"].items()),
        ],
    )
