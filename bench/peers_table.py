"""The table of peers.py out of its rows, which are those of its JSON document."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def ending(row: dict[str, Any]) -> str:
    """How a run ended, in a few words."""
    if row["refused"]:
        return "REFUSED BY THE VERIFIER"
    if row["false_claim"]:
        return "CLAIM ABOVE A SCHEDULE"
    if "error" in row:
        return str(row["error"])
    if "failure" in row:
        building = "size" in row and "build_seconds" not in row
        return f"{row['failure']}, building the model" if building else str(row["failure"])
    if "wall_seconds" not in row:
        return "the start"
    if row["found"] is None:
        return "no schedule"
    if row["proved"]:
        return "proved"
    return "proved on its grid" if row.get("grid_proved") else "time limit"


def table_of(rows: list[dict[str, Any]], title: str) -> Table:
    """Lay the rows out, a section a backlog."""
    table = Table(box=SIMPLE_HEAD, title=title)
    for heading in ("instance", "M", "solver"):
        table.add_column(heading, no_wrap=True)
    for heading in ("grid", "size", "found", "listed", "gap", "bound", "build s", "s", "CPU s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("MiB", justify="right")
    table.add_column("ended")

    def cell(row: dict[str, Any], key: str, form: str, unit: float = 1) -> str:
        return "" if row.get(key) is None else format(row[key] / unit, form)

    for row, after in zip(rows, [*rows[1:], None], strict=True):
        table.add_row(
            row["instance"],
            f"{row['kv_tokens']:,}",
            row["solver"],
            cell(row, "grid", ".0f"),
            row.get("size", ""),
            cell(row, "found", ",.0f"),
            cell(row, "listed", ",.0f"),
            cell(row, "gap", ".2%"),
            cell(row, "bound", ",.0f"),
            cell(row, "build_seconds", ".1f"),
            cell(row, "wall_seconds", ".1f"),
            cell(row, "cpu_seconds", ".1f"),
            cell(row, "peak_bytes", ",.0f", 2**20),
            ending(row),
            end_section=after is not None and after["solver"] == "svf",
        )
    return table
