"""The same backlog in several orders on one engine: predicted beside realized, and who is first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sortedf.runner.executed import Attempt, read_attempts
from sortedf.runner.run_identity import MANIFEST

PLAN = "plan"
"""What the plan of the run is called among the orders."""

AGAINST = "against"
"""Folder in that of the run that holds those of the others, ``NAME/1``, ``NAME/2``, ..."""

WORTH_TELLING = 0.05
"""Share by which two mean latencies differ that are told apart."""

CURVE_POINTS = 300

FIGURES = (
    ("mean_latency", "latency", "mean"),
    ("p50_latency", "latency", "p50"),
    ("p95_latency", "latency", "p95"),
    ("p99_latency", "latency", "p99"),
    ("mean_ttft", "ttft", "mean"),
    ("makespan", "makespan", "whole"),
)


def whole_attempt(folder: Path) -> Attempt | None:
    """Give the one attempt that did all of a run; ``None`` where it took several, or is not done.

    Times of several starts are of several clocks, and of engines that were not as busy.
    """
    if not (folder / MANIFEST).is_file():
        return None
    attempts = read_attempts(folder)
    return attempts[0] if len(attempts) == 1 and attempts[0].whole else None


def whole_runs(folder: Path) -> list[Path]:
    """Give the folders ``1``, ``2``, ... that hold whole runs, first to last."""
    numbers = sorted(int(path.name) for path in folder.glob("*") if path.name.isdecimal())
    return [path for n in numbers if whole_attempt(path := folder / str(n)) is not None]


def next_run(folder: Path) -> Path:
    """Give the folder of the run to come. What was not brought to its end stays where it is."""
    numbers = [int(path.name) for path in folder.glob("*") if path.name.isdecimal()]
    return folder / str(max(numbers, default=0) + 1)


def comparison(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Compare orders that were run on the same backlog and engine.

    Parameters
    ----------
    runs
        Documents of :func:`sortedf.runner.run_validation.validate_attempt` by order, one or more
        for each, as many for all; the plan's under :data:`PLAN`.

    Returns
    -------
    document : dict
        ``rows``, an order each: ``order, handover, runs``, ``predicted`` and ``realized`` figures
        (seconds; medians over the runs), ``ratio`` of each to the plan's; ``ranking``, a pair
        each; ``verdict``, one line; ``curves``, answers over time.
    """
    rows = [_row(name, documents) for name, documents in runs.items()]
    plan = next(row for row in rows if row["order"] == PLAN)
    for row in rows:
        row["ratio"] = {
            side: row[side]["mean_latency"] / plan[side]["mean_latency"]
            for side in ("predicted", "realized")
        }
    ranking = [_pair(one, other) for one, other in combinations(rows, 2)]
    return {
        "rows": rows,
        "ranking": ranking,
        "verdict": _verdict(rows, ranking),
        "curves": {name: _curves(documents) for name, documents in runs.items()},
    }


def _row(name: str, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sides: dict[str, dict[str, Any]] = {}
    for side in ("predicted", "realized"):
        sides[side] = {
            figure: median(_figure(document, side, measure, part) for document in documents)
            for figure, measure, part in FIGURES
        }
        for key in ("preemptions", "recomputed_tokens"):
            values = [document["work"][side][key] for document in documents]
            known = None not in values
            sides[side][key] = median(values) if known else None
    realized = [_figure(document, "realized", "latency", "mean") for document in documents]
    return {
        "order": name,
        "handover": documents[0]["handover"],
        "runs": len(documents),
        "n": documents[0]["n"],
        "in_order": all(document["admission"]["in_order"] for document in documents),
        "mean_latencies": realized,
        "error": median(
            _figure(document, "predicted", "latency", "mean")
            / _figure(document, "realized", "latency", "mean")
            - 1
            for document in documents
        ),
        **sides,
    }


def _figure(document: Mapping[str, Any], side: str, measure: str, part: str) -> float:
    return next(
        float(row[side])
        for row in document["figures"]
        if (row["measure"], row["figure"]) == (measure, part)
    )


def _pair(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Say of two orders which is first, predicted and realized."""
    ratios = {
        side: other[side]["mean_latency"] / one[side]["mean_latency"]
        for side in ("predicted", "realized")
    }
    return {
        "orders": [one["order"], other["order"]],
        "ratio": ratios,
        "agrees": bool(np.sign(ratios["predicted"] - 1) == np.sign(ratios["realized"] - 1)),
        "differs": max(ratios["realized"], 1 / ratios["realized"]) - 1 > WORTH_TELLING,
    }


def _verdict(rows: Sequence[Mapping[str, Any]], ranking: Sequence[Mapping[str, Any]]) -> str:
    by_realized = sorted(rows, key=lambda row: float(row["realized"]["mean_latency"]))
    best = by_realized[0]
    parts = [
        f"{row['order']} {row['realized']['mean_latency'] / best['realized']['mean_latency']:.2f} x"
        for row in by_realized[1:]
    ]
    wide = [pair for pair in ranking if pair["differs"]]
    wrong = [" and ".join(pair["orders"]) for pair in wide if not pair["agrees"]]
    if not wide:
        held = "no two differ by more than 5 %"
    elif wrong:
        held = f"foretold wrongly: {', '.join(wrong)}"
    else:
        pairs = "pair that differs" if len(wide) == 1 else f"{len(wide)} pairs that differ"
        held = f"the predicted ranking holds for {'the' if len(wide) == 1 else 'all'} {pairs} by "
        held += "more than 5 %"
    return f"{best['order']} is best, {', '.join(parts)} its mean latency; {held}"


def _curves(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give the moments by which each share of the answers was there, of the middle run."""
    means = [_figure(document, "realized", "latency", "mean") for document in documents]
    middle = documents[int(np.argsort(means, kind="stable")[(len(means) - 1) // 2])]
    times = middle["requests"]["latency"]
    shares = np.linspace(0, 1, min(CURVE_POINTS, middle["n"]) + 1)[1:]
    return {
        "share": shares.tolist(),
        **{
            side: np.quantile(times[side], shares, method="inverted_cdf").tolist()
            for side in ("predicted", "realized")
        },
    }
