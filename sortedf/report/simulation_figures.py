"""The pictures of the page of `sortedf simulate`, and what they show in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from sortedf.report.figures import Paper, color, dashed, label, log_ticks, new
from sortedf.report.numbers import compact
from sortedf.report.palette import LINES, line_style
from sortedf.report.simulation_tables import best_first, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]

TIMES = {"ttlt": "to last token", "ttft": "to first token"}
TARGETS = {
    "ttft": "to first token",
    "tbt": "between tokens",
    "UNIT_per_token": "for each token",
}

OTHER = "grid"
"""Colour of the policies that are not told apart."""


def drawn(document: Document) -> list[int]:
    """Give the places of the rows that get a colour, best mean first: eight at most.

    Of more, first come and by turns the best mean and the best P99 to last token; of those that do
    the same the first.
    """
    unit, rows = document["unit"], document["rows"]
    done = [place for place in best_first(rows, unit) if rows[place]["error"] is None]
    if len(done) <= LINES:
        return done
    by_tail = sorted(done, key=lambda place: rows[place]["figures"][f"p99_ttlt_{unit}"])
    chosen = [place for place in done if rows[place]["name"] == "fcfs"][:1]
    for place in chain.from_iterable(zip(done, by_tail, strict=True)):
        same = (rows[place]["figures"] == rows[other]["figures"] for other in chosen)
        if len(chosen) < LINES and not any(same):
            chosen.append(place)
    return [place for place in done if place in chosen]


def others(document: Document) -> list[int]:
    """Give the places of the rows that are drawn in grey."""
    kept = set(drawn(document))
    rows = document["rows"]
    return [k for k in range(len(rows)) if k not in kept and rows[k]["error"] is None]


def distributions(document: Document, paper: Paper) -> Figure:
    """Draw the share of requests within each time to last and to first token."""
    figure, grid = _beside(paper, 2)
    shares = 100 * np.array(document["shares"])
    for axes, (measure, what) in zip(grid.flat, TIMES.items(), strict=True):
        curves = _times(document, measure)
        low = min(curve[0] for curve in curves.values())
        high = max(_at(document, curves[place], 0.99) for place in drawn(document))
        for place, style in _styles(document):
            axes.step([low / 2, *curves[place]], [0, *shares], where="post", **style)
        axes.set_ylim(0, 102)
        _log_x(axes, paper, f"{what} ({document['unit']}, logarithmic)", "requests (%)", low, high)
    return figure


def tails(document: Document, paper: Paper) -> Figure:
    """Draw the share of requests that take longer, on logarithmic axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    figure, grid = _beside(paper, 2)
    shares = np.array(document["shares"])
    least = 1 - shares[-2] if len(shares) > 1 else 0.5
    for axes, (measure, what) in zip(grid.flat, TIMES.items(), strict=True):
        curves = _times(document, measure)
        low = min(_at(document, curves[place], 0.3) for place in drawn(document))
        high = max(curves[place][-1] for place in drawn(document))
        for place, style in _styles(document):
            # The last request is later than all others; nobody is later than that one.
            longer = np.append(1 - shares[:-1], least)
            axes.plot(curves[place], 100 * longer, **style)
        axes.set_yscale("log")
        _log_x(axes, paper, f"{what} ({document['unit']}, logarithmic)", "later (%)", low, high)
        axes.set_ylim(100 * least * 0.8, 105)
        axes.yaxis.set_major_locator(FixedLocator(log_ticks(100 * least * 0.8, 105)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    return figure


def attainment(document: Document, paper: Paper) -> Figure:
    """Draw the share of requests within each target."""
    figure, grid = _beside(paper, 3)
    unit, rows = document["unit"], document["rows"]
    targets = np.array(document[f"targets_{unit}"])
    for axes, (name, what) in zip(grid.flat, TARGETS.items(), strict=True):
        measure = name.replace("UNIT", unit)
        shares = {
            place: 100 * np.array(rows[place]["attained"][measure]) for place in _all(document)
        }
        coloured = [shares[place] for place in drawn(document)]
        begun = targets[np.any([curve > 0 for curve in coloured], axis=0)]
        missing = targets[np.any([curve < 99 for curve in coloured], axis=0)]
        low = float(begun[0]) if len(begun) else float(targets[0])
        high = float(missing[-1]) if len(missing) else low
        for place, style in _styles(document):
            axes.plot(targets, shares[place], **style)
        axes.set_ylim(0, 102)
        _log_x(axes, paper, f"{what} ({unit})", "within (%)", low / 1.3, high * 1.3)
    return figure


def slowdowns(document: Document, paper: Paper) -> Figure:
    """Draw the mean slowdown of each class of requests by size, on a logarithmic axis."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    rows = document["rows"]
    figure, grid = new(paper, height=1.2)
    axes = grid[0, 0]
    means = {
        place: [row["mean_slowdown"] for row in rows[place]["slowdown"]] for place in _all(document)
    }
    coloured = [value for place in drawn(document) for value in means[place]]
    classes = rows[drawn(document)[0]]["slowdown"]
    for place, style in _styles(document):
        marker = {} if style["color"] == color(OTHER) else {"marker": "o", "markersize": 4.5}
        axes.plot(range(len(classes)), means[place], **style, **marker)
    low, high = _spread(min(coloured) * 0.85, max(coloured) * 1.2)
    label(axes, paper, "prompt and output tokens of a quarter of the requests", "mean slowdown")
    axes.set_yscale("log")
    axes.set(xlim=(-0.3, len(classes) - 0.7), ylim=(low, high))
    axes.set_xticks(
        range(len(classes)),
        [f"{compact(row['least_tokens'])}-{compact(row['most_tokens'])}" for row in classes],
    )
    axes.yaxis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    return figure


def describe(document: Document, name: str) -> str:
    """Say what is to be seen in a picture."""
    unit, rows = document["unit"], document["rows"]
    parts = []
    for place in drawn(document):
        row, found = rows[place], rows[place]["figures"]
        if name == "sizes":
            values = [shown(of["mean_slowdown"], "time") for of in row["slowdown"]]
            parts.append(f"{row['policy']} {', '.join(values)}")
            continue
        keys = {
            "distributions": ("p50_ttlt", "p50_ttft"),
            "tails": ("p99_ttlt", "p99_ttft"),
            "attainment": ("p90_ttft", "p90_tbt"),
        }[name]
        values = [shown(found.get(f"{key}_{unit}"), "time") for key in keys]
        parts.append(f"{row['policy']} {' and '.join(values)}")
    what = {
        "distributions": f"Half of the requests have their last and first token within ({unit})",
        "tails": f"One request in a hundred has its last and first token later than ({unit})",
        "attainment": f"Nine in ten have their first token, and others after it, within ({unit})",
        "sizes": "Mean slowdown from the smallest quarter of the requests to the largest",
    }[name]
    return f"{what}: {'; '.join(parts)}."


def _all(document: Document) -> list[int]:
    return [*others(document), *drawn(document)]


def _times(document: Document, measure: str) -> dict[int, list[float]]:
    key = f"{measure}_{document['unit']}"
    return {place: document["rows"][place]["distribution"][key] for place in _all(document)}


def _at(document: Document, curve: Sequence[float], share: float) -> float:
    return curve[int(np.searchsorted(document["shares"], share))]


def _styles(document: Document) -> list[tuple[int, dict[str, Any]]]:
    """Give places and how their lines look, in the order in which they are drawn: best last."""
    grey = [(place, {"color": color(OTHER), "linewidth": 1.2}) for place in others(document)]
    told = []
    for number, place in enumerate(drawn(document)):
        name, dashes = line_style(number)
        told.append((place, {"color": color(name), "linewidth": 2, "linestyle": dashed(dashes)}))
    return grey + told[::-1]


def _beside(paper: Paper, panels: int) -> tuple[Figure, Any]:
    wide = paper.name == "wide"
    return new(paper, *((1, panels) if wide else (panels, 1)), height=1.1 if wide else 0.95)


def _spread(low: float, high: float) -> tuple[float, float]:
    """Widen a range to a factor of 6, in which there are numbers to write on its axis."""
    more = max(1.0, (6 * low / high) ** 0.5)
    return low / more, high * more


def _log_x(axes: Axes, paper: Paper, x: str, y: str, low: float, high: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    label(axes, paper, x, y)
    axes.set_xscale("log")
    low, high = _spread(low * 0.95, high * 1.05)
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(log_ticks(low, high)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
