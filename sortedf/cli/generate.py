"""`sortedf generate`: a backlog of a known kind."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs


def generate(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="chat, summaries, mix, synthetic, uniform, ..."),
    ],
    n: Annotated[int, typer.Option("-n", metavar="N", min=1, help="Number of requests.")],
    seed: options.Seed = 0,
    kv_tokens: options.KvTokens = None,
    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="BACKLOG", help="File: .csv or .jsonl, also .gz; - is stdout."
        ),
    ] = "-",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a backlog of a known kind.

    The same arguments give the same bytes.
    """
    check_outputs({"-o": output}, json=json)
    from sortedf import instances

    console = Console(quiet=quiet)
    with console.status(f"generating {n:,} requests"):
        backlog = instances.generate(kind, n, seed=seed, kv_tokens=kv_tokens)
        instances.write_backlog(backlog, output)
    if output == "-":
        return
    summary: dict[str, Any] = {
        "kind": kind,
        "n": n,
        "seed": seed,
        "kv_tokens": backlog.kv_tokens,
        "prompt_tokens": int(backlog.prompt_tokens.sum()),
        "output_tokens": int(backlog.output_tokens.sum()),
        "instance_sha256": backlog.sha256,
        "output": output,
    }
    if json:
        console.json(summary)
    else:
        console.note(
            f"{n:,} requests ({summary['prompt_tokens']:,} prompt and "
            f"{summary['output_tokens']:,} output tokens) written to {output}; "
            f"made for --kv-tokens {backlog.kv_tokens}"
        )
