"""Claims that were checked: a table for a terminal, and the page of `sortedf prove`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

Row = Mapping[str, Any]
"""A finding as plain data."""

WIDE = 115
"""Columns that the whole table takes."""

COLUMNS: dict[str, Callable[[Row], str]] = {
    "claim": lambda row: row["claim"],
    "source": lambda row: row["source"],
    "against": lambda row: row["against"],
    "instances": lambda row: f"{row['checked']:,}",
    "largest ratio": lambda row: "" if row["largest"] is None else f"{row['largest']:.4f}",
    "of its limit": lambda row: "" if row["share"] is None else f"{row['share']:.1%}",
    "holds": lambda row: holds(row),
}
WORDS = ("claim", "source", "against", "holds")
"""Columns of words; the others are numbers."""


def holds(row: Row) -> str:
    """Say how a claim stands, for people."""
    said = {
        "holds": "yes",
        "unchecked": "not checked",
        "measured": "measured",
        "undecided": f"undecided on {row['undecided']:,}",
        "violated": f"NO: {row['violated']:,}",
    }
    return said[row["verdict"]]


def table(rows: Sequence[Row], title: str, width: int = 160) -> Table:
    """Claims beside each other; on fewer than ``WIDE`` columns without their sources."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        caption="ratio of the total latency (or of the bound) to what it is held against; "
        "measured: nothing that an instance could refute",
    )
    shown = [heading for heading in COLUMNS if width >= WIDE or heading != "source"]
    for heading in shown:
        justify: Any = "left" if heading in WORDS else "right"
        made.add_column(heading, justify=justify, overflow="fold")
    for row in rows:
        made.add_row(*(COLUMNS[heading](row) for heading in shown))
    return made


def page(document: Row) -> str:
    """Make one page that needs nothing but itself from the document of ``sortedf prove``.

    Same document, same bytes.
    """
    from sortedf.report.palette import line_style
    from sortedf.report.shell import render

    return render(
        "claims.html",
        document=document,
        pictures=dict(_pictures(document)),
        columns=COLUMNS,
        zip=zip,
        line_style=line_style,
    )


def _pictures(document: Row) -> Iterator[tuple[str, Any]]:
    """Draw the pictures of each part, ``shares-P`` and ``curves-P-K``, on both papers."""
    from sortedf.report import claims_figures, figures
    from sortedf.report.shell import inlined

    with figures.style():
        for place, part in enumerate(document["parts"]):
            if limited(part):
                name = f"shares-{place}"
                drawings = [(claims_figures.shares(part, p), None) for p in figures.PAPERS]
                text = claims_figures.describe_shares(part)
                yield name, inlined(name, f"Ratios and limits, {part['title']}", text, drawings)
            for k, drawn in enumerate(part["curves"]):
                name = f"curves-{place}-{k}"
                drawings = [(claims_figures.curves(drawn, p), None) for p in figures.PAPERS]
                text = claims_figures.describe_curves(drawn)
                yield name, inlined(name, drawn["title"], text, drawings)


def limited(part: Row) -> list[Row]:
    """Return the findings of a part that have a limit which an instance can refute."""
    return [
        row for row in part["findings"] if row["share"] is not None and row["verdict"] != "measured"
    ]
