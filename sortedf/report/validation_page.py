"""The pages of `sortedf validate`: predicted against realized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sortedf.report import validation_tables
from sortedf.report.engine_tables import FIGURES, NAMES, seconds, told
from sortedf.report.palette import line_style

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """Make one page that needs nothing but itself from the document of ``sortedf validate``.

    Same document, same bytes.
    """
    from sortedf.report.shell import render

    return render(
        "validation.html",
        document=document,
        pictures=dict(_pictures(document)),
        told=told(document),
        **_words(document),
    )


def run_page(document: Document) -> str:
    """Make the page of a run of ``sortedf run``: its fullest attempt, and other orders.

    Same document, same bytes.
    """
    from sortedf.report.shell import render

    attempt = document["attempts"][document["most"]]
    against = document["against"]
    pictures = dict(_pictures(attempt))
    if against is not None:
        pictures |= dict(_pictures_of_orders(against))
    return render(
        "run_validation.html",
        document=document,
        attempt=attempt,
        against=against,
        pictures=pictures,
        tables=validation_tables,
        line_style=line_style,
        **_words(attempt),
    )


def _words(document: Document) -> dict[str, Any]:
    return {
        "names": NAMES,
        "figures": FIGURES,
        "seconds": seconds,
        "figure": lambda measure, name: next(
            row for row in document["figures"] if (row["measure"], row["figure"]) == (measure, name)
        ),
    }


def _pictures(document: Document) -> Iterator[tuple[str, Any]]:
    from sortedf.report import validation_figures

    drawn = {
        "scatter": ("Predicted against realized", validation_figures.scatter),
        "errors": ("Errors of single requests", validation_figures.errors),
        "series": ("Requests and KV cache over time", validation_figures.series),
    }
    yield from _drawn(document, drawn, validation_figures.describe)


def _pictures_of_orders(document: Document) -> Iterator[tuple[str, Any]]:
    from sortedf.report import against_figures

    drawn = {
        "orders": ("Mean latency of each order", against_figures.orders),
        "answers": ("Answers over time", against_figures.answers),
    }
    yield from _drawn(document, drawn, against_figures.describe)


def _drawn(
    document: Document, drawn: Mapping[str, tuple[str, Any]], describe: Any
) -> Iterator[tuple[str, Any]]:
    from sortedf.report import figures
    from sortedf.report.shell import inlined

    with figures.style():
        for name, (title, draw) in drawn.items():
            drawings = [(draw(document, paper), None) for paper in figures.PAPERS]
            yield name, inlined(name, title, describe(document, name), drawings)
