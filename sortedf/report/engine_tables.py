"""Calibrations, predictions and validations as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table

from sortedf.report.tables import facts

NAMES = {
    "ttft": "time to first token",
    "latency": "latency",
    "tpot": "time per further token",
    "makespan": "makespan",
}
FIGURES = {"mean": "mean", "p50": "P50", "p90": "P90", "p95": "P95", "p99": "P99", "whole": ""}
SHARES = ("p50", "p95", "p99")


def seconds(value: float) -> str:
    """Write seconds, or milliseconds below a tenth of one."""
    return f"{value:,.3f} s" if value >= 0.1 else f"{1000 * value:.3f} ms"


def calibration(document: Mapping[str, Any]) -> Group:
    """Show what was fitted, and to what, from the document of ``sortedf calibrate --json``."""
    steptime = document["steptime"]
    part = steptime["calibration"]
    interval = part["interval"]
    pairs = [
        ("trained on", document["trained_on"]),
        ("form", document["form"]),
        *((name, f"{value:.6g} s") for name, value in steptime["coefficients"].items()),
    ]
    if document["from"] == "requests":
        pairs += [
            ("training error", seconds(document["training_error"])),
            ("blocks that all prompts share", str(part["shared_blocks"])),
        ]
    else:
        pairs.append(("outliers", f"{len(document['outliers']):,}"))
    if interval is not None:
        pairs.append(
            (
                f"error interval ({interval['coverage']:.0%})",
                f"first token {interval['first_token']:.2%}, "
                f"completion {interval['completion']:.2%} of the busy time, "
                f"{len(part['others'])} other models",
            )
        )
    return Group(facts(f"step times of {document['folder']}", pairs), _tried(document))


def _tried(document: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="tried")
    if document["from"] == "requests":
        for heading in ("form", "shared blocks", "training error", "starts ended at", ""):
            left = heading in ("form", "")
            table.add_column(heading, justify="left" if left else "right")
        for row in document["trials"]:
            ends = " ".join(f"{value:.3g}" for value in row["minima"])
            table.add_row(
                row["form"],
                str(row["shared_blocks"]),
                seconds(row["training_error"]),
                ends,
                "chosen" if row["chosen"] else "",
            )
        return table
    for heading in ("form", "held-out error", "95 % interval", "bias", ""):
        table.add_column(heading, justify="left" if heading in ("form", "") else "right")
    for row in document["held_out"]:
        table.add_row(
            row["form"],
            f"{row['error']:.2%}",
            f"{row['low']:.2%} - {row['high']:.2%}",
            f"{row['bias']:+.2%}",
            "chosen" if row["chosen"] else "",
        )
    return table


def prediction(document: Mapping[str, Any]) -> Table:
    """Show what a plan will take, from the document of ``sortedf predict --json``."""
    interval = document["steptime"]["calibration"]["interval"]
    engine = document["engine"]
    pairs = []
    for measure in ("ttft", "latency"):
        figures = {name: document[f"{name}_{measure}_seconds"] for name in ("mean", *SHARES)}
        pairs += [
            (f"mean {NAMES[measure]}", seconds(figures["mean"])),
            (
                f"{NAMES[measure]}, P50, P95, P99",
                " / ".join(seconds(figures[name]) for name in SHARES),
            ),
        ]
    pairs += [
        ("makespan", seconds(document["makespan_seconds"])),
        ("steps", f"{document['engine_steps']:,}"),
        ("preemptions", f"{document['preemptions']:,}"),
        ("most requests at once", f"{document['peak_running']:,}"),
        ("most of the KV cache", f"{document['peak_kv_use']:.1%}"),
        (
            "error interval",
            "none"
            if interval is None
            else f"first token {interval['first_token']:.2%}, completion "
            f"{interval['completion']:.2%} of the busy time "
            f"({interval['coverage']:.0%} of the requests)",
        ),
    ]
    return facts(
        f"{document['n']:,} requests in the order of {document['plan']}, {engine['version']}, "
        f"policy {engine['policy']}, KV cache {engine['kv_tokens']:,} tokens",
        pairs,
    )


def validation(document: Mapping[str, Any]) -> Table:
    """Predicted against realized, from the document of ``sortedf validate --json``."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{document['folder']}: {document['n']:,} requests, {document['engine']}",
        caption=told(document),
    )
    for heading in ("", "", "realized", "predicted", "error"):
        table.add_column(heading, justify="right" if heading else "left")
    last = None
    for row in document["figures"]:
        table.add_row(
            "" if row["measure"] == last else NAMES[row["measure"]],
            FIGURES[row["figure"]],
            seconds(row["realized"]),
            seconds(row["predicted"]),
            f"{row['error']:+.2%}",
        )
        last = row["measure"]
    return table


def told(document: Mapping[str, Any]) -> str:
    """Say what the prediction has seen, and how its interval held."""
    seen = document["trained_on"]
    parts = [f"trained on {seen}" if seen else "step times from elsewhere"]
    coverage = document["coverage"]
    if coverage is not None and coverage["latency"] is not None:
        parts.append(
            f"the {coverage['asked']:.0%} interval holds {coverage['latency']:.0%} of the "
            "latencies not trained on"
        )
    return "; ".join(parts)
