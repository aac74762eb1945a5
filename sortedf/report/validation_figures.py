"""The pictures of the page of `sortedf validate`, and what they show in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sortedf.report.figures import Paper, color, label, new

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Mapping[str, Any]

MEASURES = {"ttft": "first token", "latency": "last token"}

BINS = 40

REALIZED, PREDICTED = "ink", "line-1"
TRAINED, UNSEEN = "line-7", "line-0"


def scatter(document: Document, paper: Paper) -> Figure:
    """Draw a point a request: realized seconds since arrival against predicted ones."""
    beside = paper.name == "wide"
    figure, grid = new(paper, *((1, 2) if beside else (2, 1)), height=1.25)
    trained = np.array(document["requests"]["trained"])
    for axes, (measure, what) in zip(grid.flat, MEASURES.items(), strict=True):
        times = document["requests"][measure]
        realized, predicted = np.array(times["realized"]), np.array(times["predicted"])
        most = 1.05 * max(realized.max(), predicted.max())
        axes.plot([0, most], [0, most], color=color("muted"), linewidth=1)
        for mask, name, marker in ((trained, TRAINED, "s"), (~trained, UNSEEN, "o")):
            axes.plot(
                realized[mask],
                predicted[mask],
                linestyle="none",
                marker=marker,
                markersize=3.5,
                markeredgewidth=0,
                color=color(name),
            )
        axes.set(xlim=(0, most), ylim=(0, most))
        label(axes, paper, f"{what}: realized seconds after arrival", "predicted")
        axes.xaxis.get_major_locator().set_params(integer=False)
    return figure


def errors(document: Document, paper: Paper) -> Figure:
    """Histogram of the errors of single requests, in seconds."""
    beside = paper.name == "wide"
    figure, grid = new(paper, *((1, 2) if beside else (2, 1)), height=0.9)
    for axes, (measure, what) in zip(grid.flat, MEASURES.items(), strict=True):
        off = _errors(document, measure)
        low, high = float(off.min()), float(off.max())
        margin = max(0.02 * (high - low), 1e-3)
        counts, edges = np.histogram(off, bins=BINS, range=(low - margin, high + margin))
        axes.stairs(counts, edges, fill=True, color=color("accent"))
        axes.axvline(0, color=color("ink"), linewidth=1)
        axes.set_ylim(0)
        label(axes, paper, f"{what}: predicted less realized (seconds)", "requests")
        axes.xaxis.get_major_locator().set_params(integer=False)
    return figure


def series(document: Document, paper: Paper) -> Figure:
    """Draw running, waiting and KV use over time, predicted and recorded, below each other."""
    drawn = document["series"]
    t, predicted, recorded = drawn["t"], drawn["predicted"], drawn["recorded"]
    figure, grid = new(paper, 3, 1, height=0.75)
    rows = (
        ("requests waiting or running", "present"),
        ("requests running", "running"),
        ("KV cache held (%)", "kv_use"),
    )
    for axes, (what, key) in zip(grid[:, 0], rows, strict=True):
        if key == "present":
            axes.step(t, drawn["present"], where="post", color=color(REALIZED), linewidth=1.2)
        elif recorded is not None and recorded[key] is not None:
            values = np.array(recorded[key]) * (100 if key == "kv_use" else 1)
            axes.plot(recorded["t"], values, color=color(REALIZED), linewidth=1.2)
        if predicted is not None:
            guess = np.array(predicted["running" if key == "present" else key])
            guess = guess + np.array(predicted["waiting"]) if key == "present" else guess
            guess = 100 * guess if key == "kv_use" else guess
            axes.plot(t, guess, color=color(PREDICTED), linewidth=1.8, linestyle=(0, (4, 2)))
        axes.set(xlim=(0, t[-1]), ylim=(0, None))
        label(axes, paper, "seconds since the first arrival", what)
        axes.xaxis.get_major_locator().set_params(integer=False)
    return figure


def describe(document: Document, name: str) -> str:
    """Say what is to be seen in a picture."""
    if name == "scatter":
        parts = [
            f"{what}: mean absolute error {document['errors'][m]['mean_absolute']:.3f} s, "
            f"worst {document['errors'][m]['worst']:.3f} s"
            for m, what in MEASURES.items()
        ]
        return f"A point for each of {document['n']:,} requests. {'; '.join(parts)}."
    if name == "errors":
        parts = [
            f"{what} from {off.min():+.3f} to {off.max():+.3f} s, median {np.median(off):+.3f} s"
            for what, off in ((w, _errors(document, m)) for m, w in MEASURES.items())
        ]
        return f"Predicted less realized: {'; '.join(parts)}."
    predicted = document["series"]["predicted"]
    if predicted is None:
        return "The steps of the prediction were too many to be kept."
    return (
        f"Predicted: at most {max(predicted['running']):,.0f} requests running, "
        f"{max(predicted['waiting']):,.0f} waiting, {max(predicted['kv_use']):.0%} of the KV cache."
    )


def _errors(document: Document, measure: str) -> Any:
    times = document["requests"][measure]
    return np.array(times["predicted"]) - np.array(times["realized"])
