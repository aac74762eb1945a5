"""The gap report as plain data: what every form of it (page, JSON, tables) is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

import sortedf
from sortedf.model import Instance, Result
from sortedf.model.instance import IntArray
from sortedf.model.result import BoundKind
from sortedf.report.memory import Classes, bin_edges, memory_held, volume_quarters
from sortedf.report.packing_windows import packing_windows
from sortedf.report.parts import Part, parts_of
from sortedf.report.proof import Proof
from sortedf.report.scarcity import price_bins, step_of_share

SCHEMA = "sortedf.report/1"

PICTURED = 6
"""Plans whose memory is drawn: all of up to so many, else the best ones and the worst. Over the
number of workers, but at least two."""

BINS = 360
CURVE_POINTS = 500

LENGTH_BINS = 24


@dataclass(frozen=True)
class ReportedPlan:
    """A verified plan with what its file says.

    Parameters
    ----------
    result
        The plan; its bound is left aside.
    file, file_sha256
        The plan file, and its SHA-256 (unpacked).
    recorded_bound
        The bound that the file records, which is not checked here.
    peak
        The most tokens that it holds at a step.
    """

    result: Result
    file: str
    file_sha256: str
    recorded_bound: int | None
    peak: int


def gap_report(
    plans: Sequence[ReportedPlan], proof: Proof, extra: dict[str, Any], left_out: int = 0
) -> dict[str, Any]:
    """Gather what a report says, all of it plain data.

    Parameters
    ----------
    plans
        Of one instance and block size; in any order.
    proof
        The bound, for the instance in blocks.
    extra
        What :func:`sortedf.report.extra_memory.extra_memory` found.
    left_out
        Requests of the backlog that are larger than the budget and not planned.
    """
    plans = sorted(plans, key=lambda plan: plan.result.total_latency)
    names = plan_names(plans)
    first = plans[0].result
    instance, planned = first.instance, first.instance.in_blocks(first.block_size)
    rows = [_row(plan, name, planned, proof) for plan, name in zip(plans, names, strict=True)]
    best = plans[0].result.total_latency
    extra_rows = [row | {"saved_at_most": best - row["least"]} for row in extra["rows"]]
    shown = list(range(len(plans)))
    most = max(2, PICTURED // len(planned.workers))
    if len(plans) > most:
        shown = [*shown[: most - 1], shown[-1]]
    parts = [part for k in shown for part in parts_of(plans[k].result, planned, k)]
    last = max(row["makespan"] for row in rows)
    classes = volume_quarters(instance)
    return {
        "schema": SCHEMA,
        "version": sortedf.__version__,
        "backlog": _backlog(instance, first.block_size, left_out),
        "bound": _bound(proof, len(instance)),
        "rows": rows,
        "extra_memory": extra | {"rows": extra_rows},
        "pictures": {
            "lengths": {
                name: _histogram(getattr(instance, name))
                for name in ("prompt_tokens", "output_tokens")
            },
            "curves": {
                "last": last,
                "released": _released(instance),
                "plans": [_curve(plan.result, k) for k, plan in enumerate(plans)],
            },
            "memory": {
                "last": last,
                "budget": planned.kv_tokens,
                "classes": _classes(instance, classes),
                "plans": [_memory(part, classes, plans[part.row].result) for part in parts],
            },
            "packing": [
                {
                    "row": part.row,
                    **part.told,
                    "windows": packing_windows(part.planned, part.starts),
                }
                for part in parts
            ],
            "prices": _prices(proof, extra["unit_tokens"], last),
        },
    }


def plan_names(plans: Sequence[ReportedPlan]) -> list[str]:
    """Call each plan by its solver; where that is not enough, by its file too, and a number."""
    names = [plan.result.solver for plan in plans]
    if len(set(names)) < len(names):
        names = [f"{plan.result.solver} ({plan.file})" for plan in plans]
    if len(set(names)) < len(names):
        names = [f"{name} #{k}" for k, name in enumerate(names, 1)]
    return names


def _row(plan: ReportedPlan, name: str, planned: Instance, proof: Proof) -> dict[str, Any]:
    bounded = replace(plan.result, lower_bound_exact=proof.value, bound_kind=BoundKind.CERTIFIED)
    row = bounded.to_dict()
    for of_the_run in ("seconds", "status", "stop_reason"):
        del row[of_the_run]
    budget = planned.pooled.kv_tokens * plan.result.makespan
    return {
        "name": name,
        **row,
        "bound_kind": str(row["bound_kind"]),
        "peak_kv_tokens": plan.peak,
        "mean_kv_use": float(planned.volume.astype(np.float64).sum()) / budget,
        "file": plan.file,
        "file_sha256": plan.file_sha256,
        "recorded_bound": plan.recorded_bound,
    }


def _backlog(instance: Instance, block_size: int, left_out: int) -> dict[str, Any]:
    return {
        "n": len(instance),
        "left_out": left_out,
        "kv_tokens": instance.kv_tokens,
        **({"workers": _workers(instance)} if len(instance.workers) > 1 else {}),
        "block_size": block_size,
        "instance_sha256": instance.sha256,
        "last_release": int(instance.release.max()),
        "prompt_tokens": _spread(instance.prompt_tokens),
        "output_tokens": _spread(instance.output_tokens),
        "volume": _spread(instance.volume),
    }


def _workers(instance: Instance) -> list[dict[str, Any]]:
    return [worker._asdict() for worker in instance.workers]


def _spread(values: IntArray) -> dict[str, Any]:
    percents = (0, 50, 95, 99, 100)
    points = np.percentile(values, percents, method="inverted_cdf").tolist()
    names = ("least", "p50", "p95", "p99", "most")
    total = sum(values.tolist())
    return {"total": total, "mean": total / len(values), **dict(zip(names, points, strict=True))}


def _bound(proof: Proof, n: int) -> dict[str, Any]:
    value = proof.value
    rounded_up = ceil(value)
    return {
        "lower_bound": rounded_up,
        "lower_bound_exact": f"{value.numerator}/{value.denominator}",
        "mean": rounded_up / n,
        "kind": proof.kind,
        "by_prices": float(proof.price_value),
        "by_prices_exact": f"{proof.price_value.numerator}/{proof.price_value.denominator}",
        "pieces": len(proof.prices.first),
        "horizon": proof.prices.horizon,
        "file": proof.file,
        "file_sha256": proof.file_sha256,
    }


def _histogram(lengths: IntArray) -> dict[str, list[int]]:
    """Count lengths in bins of even ratio; bin b is edges[b]..edges[b + 1] - 1 tokens."""
    ends = np.geomspace(lengths.min(), lengths.max() + 1, LENGTH_BINS + 1)
    edges = np.unique(np.rint(ends).astype(np.int64))
    counts = np.diff(np.searchsorted(np.sort(lengths), edges))
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _sampled(steps: IntArray) -> dict[str, list[int]]:
    """Give steps in ascending order, of many some, with how many are at or before each."""
    ordered = np.sort(steps)
    n = len(ordered)
    count = min(n, CURVE_POINTS)
    ranks = np.array([n * k // count for k in range(1, count + 1)])
    at = ordered[ranks - 1]
    reached = np.searchsorted(ordered, at, side="right")
    at, where = np.unique(at, return_index=True)
    return {"steps": at.tolist(), "finished": reached[where].tolist()}


def _curve(result: Result, row: int) -> dict[str, Any]:
    completions = result.schedule.starts + result.instance.output_tokens
    return {"row": row, **_sampled(completions)}


def _released(instance: Instance) -> dict[str, Any] | None:
    return _sampled(instance.release) if instance.release.any() else None


def _classes(instance: Instance, classes: Classes) -> list[dict[str, int]]:
    least = [
        int(instance.volume[classes.of == k].min(initial=most))
        for k, most in enumerate(classes.most)
    ]
    return [
        {"least_volume": low, "most_volume": high, "requests": count}
        for low, high, count in zip(least, classes.most, classes.requests, strict=True)
    ]


def _memory(part: Part, classes: Classes, result: Result) -> dict[str, Any]:
    edges = bin_edges(result.makespan, BINS)
    held = memory_held(part.planned, part.starts, classes.of[part.members], edges)
    return {
        "row": part.row,
        **part.told,
        "edges": edges.tolist(),
        "mean": [[round(tokens, 3) for tokens in of_class] for of_class in held.mean.tolist()],
        "peak": held.peak.tolist(),
    }


def _prices(proof: Proof, unit: int, last: int) -> dict[str, Any]:
    """Prices by bin, for a unit of memory (steps of latency a step)."""
    horizon = max(1, proof.prices.horizon)
    edges = bin_edges(horizon, BINS)
    mean = price_bins(proof.prices, edges)
    return {
        "last": max(last, horizon),
        "edges": edges.tolist(),
        "mean": [float(f"{unit * price:.6g}") for price in mean.tolist()],
        "half_by": step_of_share(proof.prices, 0.5),
        "nine_tenths_by": step_of_share(proof.prices, 0.9),
    }
