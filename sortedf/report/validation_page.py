"""The page of `sortedf validate`: predicted against realized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sortedf.report.engine_tables import FIGURES, NAMES, seconds, told

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
        names=NAMES,
        figures=FIGURES,
        seconds=seconds,
        told=told(document),
        figure=lambda measure, name: next(
            row for row in document["figures"] if (row["measure"], row["figure"]) == (measure, name)
        ),
    )


def _pictures(document: Document) -> Iterator[tuple[str, Any]]:
    from sortedf.report import figures, validation_figures
    from sortedf.report.shell import inlined

    drawn = {
        "scatter": ("Predicted against realized", validation_figures.scatter),
        "errors": ("Errors of single requests", validation_figures.errors),
        "series": ("Requests and KV cache over time", validation_figures.series),
    }
    with figures.style():
        for name, (title, draw) in drawn.items():
            drawings = [(draw(document, paper), None) for paper in figures.PAPERS]
            text = validation_figures.describe(document, name)
            yield name, inlined(name, title, text, drawings)
