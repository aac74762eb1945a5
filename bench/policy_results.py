"""What bench/policies.py has found, by workload, load and policy; tables of it in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from policy_entries import WATERMARKS, first_come

from sortedf.serving.metrics import Interval, intervals, ratio_interval

Runs = list[dict[str, float]]

REAL = ("free swap", "auto", "noise", "one bit", "bounds", "nothing")
"""What keeps a line from being the best policy that an engine can have with lengths known."""


@dataclass
class Results:
    """Figures of each seed, by (workload, load, label of the policy)."""

    runs: dict[tuple[str, str, str], Runs] = field(default_factory=dict)
    seconds: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def labels(self, kind: str, load: str) -> list[str]:
        """Policies that were served to the end there."""
        return [label for k, at, label in self.runs if (k, at) == (kind, load)]

    def mean(self, kind: str, load: str, label: str, figure: str) -> float:
        """Mean of a figure over the seeds; KeyError where it was not run."""
        return float(np.mean([run[figure] for run in self.runs[kind, load, label]]))

    def ratio(self, kind: str, load: str, figure: str, ours: str, theirs: str) -> Interval:
        """Ratio of two policies, seed by seed, with its interval."""
        one, other = self.runs[kind, load, ours], self.runs[kind, load, theirs]
        return ratio_interval([run[figure] for run in one], [run[figure] for run in other])

    def best_first_come(self, kind: str, load: str) -> str:
        """First come with the watermark of the least P99."""
        some = [first_come(percent) for percent in WATERMARKS]
        return min(some, key=lambda label: self.mean(kind, load, label, "p99_ttlt"))

    def best_mean(self, kind: str, load: str) -> str:
        """Policy of the least mean, lengths known exactly, by recompute."""
        some = [
            label for label in self.labels(kind, load) if not any(word in label for word in REAL)
        ]
        return min(some, key=lambda label: self.mean(kind, load, label, "mean_ttlt"))

    def near_both(self, kind: str, load: str) -> list[str]:
        """Those within 10 % of the best mean and of the P99 of first come's best watermark."""
        best, first = self.best_mean(kind, load), self.best_first_come(kind, load)
        mean = 1.1 * self.mean(kind, load, best, "mean_ttlt")
        tail = 1.1 * self.mean(kind, load, first, "p99_ttlt")
        return [
            label
            for label in self.labels(kind, load)
            if self.mean(kind, load, label, "mean_ttlt") <= mean
            and self.mean(kind, load, label, "p99_ttlt") <= tail
        ]

    def front(self, kind: str, load: str) -> list[str]:
        """Those that no other beats in both mean and P99, by mean; lengths known or not."""
        labels = [label for label in self.labels(kind, load) if "free swap" not in label]
        points = {
            label: tuple(self.mean(kind, load, label, name) for name in ("mean_ttlt", "p99_ttlt"))
            for label in labels
        }
        ordered, front, least = sorted(labels, key=points.__getitem__), [], float("inf")
        for label in ordered:
            if points[label][1] < least:
                front.append(label)
                least = points[label][1]
        return front

    def to_json(self) -> str:
        """One document: a row for each workload, load and policy, intervals of every figure."""
        rows = []
        for (kind, load, label), runs in self.runs.items():
            found = {
                name: {"mean": value.mean, "low": _or_none(value.low), "high": _or_none(value.high)}
                for name, value in intervals(runs).items()
            }
            row: dict[str, Any] = {"workload": kind, "load": load, "policy": label}
            seconds = self.seconds[kind, load, label]
            rows.append(row | {"seeds": len(runs), "seconds": seconds, "figures": found})
        return json.dumps({"rows": rows}, allow_nan=False)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def markdown(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Give a table whose first column is text, the others numbers."""
    names = list(head)
    lines = [
        f"\n### {title}\n",
        f"| {' | '.join(names)} |",
        "|---" + "|---:" * (len(names) - 1) + "|",
    ]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def table(results: Results, kind: str, load: str, title: str) -> str:
    """Give the figures of every policy at a load; +- is half of a 95 % interval over the seeds."""
    head = ("policy", "mean", "+-", "P50", "P99", "+-", "P99.9", "TTFT P99", "s/token")
    more = ("longest wait", "preempted", "recomputed", "tokens/s", "s")
    rows = []
    for label in results.labels(kind, load):
        values = intervals(results.runs[kind, load, label])
        mean, tail = values["mean_ttlt"], values["p99_ttlt"]
        rows.append(
            (
                label,
                f"{mean.mean:.2f}",
                f"{mean.half_width:.2f}",
                f"{values['p50_ttlt'].mean:.2f}",
                f"{tail.mean:.1f}",
                f"{tail.half_width:.1f}",
                f"{values['p99.9_ttlt'].mean:.1f}",
                f"{values['p99_ttft'].mean:.1f}",
                f"{values['mean_seconds_per_token'].mean:.4f}",
                f"{values['longest_wait'].mean:.0f}",
                f"{values['preemptions'].mean:,.0f}",
                f"{100 * values['recomputed_share'].mean:.1f} %",
                f"{values['throughput'].mean:,.0f}",
                f"{results.seconds[kind, load, label]:.2f}",
            )
        )
    return markdown(title, (*head, *more), rows)
