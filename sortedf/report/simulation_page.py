"""The page of `sortedf simulate`: policies side by side, with their tails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sortedf.report import simulation_tables as tables
from sortedf.report.page import lookup
from sortedf.report.palette import line_style

Document = Mapping[str, Any]

PERCENTILES = ("mean", "p50", "p75", "p90", "p95", "p99", "p99_9")
MEASURES = {
    "ttlt_UNIT": "Time to last token",
    "ttft_UNIT": "Time to first token",
    "tbt_UNIT": "Time between tokens",
    "UNIT_per_token": "Time to last token over output tokens",
}


def page(document: Document) -> str:
    """Make one page that needs nothing but itself from the document of ``sortedf simulate``.

    Every number of a table stands in a ``<data>`` element with its exact value and the key at which
    the document has it. Same document, same bytes.
    """
    from markupsafe import Markup

    from sortedf.report import simulation_figures
    from sortedf.report.shell import render

    unit, rows = document["unit"], document["rows"]
    done = [row for row in rows if row["error"] is None]

    def number(key: str, form: str = "time") -> Markup:
        try:
            value = lookup(document, key)
        except KeyError:  # a figure that no request had
            return Markup('<span class="none">none</span>')
        return Markup('<data value="{}" data-key="{}">{}</data>').format(
            value, key, tables.shown(value, form)
        )

    def least(figure: str) -> int:
        best = min(done, key=lambda row: row["figures"][figure])
        return next(place for place, row in enumerate(rows) if row is best)

    return render(
        "simulation.html",
        document=document,
        unit=unit,
        order=tables.best_first(rows, unit),
        tables=tables,
        number=number,
        sentence=lambda text: text[:1].upper() + text[1:],
        least=least,
        measures={name.replace("UNIT", unit): text for name, text in MEASURES.items()},
        percentiles=PERCENTILES,
        pictures=dict(_pictures(document)) if done else {},
        drawn=simulation_figures.drawn(document),
        others=simulation_figures.others(document),
        line_style=line_style,
    )


def _pictures(document: Document) -> Iterator[tuple[str, Any]]:
    from sortedf.report import figures, simulation_figures
    from sortedf.report.shell import inlined

    pictures = {
        "distributions": ("Requests within a time", simulation_figures.distributions),
        "tails": ("Requests later than a time", simulation_figures.tails),
        "attainment": ("Requests within a target", simulation_figures.attainment),
        "sizes": ("Slowdown by size", simulation_figures.slowdowns),
    }
    with figures.style():
        for name, (title, draw) in pictures.items():
            drawings = [(draw(document, paper), None) for paper in figures.PAPERS]
            yield name, inlined(name, title, simulation_figures.describe(document, name), drawings)
