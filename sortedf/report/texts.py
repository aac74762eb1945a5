"""The gap report as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sortedf.report.numbers import EXTRA_COLUMNS, PLAN_COLUMNS, short_fraction, shown

Document = Mapping[str, Any]

_MARKED = re.compile(r"([\\`*_\[\]<>|#&$~])")


def as_csv(document: Document) -> str:
    """Write the plans, a line each; the columns are the keys of the document's rows."""
    text = io.StringIO()
    rows = document["rows"]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def as_markdown(document: Document) -> str:
    """Write the tables of the report; pictures are left to the page."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    backlog, bound, extra = document["backlog"], document["bound"], document["extra_memory"]
    best = document["rows"][0]
    blocks = f" in blocks of {backlog['block_size']:,}" if backlog["block_size"] > 1 else ""
    workers = backlog.get("workers")
    memory = f"{len(workers)} workers with KV budgets of up to" if workers else "a KV budget of"
    yield "# Gap report"
    yield ""
    yield (
        f"{backlog['n']:,} requests on {memory} {backlog['kv_tokens']:,} tokens{blocks}. "
        f"The best plan, {_text(best['name'])}, has a mean latency of {best['mean_latency']:,.1f} "
        f"steps; no schedule has one below {shown(bound['mean'], 'down')}: the gap is "
        f"{shown(best['gap'], 'percent')}."
    )
    yield ""
    yield "## What was planned"
    yield ""
    keys = ("total", "mean", "least", "p50", "p95", "p99", "most")
    yield from _table(
        ("of a request", *keys),
        (
            (
                text,
                *(
                    shown(backlog[key][column], "decimal" if column == "mean" else "integer")
                    for column in keys
                ),
            )
            for key, text in (
                ("prompt_tokens", "prompt (tokens)"),
                ("output_tokens", "output (tokens)"),
                ("volume", "volume (token-steps)"),
            )
        ),
    )
    yield ""
    if backlog["left_out"]:
        yield f"{backlog['left_out']:,} more are larger than the budget and were left out."
        yield ""
    yield "## Plans"
    yield ""
    yield from _table(
        [heading for heading, _, _ in PLAN_COLUMNS],
        (
            [_text(shown(row[key], form)) for _, key, form in PLAN_COLUMNS]
            for row in document["rows"]
        ),
    )
    yield ""
    yield "Latencies and makespan in steps; gap = total latency / lower bound - 1."
    yield ""
    yield "## What more memory buys"
    yield ""
    yield (
        f"With x tokens more, no schedule has a total latency below "
        f"{shown(bound['by_prices'], 'down')} - {shown(extra['price_sum'], 'up')} x. "
        f"{extra['unit']} more would lower this bound by {shown(extra['per_unit'], 'up')} steps."
    )
    yield ""
    yield from _table(
        [heading.format(order=extra["order"]) for heading, _, _ in EXTRA_COLUMNS],
        ([shown(row[key], form) for _, key, form in EXTRA_COLUMNS] for row in extra["rows"]),
    )
    yield ""
    yield "## Provenance"
    yield ""
    yield from _table(
        ("plan", "file", "parameters", "seed", "version", "SHA-256 of the file"),
        (
            (
                _text(row["name"]),
                _text(row["file"]),
                _text(", ".join(f"{name} {value}" for name, value in row["parameters"].items())),
                str(row["seed"]),
                _text(row["version"]),
                row["file_sha256"],
            )
            for row in document["rows"]
        ),
    )
    yield ""
    yield f"- backlog: SHA-256 {backlog['instance_sha256']}"
    yield f"- lower bound: {short_fraction(bound['lower_bound_exact'])}, proved by {bound['kind']}"
    if bound["file"]:
        yield f"- certificate: {_text(bound['file'])}, SHA-256 {bound['file_sha256']}"
    yield f"- report made by sortedf {document['version']}"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(headings) + " |"
    yield "|---|" + "---:|" * (len(headings) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _text(value: str) -> str:
    """Write a name so that Markdown takes it as it is, on one line."""
    return _MARKED.sub(r"\\\1", " ".join(value.split()))


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return " ".join(f"{name}={of}" for name, of in value.items())
    return str(value).lower() if isinstance(value, bool) else value
