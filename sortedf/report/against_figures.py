"""The pictures of several orders on one backlog and engine, predicted beside realized."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sortedf.report.figures import Paper, color, dashed, label, new
from sortedf.report.palette import line_style
from sortedf.report.validation_figures import PREDICTED, REALIZED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Mapping[str, Any]

ROW = 0.19
"""Height of an order among the others, as a share of a row of axes."""


def orders(document: Document, paper: Paper) -> Figure:
    """Draw the mean latency of each order, predicted and realized, and its ratio to the plan's."""
    rows = document["rows"]
    figure, grid = new(paper, height=0.32 + ROW * len(rows))
    axes = grid[0, 0]
    most = 0.0
    for place, row in enumerate(rows):
        y = -place
        realized, predicted = (row[side]["mean_latency"] for side in ("realized", "predicted"))
        most = max(most, realized, predicted, *row["mean_latencies"])
        axes.barh(y, realized, height=0.36, color=color("accent-soft"))
        axes.plot(
            row["mean_latencies"],
            [y] * len(row["mean_latencies"]),
            linestyle="none",
            marker="o",
            markersize=4,
            markeredgewidth=0,
            color=color(REALIZED),
        )
        axes.plot([predicted] * 2, [y - 0.25, y + 0.25], color=color(PREDICTED), linewidth=2.4)
        ratio = row["ratio"]
        axes.annotate(
            f"{row['order']}: {ratio['realized']:.2f} x, predicted {ratio['predicted']:.2f} x",
            (0, y + 0.25),
            (0, 2),
            textcoords="offset points",
            color=color("ink"),
            va="bottom",
        )
    axes.set(xlim=(0, 1.05 * most), ylim=(0.5 - len(rows), 0.75))
    label(axes, paper, "mean latency (seconds)", "")
    axes.xaxis.get_major_locator().set_params(integer=False)
    axes.grid(visible=False)
    axes.grid(visible=True, axis="x")
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    return figure


def answers(document: Document, paper: Paper) -> Figure:
    """Draw the share of the answers that are there over time, a curve an order."""
    figure, grid = new(paper, height=1.2)
    axes = grid[0, 0]
    last = 0.0
    for number, curve in enumerate(document["curves"].values()):
        name, dashes = line_style(number)
        share = 100 * np.array([0.0, *curve["share"]])
        for side, style, width in (
            ("predicted", "-", 0.8),
            ("realized", dashed(dashes), 2),
        ):
            times = [0.0, *curve[side]]
            last = max(last, times[-1])
            axes.step(
                times, share, where="post", color=color(name), linewidth=width, linestyle=style
            )
    axes.set(xlim=(0, last), ylim=(0, 102))
    label(axes, paper, "seconds since the engine began", "answers (%)")
    axes.xaxis.get_major_locator().set_params(integer=False)
    return figure


def describe(document: Document, name: str) -> str:
    """Say what is to be seen in a picture."""
    rows = document["rows"]
    if name == "orders":
        parts = [
            f"{row['order']} {row['realized']['mean_latency']:.3f} s, predicted "
            f"{row['predicted']['mean_latency']:.3f} s"
            for row in rows
        ]
        return f"Mean latency: {'; '.join(parts)}."
    parts = []
    for order, curve in document["curves"].items():
        half = int(np.searchsorted(curve["share"], 0.5))
        parts.append(f"{order} after {curve['realized'][half]:.3f} s")
    return f"Half of the answers were there: {', '.join(parts)}."
