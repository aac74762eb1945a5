"""The gap report as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sortedf.report import descriptions
from sortedf.report.numbers import EXTRA_COLUMNS, PLAN_COLUMNS, short_fraction, shown
from sortedf.report.palette import SHAPES, line_style
from sortedf.report.shell import inlined, render

Document = Mapping[str, Any]


def page(document: Document) -> str:
    """Make the page of a report out of its document.

    Every number of a table stands in a ``<data>`` element with its exact value and the key at which
    the document has it. Ids, names and parameters are escaped. Same document, same bytes.
    """
    from markupsafe import Markup

    def number(key: str, form: str = "integer") -> Markup:
        value = lookup(document, key)
        if value is None:
            return Markup('<span class="none">none</span>')
        return Markup('<data value="{}" data-key="{}">{}</data>').format(
            value, key, shown(value, form)
        )

    return render(
        "page.html",
        document=document,
        number=number,
        short_fraction=short_fraction,
        pictures=dict(_pictures(document)),
        window=descriptions.window,
        plan_columns=PLAN_COLUMNS,
        extra_columns=EXTRA_COLUMNS,
        line_style=line_style,
        shapes=SHAPES,
    )


def lookup(document: Document, key: str) -> Any:
    """Find the value at a key such as ``rows.0.total_latency``."""
    value: Any = document
    for part in key.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _pictures(document: Document) -> Iterator[tuple[str, Any]]:
    """Draw each picture on both papers; gives its name and its two drawings."""
    from sortedf.report import figures

    whole = {
        "lengths": ("Tokens a request", figures.lengths, descriptions.lengths),
        "curves": ("Requests finished over time", figures.curves, descriptions.curves),
        "prices": ("What memory is worth over time", figures.prices, descriptions.prices),
        "extra-memory": (
            "Latency against KV budget",
            figures.extra_memory,
            descriptions.extra_memory,
        ),
    }
    with figures.style():
        for name, (title, draw, describe) in whole.items():
            drawings = [(draw(document, paper), None) for paper in figures.PAPERS]
            yield name, inlined(name, title, describe(document), drawings)
        for k, plan in enumerate(document["pictures"]["memory"]["plans"]):
            of = document["rows"][plan["row"]]["name"]
            of += f", worker {plan['worker']}" if "worker" in plan else ""
            drawings = [(figures.memory(document, k, paper), None) for paper in figures.PAPERS]
            text = descriptions.memory(document, k)
            yield f"memory-{k}", inlined(f"memory-{k}", f"Memory held, {of}", text, drawings)
            packed = [figures.packing(document, k, paper) for paper in figures.PAPERS]
            text = descriptions.packing(document, k)
            yield f"packing-{k}", inlined(f"packing-{k}", f"Packing, {of}", text, packed)
