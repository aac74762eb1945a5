"""Online policies side by side, as tables for a terminal; columns and words for the page too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

Document = Mapping[str, Any]
Row = Mapping[str, Any]

NEVER = "never ends"


class Column(NamedTuple):
    """A column of the table of policies.

    Parameters
    ----------
    heading
        What it is.
    key
        Of the figure in a row, with ``UNIT`` and ``ONE`` for the unit and one of it.
    form
        ``time``, ``count``, ``rate`` or ``share``.
    width
        Columns that a terminal must have for it to be shown.
    """

    heading: str
    key: str
    form: str
    width: int = 0


COLUMNS = (
    Column("mean", "mean_ttlt_UNIT", "time"),
    Column("P50", "p50_ttlt_UNIT", "time", 100),
    Column("P99", "p99_ttlt_UNIT", "time"),
    Column("P99.9", "p99_9_ttlt_UNIT", "time", 110),
    Column("first token", "mean_ttft_UNIT", "time"),
    Column("its P99", "p99_ttft_UNIT", "time", 90),
    Column("between tokens", "mean_tbt_UNIT", "time", 130),
    Column("a token", "mean_UNIT_per_token", "time", 145),
    Column("tokens/ONE", "output_tokens_per_ONE", "rate"),
    Column("preempted", "preemptions", "count"),
    Column("recomputed", "recomputed_share", "share", 100),
    Column("longest wait", "longest_wait_UNIT", "time", 120),
)
"""Times are to the last token where the heading says nothing else."""

CERTAIN = ("mean_ttlt_UNIT", "p99_ttlt_UNIT", "p99_ttft_UNIT")
"""Figures that are written with their intervals."""


def key_of(column: Column, unit: str) -> str:
    """Give the key of a column's figure."""
    return column.key.replace("UNIT", unit).replace("ONE", unit.removesuffix("s"))


def heading_of(column: Column, unit: str) -> str:
    """Give a column's heading."""
    return column.heading.replace("ONE", "s" if unit == "seconds" else "step")


def shown(value: float | None, form: str) -> str:
    """Write a figure: times and rates in three digits or more, counts whole."""
    if value is None:
        return ""
    if form == "share":
        return f"{value:.1%}"
    if form == "count":
        return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"
    if form == "rate" or value >= 100:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:.2f}" if value >= 1 else f"{value:.4f}" if value >= 0.001 else f"{value:.3g}"


def best_first(rows: Sequence[Row], unit: str) -> list[int]:
    """Give the places of the rows, least mean time to last token first; who never ends, last."""
    key = f"mean_ttlt_{unit}"

    def rank(place: int) -> tuple[bool, float]:
        found = rows[place].get("figures")
        return (found is None, 0.0 if found is None else found[key])

    return sorted(range(len(rows)), key=rank)


def simulation(document: Document, width: int = 160) -> RenderableType:
    """Show the document of ``sortedf simulate``, best mean first, and how each was carried out."""
    unit, rows = document["unit"], document["rows"]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title(document),
        caption=f"{unit}, to the last token where nothing else is said; " + seeds_words(document),
    )
    table.add_column("policy", overflow="fold", min_width=_widest(rows))
    # Intervals take the room of some columns.
    room = width - 40 * (len(document["seeds"]) > 1)
    columns = [column for column in COLUMNS if column.width <= room]
    for column in columns:
        table.add_column(heading_of(column, unit), justify="right")
    places = best_first(rows, unit)
    for place in places:
        row = rows[place]
        if row["error"] is not None:
            table.add_row(row["policy"], NEVER)
            continue
        table.add_row(
            row["policy"],
            *(with_interval(row, column, unit) for column in columns),
        )
    parts: list[RenderableType] = [table, _sides(document, places)]
    if document["ablation"]:
        parts.append(ablation(document))
    return Group(*parts)


def _widest(rows: Sequence[Row]) -> int:
    """Give the columns that the names of policies get, at most 24."""
    return min(24, max(len(row["policy"]) for row in rows))


def _sides(document: Document, places: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="how each was carried out")
    table.add_column("policy", overflow="fold")
    table.add_column("")
    for place in places:
        row = document["rows"][place]
        table.add_row(row["policy"], side_words(document, row))
    return table


def with_interval(row: Row, column: Column, unit: str) -> str:
    """Write a figure of a row; those of :data:`CERTAIN` with half of their interval."""
    key = key_of(column, unit)
    value = row["figures"].get(key)
    text = shown(value, column.form)
    if value is None or row["intervals"] is None or column.key not in CERTAIN:
        return text
    low, high = row["intervals"][key]
    return f"{text} ±{shown((high - low) / 2, column.form)}"


def title(document: Document) -> str:
    """Say what was served on what."""
    work = document["workload"]
    return (
        f"{counted(work['n'], 'request')} of {work['name']}, {arrivals_words(document)}; "
        f"KV cache {work['kv_tokens']:,} tokens; {engine_words(document)}; "
        f"lengths known: {document['known']}"
    )


def counted(n: int, noun: str) -> str:
    """Write a number of things."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


PROCESSES = {
    "own": "stamps of the trace",
    "poisson": "Poisson",
    "bursty": "Poisson in two states",
    "at-once": "all at once",
}


def arrivals_words(document: Document) -> str:
    """Say when the requests arrive: at the rate that was asked for, else at that of the trace."""
    told, one = document["arrivals"], document["unit"].removesuffix("s")
    work = document["workload"]
    rate = work[f"asked_requests_per_{one}"] or work[f"requests_per_{one}"]
    saturated = work[f"saturated_requests_per_{one}"]
    words = PROCESSES[told["process"]]
    if rate is not None:
        words += f", {rate:.3g} a {one}"
        if saturated is not None:
            words += f", load {rate / saturated:.2f}"
    if told["shift"] is not None:
        words += f", times {told['shift']:g} " + (
            "when half have come" if told["shift_at"] is None else f"from {told['shift_at']:g} on"
        )
    return words


def engine_words(document: Document) -> str:
    """Say what served the requests."""
    settings = document["settings"]
    if settings is None:
        return "in steps"
    return f"{settings['version']} replayed, step times {document['steptime_file']}"


def seeds_words(document: Document) -> str:
    """Say what figures are over seeds."""
    count = len(document["seeds"])
    if not document["drawn"]:
        return "nothing was drawn at random"
    if count == 1:
        return f"seed {document['seeds'][0]}"
    return f"means over {count} seeds ± half of the {document['confidence']:.0%} interval"


def side_words(document: Document, row: Row) -> str:
    """Say what a policy was made with, and how the engine carried it out."""
    words = choice_words(row["chosen"] or [])
    parts = [f"{name} {value}" for name, value in row["parameters"].items()]
    if parts:
        words.append(", ".join(parts))
    if row["error"] is not None:
        words.insert(0, str(row["error"]))
    elif row["known"].split()[0] != document["known"].partition(":")[0]:
        words.append(f"lengths known: {row['known']}")
    return "; ".join([*words, row["carried_out"]])


def choice_words(chosen: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what ``auto`` chose and why, of the first seed; and on which seeds it chose otherwise."""
    if not chosen:
        return []
    first = chosen[0]
    return [f"chose {first['policy']}: {first['reason']}"] + [
        f"on seed {one['seed']} {one['policy']} ({one['carried_out']}): {one['reason']}"
        for one in chosen[1:]
        if (one["policy"], one["side"]) != (first["policy"], first["side"])
    ]


STEPS = {
    "uniboost-dist": "boost orders who waits and who is preempted",
    "uniboost-space": "one space of priorities, hysteresis",
    "uniboost-guard": "memory guard",
    "uniboost": "gamma learnt",
}
"""What each step of UniBoost adds."""

RATIOS = (
    Column("mean", "mean_ttlt_UNIT", "time"),
    Column("P50", "p50_ttlt_UNIT", "time"),
    Column("P99", "p99_ttlt_UNIT", "time"),
    Column("P99.9", "p99_9_ttlt_UNIT", "time"),
    Column("first token", "mean_ttft_UNIT", "time"),
    Column("its P99", "p99_ttft_UNIT", "time"),
    Column("between tokens", "mean_tbt_UNIT", "time"),
    Column("tokens/ONE", "output_tokens_per_ONE", "rate"),
)
"""Columns of the ablation: ratios to the step before."""


def ratio(found: Mapping[str, float | None] | None) -> str:
    """Write a ratio, with its interval where there is one."""
    if found is None:
        return ""
    text = f"{found['mean']:.3f}"
    if found["low"] is None:
        return text
    return f"{text} ({found['low']:.2f}-{found['high']:.2f})"


def ablation(document: Document) -> Table:
    """Show UniBoost's steps, each against the one before."""
    unit = document["unit"]
    table = Table(box=box.SIMPLE_HEAD, title="UniBoost step by step: times the figure before")
    for heading in ("step", "against"):
        table.add_column(heading, overflow="fold", min_width=14)
    for column in RATIOS:
        table.add_column(heading_of(column, unit), justify="right")
    for step in document["ablation"]:
        found = [ratio(step["ratios"].get(key_of(column, unit))) for column in RATIOS]
        table.add_row(step["step"], step["against"], *found)
    return table
