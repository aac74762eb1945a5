"""Results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from sortedf.report.numbers import short_fraction

SHOWN_WORKERS = 16

WIDE, WIDE_WITH_BOUND = 125, 145
"""Columns that the whole comparison takes, without and with a lower bound."""


def comparison(rows: Sequence[Mapping[str, Any]], width: int = 160) -> Table:
    """Solvers beside each other, a line each, best mean latency first.

    ``rows`` are the objects of :meth:`sortedf.Result.to_dict`. Latencies and makespan are in steps;
    ``x best`` is the total latency over the least one here. On fewer than ``WIDE`` columns the
    total latency, the makespan and P50 are left out, and the bound and P99 if there is a gap to
    show: no number is ever cut.
    """
    first = rows[0]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{first['n']:,} requests, {budget(first)}"
        + (f" in blocks of {first['block_size']}" if first["block_size"] > 1 else ""),
        caption="latencies in steps, from release to last token",
    )
    bounded = any(row["lower_bound"] is not None for row in rows)
    best = min(row["total_latency"] for row in rows)
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "solver": lambda row: row["solver"],
        "mean": lambda row: f"{row['mean_latency']:,.1f}",
        "x best": lambda row: f"{row['total_latency'] / best:.3f}",
        "P50": lambda row: f"{row['p50_latency']:,}",
        "P95": lambda row: f"{row['p95_latency']:,}",
        "P99": lambda row: f"{row['p99_latency']:,}",
        "makespan": lambda row: f"{row['makespan']:,}",
        "total latency": lambda row: f"{row['total_latency']:,}",
        "bound": lambda row: "" if row["lower_bound"] is None else f"{row['lower_bound']:,}",
        "gap": lambda row: "" if row["gap"] is None else f"{row['gap']:.2%}",
        "seconds": lambda row: f"{row['seconds']:.3f}",
        "verified": lambda row: _yes(row["verified"]),
    }
    hidden = set() if bounded else {"bound", "gap"}
    if width < (WIDE_WITH_BOUND if bounded else WIDE):
        hidden |= {"P50", "makespan", "total latency", *({"bound", "P99"} if bounded else ())}
    shown = [heading for heading in columns if heading not in hidden]
    for heading in shown:
        left = heading in ("solver", "verified")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for row in sorted(rows, key=lambda row: row["total_latency"]):
        table.add_row(*(columns[heading](row) for heading in shown))
    return table


def facts(title: str, pairs: Iterable[tuple[str, str]]) -> Table:
    """Names and values, a line each."""
    table = Table(box=box.SIMPLE, title=title, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in pairs:
        table.add_row(name, value)
    return table


def result(row: Mapping[str, Any]) -> Table:
    """One plan, from the object of :meth:`sortedf.Result.to_dict`.

    Seconds stand beside the steps where the object has them.
    """
    parameters = ", ".join(f"{name} {value}" for name, value in row["parameters"].items())
    bound = row["lower_bound"]
    shares = [f"p{p}_latency" for p in (50, 95, 99)]
    timed = "engine" in row

    def seconds(*names: str) -> str:
        if not timed:
            return ""
        return ", " + " / ".join(f"{row[f'{name}_seconds']:,.3f}" for name in names) + " s"

    return facts(
        f"{row['n']:,} requests, {budget(row)}",
        [
            ("solver", f"{row['solver']} ({parameters})" if parameters else row["solver"]),
            *([("block size", f"{row['block_size']} tokens")] if row["block_size"] > 1 else []),
            ("total latency", f"{row['total_latency']:,} steps" + seconds("total_latency")),
            ("mean latency", f"{row['mean_latency']:,.1f} steps" + seconds("mean_latency")),
            ("P50, P95, P99", " / ".join(f"{row[name]:,}" for name in shares) + seconds(*shares)),
            ("makespan", f"{row['makespan']:,} steps" + seconds("makespan")),
            *_workers(row),
            *(_engine(row) if timed else []),
            ("lower bound", "none" if bound is None else f"{bound:,} ({row['bound_kind']})"),
            ("gap", "unknown" if row["gap"] is None else f"{row['gap']:.2%}"),
            ("status", f"{row['status']}, {row['stop_reason']}"),
            ("verified", _yes(row["verified"])),
            ("planned in" if timed else "seconds", f"{row['seconds']:.3f}" + " s" * timed),
        ],
    )


def budget(row: Mapping[str, Any]) -> str:
    """Say what memory there is: one budget, or the workers and theirs."""
    workers = row.get("workers")
    if not workers:
        return f"KV budget {row['kv_tokens']:,} tokens"
    budgets = sorted({worker["kv_tokens"] for worker in workers})
    each = f"{budgets[0]:,}" + (f" to {budgets[-1]:,}" if len(budgets) > 1 else "")
    return f"{len(workers)} workers, KV budget {each} tokens each"


def _workers(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Show what each worker has been given; of many the first ones."""
    workers = row.get("workers", [])
    shown = [
        (
            f"worker {worker['name']}",
            f"{worker['n']:,} requests, up to step {worker['makespan']:,}, "
            f"{worker['mean_kv_use']:.0%} of {worker['kv_tokens']:,}",
        )
        for worker in workers[:SHOWN_WORKERS]
    ]
    if more := len(workers) - len(shown):
        shown.append(("more workers", f"{more:,}"))
    return shown


def _engine(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Show what the engine made of a plan, beside its latencies."""
    engine = row["engine"]
    return [
        ("mean time to first token", f"{row['mean_ttft_seconds']:,.3f} s"),
        ("steps of the engine", f"{row['engine_steps']:,}, {row['preemptions']:,} preemptions"),
        (
            "engine",
            f"{engine['version']}, {engine['policy']}, by {row['steptime_file']}; "
            f"blocks of {engine['block_size']:,}, {engine['max_num_seqs']:,} requests at once, "
            f"{engine['max_num_batched_tokens']:,} tokens a step",
        ),
    ]


def verified_plan(check: Mapping[str, Any]) -> Table:
    """Show a plan that was found right, from the document of ``sortedf verify --json``."""
    against = "itself" if check["backlog"] is None else check["backlog"]
    return facts(
        f"{check['plan']} holds against {against}",
        [
            ("requests", f"{check['n']:,}"),
            *([("left out", f"{check['skipped']:,}")] if check["skipped"] else []),
            ("solver", check["solver"]),
            ("total latency", f"{check['total_latency']:,} steps"),
            ("makespan", f"{check['makespan']:,} steps"),
            *_most_held(check),
            ("verified", _yes(check["verified"])),
        ],
    )


def _most_held(check: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Show the most that is held of each budget."""
    if "workers" not in check:
        text = f"{check['peak_kv_tokens']:,} of {check['kv_tokens']:,} tokens"
        return [("most KV held", text)]
    return [
        (
            f"most on worker {worker['name']}",
            f"{worker['peak_kv_tokens']:,} of {worker['kv_tokens']:,} tokens",
        )
        for worker in check["workers"][:SHOWN_WORKERS]
    ]


def verified_certificate(check: Mapping[str, Any]) -> Table:
    """Show a bound that was recomputed, from the document of ``sortedf verify --json``."""
    return facts(
        f"{check['certificate']} holds for {check['backlog']}",
        [
            ("requests", f"{check['n']:,}"),
            *([("left out", f"{check['skipped']:,}")] if check["skipped"] else []),
            ("KV budget", f"{check['kv_tokens']:,} tokens"),
            *([("workers", f"{len(check['workers']):,}")] if "workers" in check else []),
            *([("block size", f"{check['block_size']} tokens")] if check["block_size"] > 1 else []),
            ("total latency at least", f"{check['lower_bound']:,} steps"),
            ("exactly", short_fraction(check["lower_bound_exact"])),
            ("prices", f"{check['pieces']:,} pieces up to step {check['horizon']:,}"),
            *([("leaves of the tree", f"{check['leaves']:,}")] if check["leaves"] > 1 else []),
            ("verified", _yes(check["verified"])),
        ],
    )


def bounds(document: Mapping[str, Any], width: int = 160) -> Table:
    """Lower bounds beside each other, from the document of ``sortedf bound --json``.

    On fewer than ``WIDE`` columns the exact fractions, the horizon and the leaves are left out.
    """
    best = document["lower_bound"]
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{document['n']:,} requests, {budget(document)}"
        + (f" in blocks of {document['block_size']}" if document["block_size"] > 1 else ""),
        caption="no plan has a total latency below its bound, steps",
    )
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "method": lambda row: row["method"],
        "bound": lambda row: f"{row['lower_bound']:,}",
        "of best": lambda row: f"{row['lower_bound'] / best:.4f}",
        "exactly": lambda row: short_fraction(row["lower_bound_exact"]),
        "horizon": lambda row: "" if row["horizon"] is None else f"{row['horizon']:,}",
        "pieces": lambda row: "" if row["pieces"] is None else f"{row['pieces']:,}",
        "leaves": lambda row: "" if row["leaves"] is None else f"{row['leaves']:,}",
        "seconds": lambda row: f"{row['seconds']:.2f}",
        "proof": lambda row: row["proof"],
    }
    hidden = set() if width >= WIDE else {"exactly", "horizon", "leaves"}
    shown = [heading for heading in columns if heading not in hidden]
    for heading in shown:
        left = heading in ("method", "proof")
        table.add_column(heading, justify="left" if left else "right", overflow="fold")
    for row in document["rows"]:
        table.add_row(*(columns[heading](row) for heading in shown))
    return table


def kv_budget(budget: Mapping[str, Any]) -> Table:
    """Show the sum that ends in a KV budget, from the document of ``sortedf kv-budget --json``."""
    table = Table(box=box.SIMPLE_HEAD, title="KV budget of one GPU")
    table.add_column("step")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("how")
    for step in budget["steps"]:
        table.add_row(step["label"], f"{step['value']:,}", step["unit"], step["how"])
    return table


def _yes(value: bool) -> str:
    return "yes" if value else "no"
