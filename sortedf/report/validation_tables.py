"""Predicted against realized of what `sortedf run` executed, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sortedf.report import engine_tables
from sortedf.report.engine_tables import seconds
from sortedf.report.tables import facts

Document = Mapping[str, Any]

ORDER_FIGURES = {
    "mean_latency": "mean latency",
    "p50_latency": "P50",
    "p95_latency": "P95",
    "p99_latency": "P99",
    "mean_ttft": "mean time to first token",
    "makespan": "makespan",
    "preemptions": "preemptions",
    "recomputed_tokens": "recomputed tokens",
}

HANDOVERS = {
    "planned": "handed to a scheduler that keeps to the plan",
    "priority": "handed to the engine's own scheduler as priorities",
    "order": "handed to the engine's own scheduler one after another, as one would without sortedf",
    "chunks": "handed to the engine's own scheduler in chunks that fit",
}


def run(document: Document) -> RenderableType:
    """Show the document of ``sortedf validate`` of a run folder."""
    parts: list[RenderableType] = [_attempt(attempt) for attempt in document["attempts"]]
    if document["against"] is not None:
        parts.append(_orders(document["against"]))
    return Group(*parts)


def _attempt(document: Document) -> RenderableType:
    table = engine_tables.validation(document)
    table.caption = document["predicted_by"]
    return Group(table, facts(attempt_title(document), attempt_facts(document)))


def attempt_title(document: Document) -> str:
    """Name an attempt, and say whether it is whole."""
    if document["whole"]:
        return f"attempt {document['attempt']}"
    asked = "" if document["jobs"] is None else f" of {document['jobs']:,}"
    return f"attempt {document['attempt']}, interrupted: {document['n']:,}{asked} answered"


def attempt_facts(document: Document) -> list[tuple[str, str]]:
    """Give what else there is to say of an attempt, as names and words."""
    errors, work = document["errors"]["latency"], document["work"]
    admission = document["admission"]
    late = admission["out_of_order"]
    ranks = [document["rank_correlation"][name] for name in ("spearman", "kendall")]
    pairs = [
        (
            "error of a request: median, P90",
            f"{errors['median_share']:.2%}, {errors['p90_share']:.2%}",
        ),
        (
            "rank correlation of completions: Spearman, Kendall",
            "none" if None in ranks else ", ".join(f"{rank:.4f}" for rank in ranks),
        ),
        (
            "admitted in the order of the plan",
            "yes" if admission["in_order"] else f"no, {late:,} after one that the plan has later",
        ),
        ("preemptions: realized, predicted", counts(work, "preemptions")),
        ("recomputed tokens: realized, predicted", counts(work, "recomputed_tokens")),
        ("to hand over", seconds(document["seconds_to_hand_over"])),
        ("warmed up", warm_up_words(document["warm_up"])),
    ]
    if document["refused"]:
        pairs.append(("without an answer", f"{document['refused']:,}"))
    lengths = document["lengths"]
    if lengths is not None:
        pairs.append(
            (
                "outputs: longer, shorter than predicted",
                f"{lengths['longer']:,}, {lengths['shorter']:,}",
            )
        )
        if lengths["replayed"] is not None:
            found = lengths["replayed"]
            pairs += [
                (
                    "error of the mean latency: all, by lengths, by step times",
                    f"{found['error']:+.2%}, {found['of_lengths']:+.2%}, "
                    f"{found['of_step_times']:+.2%}",
                ),
            ]
    return pairs


def warm_up_words(told: Document | None) -> str:
    """Say what an engine did before the run."""
    if told is None:
        return "no"
    return (
        f"{told['rounds']} x {told['requests']:,} requests, {told['output_tokens']:,} output tokens"
    )


def counts(work: Document, key: str) -> str:
    """Write a realized count and the predicted one."""
    return ", ".join(count(work[side][key]) for side in ("realized", "predicted"))


def count(value: float | None) -> str:
    """Write a count, or a median of counts; ``not known`` for none."""
    return "not known" if value is None else f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}"


def order_value(key: str, value: float | None) -> str:
    """Write a figure of an order."""
    if value is None or key in ("preemptions", "recomputed_tokens"):
        return count(value)
    return seconds(value)


def _orders(document: Document) -> RenderableType:
    runs = document["rows"][0]["runs"]
    title = "against other orders" + (f", medians of {runs} runs each" if runs > 1 else "")
    table = Table(box=box.SIMPLE_HEAD, title=title)
    table.add_column("")
    table.add_column("")
    for row in document["rows"]:
        table.add_column(row["order"], justify="right")
    for key, name in ORDER_FIGURES.items():
        for side in ("realized", "predicted"):
            values = [order_value(key, row[side][key]) for row in document["rows"]]
            table.add_row(name if side == "realized" else "", side, *values)
    for side in ("realized", "predicted"):
        ratios = [f"{row['ratio'][side]:.3f}" for row in document["rows"]]
        table.add_row("mean latency, times the plan's" if side == "realized" else "", side, *ratios)
    table.add_row("error of the mean", "", *(f"{row['error']:+.2%}" for row in document["rows"]))
    said = Text("\n".join([*handover_lines(document), *pair_lines(document), document["verdict"]]))
    return Group(table, said)


def handover_lines(document: Document) -> list[str]:
    """Say how each order was handed over, a line for each way."""
    ways: dict[str, list[str]] = {}
    for row in document["rows"]:
        ways.setdefault(row["handover"], []).append(row["order"])
    return [f"{', '.join(names)}: {HANDOVERS[way]}" for way, names in ways.items()]


def pair_lines(document: Document) -> list[str]:
    """Say of each pair of orders whether it was foretold which is first."""
    lines = []
    for pair in document["ranking"]:
        one, other = pair["orders"]
        ratio = pair["ratio"]
        told = "as predicted" if pair["agrees"] else "not as predicted"
        if not pair["differs"]:
            told += ", within 5 %"
        lines.append(
            f"{other} over {one}: realized {ratio['realized']:.3f}, predicted "
            f"{ratio['predicted']:.3f}: {told}"
        )
    return lines
