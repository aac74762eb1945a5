"""`sortedf learn`: output lengths predicted from finished requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sortedf.cli import options
from sortedf.cli.console import Console
from sortedf.cli.outputs import check_outputs
from sortedf.errors import OptionError

if TYPE_CHECKING:
    from sortedf.instances.history import Requests
    from sortedf.serving.predictor import Predictor


def learn(
    history: Annotated[
        str,
        typer.Argument(
            metavar="HISTORY",
            help="Finished requests: a trace, token counts, ShareGPT, or an OpenAI batch file.",
        ),
    ],
    answers: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Output file of the batch, as run/output.jsonl."),
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(metavar="BACKLOG", help="Requests whose outputs are to be predicted."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="The backlog with predictions: .csv or .jsonl, also .gz; - is stdout.",
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A column of the files that is known on arrival; repeatable."
        ),
    ] = None,
    coverage: Annotated[
        float, typer.Option(metavar="C", help="Share of outputs that intervals are to hold.")
    ] = 0.9,
    tokenizer: options.Tokenizer = None,
    prompt_tokens: options.PromptTokens = None,
    skip_bad_lines: options.SkipBadLines = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn output lengths from finished requests, and predict those of a backlog.

    The errors are those on the later quarter of HISTORY, learnt from what came before. BACKLOG is
    predicted from all of it: medians as output_tokens, the interval as lower and upper, and whether
    it is long.
    """
    if (predict is None) != (output is None):
        raise OptionError("--predict BACKLOG and -o FILE go together")
    read = history, answers, predict
    if read.count("-") > 1:
        raise OptionError("only one of the files that are read can be stdin")
    check_outputs({"-o": output}, *read, json=json)
    from sortedf import __version__
    from sortedf.instances.history import read_history, read_requests
    from sortedf.serving import predictor
    from sortedf.serving.prediction_errors import try_out

    console = Console(quiet=quiet)
    predictor.learners()  # before a long history is read for nothing
    reading: dict[str, Any] = {
        "columns": column or [],
        "skip_bad_lines": skip_bad_lines,
        "tokenizer": tokenizer,
        "prompt_tokens": prompt_tokens,
        "note": console.note,
    }
    with console.status(f"reading {history}"):
        finished = read_history(history, answers=answers, **reading)
    backlog = None
    if predict is not None:
        with console.status(f"reading {predict}"):
            backlog = read_requests(predict, **reading)
        known = set(finished.traits.names)
        finished = finished.shared_with(backlog.traits)
        if missing := known - set(finished.traits.names):
            names = ", ".join(sorted(missing))
            console.note(f"not learnt from, as {predict} does not have it: {names}")
    with console.status(f"learning from {len(finished):,} requests"):
        trial = try_out(finished, coverage=coverage, seed=seed)
        whole = predictor.learn(finished, coverage=coverage, seed=seed)
    document = trial.to_dict() | {
        "schema": "sortedf.learned/1",
        "version": __version__,
        "history": history,
        "coverage": coverage,
        "seed": seed,
    }
    if backlog is not None and output is not None:
        document |= {"predicted": predict, "output": output, **_write(whole, backlog, output)}
        if output != "-":
            console.note(f"{len(backlog.instance):,} predicted requests written to {output}")
    if json:
        console.json(document)
    elif output != "-":
        from sortedf.report import prediction_tables

        console.show(prediction_tables.trial(document))


def _write(whole: Predictor, backlog: Requests, output: str) -> dict[str, Any]:
    """Write the backlog with what is predicted of it; says how much that is."""
    import numpy as np

    from sortedf.instances import write_backlog

    found = whole.predict(backlog.traits)
    outputs = np.maximum(np.rint(found.predicted), 1).astype(np.int64)
    columns = {"lower": found.lower, "upper": found.upper, "long": found.long.astype(np.int64)}
    write_backlog(backlog.instance.replace(output_tokens=outputs), output, columns=columns)
    return {"n": len(outputs), "output_tokens": int(outputs.sum())}
