"""What papers report beside what bench/policies.py has found; how near auto is to the best."""

from __future__ import annotations

from policy_entries import KINDS, first_come
from policy_results import Results, markdown

CLAIMS = (
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt, free swap", "0.50-0.65 (UniBoost)"),
    (
        "P99 to last token",
        "p99_ttlt",
        "uniboost",
        "srpt, waiting evicts nobody",
        "0.50-0.65 (UniBoost)",
    ),
    ("P99 to last token", "p99_ttlt", "uniboost", "srpt-repaired", "0.50-0.65 (UniBoost)"),
    ("P99 to last token", "p99_ttlt", "uniboost", first_come(1), "-"),
    ("P99 to first token", "p99_ttft", "uniboost", "srpt", "0.53-0.66 (UniBoost)"),
    ("throughput", "throughput", "uniboost", "srpt", "1.01-1.12 (UniBoost)"),
    ("throughput", "throughput", "uniboost", "fcfs", "1.01-1.12 (UniBoost)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "fcfs", "0.36-0.74 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf", "sjf", "0.66-0.88 in bursts (SVF)"),
    ("seconds per token", "mean_seconds_per_token", "svf-1bit", "sjf", "0.68-1.55 in bursts (SVF)"),
)
"""Measure, figure, policy, held against, and the ratio that the papers' figures give."""


def claims(results: Results, kind: str, load: str) -> str:
    """Hold ratios of policies, with 95 % intervals over the seeds, against those of the papers."""
    rows = []
    for measure, figure, ours, theirs, paper in CLAIMS:
        try:
            ratio = results.ratio(kind, load, figure, ours, theirs)
        except KeyError:
            rows.append((measure, f"{ours} / {theirs}", "never ends", "", paper))
            continue
        span = f"{ratio.low:.2f}-{ratio.high:.2f}"
        rows.append((measure, f"{ours} / {theirs}", f"{ratio.mean:.2f}", span, paper))
    return markdown(
        f"{kind} at {load}: beside the papers",
        ("measure", "policies", "ratio", "95 %", "the papers'"),
        rows,
    )


def targets(results: Results, load: str) -> str:
    """Hold auto against the best mean and against first come with its best watermark."""
    rows = []
    for kind in (kind for kind in KINDS if results.labels(kind, load)):
        best, first = results.best_mean(kind, load), results.best_first_come(kind, load)
        mean = results.ratio(kind, load, "mean_ttlt", "auto", best)
        tail = results.ratio(kind, load, "p99_ttlt", "auto", first)
        means = [results.mean(kind, load, label, "mean_ttlt") for label in ("auto", best)]
        tails = [results.mean(kind, load, label, "p99_ttlt") for label in ("auto", first)]
        rows.append(
            (
                kind,
                f"{means[0]:.2f} / {means[1]:.2f} ({best})",
                f"{means[0] / means[1]:.2f} ({mean.low:.2f}-{mean.high:.2f})",
                f"{tails[0]:.1f} / {tails[1]:.1f} ({first})",
                f"{tails[0] / tails[1]:.2f} ({tail.low:.2f}-{tail.high:.2f})",
                "yes" if "auto" in results.near_both(kind, load) else "no",
            )
        )
    return markdown(
        f"auto at {load}, lengths known: both within 10 %?",
        ("workload", "mean / best", "ratio", "P99 / first come", "ratio", "both"),
        rows,
    )


def fronts(results: Results, load: str) -> str:
    """Show who is beaten by nobody in both mean and P99."""
    rows = [
        (f"{kind}: {label}", *(f"{results.mean(kind, load, label, name):.2f}" for name in names))
        for names in [("mean_ttlt", "p99_ttlt", "p99.9_ttlt")]
        for kind in KINDS
        if results.labels(kind, load)
        for label in results.front(kind, load)
    ]
    return markdown(f"Front of mean and P99 at {load}", ("policy", "mean", "P99", "P99.9"), rows)
