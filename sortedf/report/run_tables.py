"""What a run did, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from sortedf.report.engine_tables import seconds
from sortedf.report.tables import facts

FIGURES = {
    "mean_latency_seconds": "mean latency",
    "p50_latency_seconds": "P50",
    "p95_latency_seconds": "P95",
    "p99_latency_seconds": "P99",
    "mean_ttft_seconds": "mean time to first token",
    "makespan_seconds": "makespan",
    "preemptions": "preemptions",
}


def run(document: Mapping[str, Any]) -> RenderableType:
    """Show a run, from the document of ``sortedf run --json``."""
    names = ("engine", "handover", "answered", "failed", "not_run")
    pairs = [(name.replace("_", " "), _told(document[name])) for name in names]
    counts = facts(document["folder"], pairs)
    realized, predicted = document["realized"], document["predicted"]
    if not realized:
        return counts
    table = Table(box=box.SIMPLE_HEAD, title=f"{document['sequences']:,} sequences of this start")
    for heading in ("", "realized", *(("predicted", "error") if predicted else ())):
        table.add_column(heading, justify="right" if heading else "left")
    for key, name in FIGURES.items():
        row = [name, _figure(key, realized[key])]
        if predicted:
            row += [_figure(key, predicted[key]), _error(realized[key], predicted[key])]
        table.add_row(*row)
    return Group(counts, table)


def _told(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _figure(key: str, value: float) -> str:
    return f"{value:,}" if key == "preemptions" else seconds(value)


def _error(realized: float, predicted: float) -> str:
    return f"{predicted / realized - 1:+.2%}" if realized else ""
