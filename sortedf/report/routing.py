"""Rules of a router beside each other: tables for a terminal, and the page of `sortedf route`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from sortedf.report.figures import PAPERS, Paper, color, dashed, label, new, style
from sortedf.report.palette import line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Document = Mapping[str, Any]

AREA_COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "rule": lambda row: row["rule"],
    "area": lambda row: f"{row['area']:.3f}",
    "+-": lambda row: "" if row["area_half_width"] is None else f"{row['area_half_width']:.3f}",
    "of the bound": lambda row: f"{row['share_of_bound']:.1%}" if "share_of_bound" in row else "",
}

RATE_COLUMNS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "utility in time": lambda point: f"{point['on_time_utility']:.3f}",
    "on time": lambda point: f"{point['on_time']:.1%}",
    "doomed": lambda point: f"{point['doomed']:.1%}",
    "their wait, s": lambda point: f"{point['doomed_mean']:,.1f}",
    "P99": lambda point: f"{point['doomed_p99']:,.1f}",
    "longest": lambda point: f"{point['doomed_longest']:,.1f}",
    "preemptions": lambda point: f"{point['preemptions']:,.0f}",
}

LINES = {
    "utility": ("on_time_utility", 1.0, "utility in time"),
    "on-time": ("on_time", 100.0, "% of requests on time"),
    "doomed": ("doomed_mean", 1.0, "mean wait of those who are late, seconds"),
}
"""Pictures over the rate: the figure, its factor, what the axis says (a phone shows 40 letters)."""

READING = {
    "round-robin": "sends to one instance after another.",
    "shortest-queue": "sends where the fewest requests run or wait.",
    "least-outstanding": "sends where the fewest tokens are still to be computed.",
    "latency-agnostic": "sends where utility is greatest, whenever the answer comes.",
    "sfs": "is the published rule: the greatest utility among the instances that are estimated to "
    "answer in time, or the first to answer; lengths as predicted.",
    "sfs-conditional": "is the same with lengths foreseen from the tokens that there are so far.",
    "lps": "is the same on the average wait of limited processor sharing.",
    "guarded": "takes the greatest utility among those that are estimated to answer within half "
    "the limit; who is too late for all goes where it is worth least.",
    "guarded-back": "is the same, but who is too late for all waits at the router.",
    "priced": "subtracts what the request's work is worth to others, and holds back who is not "
    "worth it.",
}
"""What each rule does."""


def columns(document: Document) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Columns of the table at a rate: those of all, and the share of each instance."""
    shares = {
        _heading(one["name"]): (lambda point, place=place: f"{point[f'share_{place}']:.0%}")
        for place, one in enumerate(document["instances"])
    }
    return RATE_COLUMNS | shares


def _heading(name: str) -> str:
    """Head an instance's column, also where it is called like one of the others."""
    return f"{name} (instance)" if name in {"rule", *RATE_COLUMNS} else name


def summary(document: Document) -> Table:
    """Area under utility in time over the rates, a line a rule."""
    made = Table(
        box=box.SIMPLE_HEAD,
        min_width=76,
        title=f"Utility in time, {document['arrivals']}, {span(document)} requests a second",
        caption="area: under utility in time over the rate, over the width; the bound holds for "
        "every routing whose answers in time end no later",
    )
    for heading in AREA_COLUMNS:
        made.add_column(heading, justify="left" if heading == "rule" else "right", no_wrap=True)
    for row in document["rows"]:
        made.add_row(*(show(row) for show in AREA_COLUMNS.values()))
    return made


def table(document: Document, rate: float) -> Table:
    """Figures of all rules at a rate."""
    made = Table(box=box.SIMPLE_HEAD, title=f"{rate:g} requests a second")
    shown = columns(document)
    made.add_column("rule", no_wrap=True)
    for heading in shown:
        made.add_column(heading, justify="right", overflow="fold")
    for row in document["rows"]:
        made.add_row(row["rule"], *(show(point_at(row, rate)) for show in shown.values()))
    return made


def point_at(row: Mapping[str, Any], rate: float) -> Mapping[str, Any]:
    """Figures of a rule at a rate."""
    found: Mapping[str, Any] = next(point for point in row["points"] if point["rate"] == rate)
    return found


def span(document: Document) -> str:
    """Say which rates there are."""
    rates = document["rates"]
    return f"{rates[0]:g} to {rates[-1]:g}" if len(rates) > 1 else f"{rates[0]:g}"


def page(document: Document) -> str:
    """Make one page that needs nothing but itself; same document, same bytes."""
    from sortedf.report.shell import inlined, render

    pictures = {}
    with style():
        for name, (_, _, title) in LINES.items():
            drawn = [(over_rates(document, name, paper), None) for paper in PAPERS]
            pictures[f"{name}-rates"] = inlined(
                f"{name}-rates", title.capitalize(), describe(document, name), drawn
            )
        drawn = [(shares(document, paper), None) for paper in PAPERS]
        text = describe_shares(document)
        pictures["shares-rate"] = inlined("shares-rate", "Who serves what", text, drawn)
    return render(
        "routing.html",
        document=document,
        pictures=pictures,
        area_columns=AREA_COLUMNS,
        columns=columns(document),
        reading=READING,
        point_at=point_at,
        span=span(document),
        line_style=line_style,
        shape_names=[f"shape-{place % 8}" for place in range(len(document["instances"]))],
    )


def over_rates(document: Document, name: str, paper: Paper) -> Figure:
    """Draw a figure over the rate, a line a rule; with it the bound, where it is known."""
    key, factor, title = LINES[name]
    figure, grid = new(paper, height=1.2)
    axes = grid[0, 0]
    rates = document["rates"]
    rows = document["rows"]
    if name == "utility" and (bounded := [row for row in rows if "bound_area" in row]):
        best = max(bounded, key=lambda row: row["area"])
        bounds = [point["bound"] for point in best["points"]]
        axes.plot(rates, bounds, color=color("limit"), linewidth=1.4, marker="_")
    for place, row in reversed(list(enumerate(rows))):
        line, dashes = line_style(place)
        axes.plot(
            rates,
            [factor * point[key] for point in row["points"]],
            color=color(line),
            linewidth=2,
            linestyle=dashed(dashes),
            marker="o",
            markersize=4,
        )
    axes.margins(x=0.03)
    label(axes, paper, "requests a second", title)
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if name == "utility" else 0)
    return figure


def shares(document: Document, paper: Paper) -> Figure:
    """Draw the share of requests that each instance gets at the highest rate, a bar a rule."""
    rows, rate = document["rows"], document["rates"][-1]
    figure, grid = new(paper, height=(76 + 40 * len(rows)) / paper.height)
    axes = grid[0, 0]
    figure.subplots_adjust(left=12 / paper.width)
    for place, row in enumerate(rows):
        point, left = point_at(row, rate), 0.0
        for k in range(len(document["instances"])):
            share = 100 * point[f"share_{k}"]
            shade = color(f"shape-{k % 8}")
            axes.barh(place - 0.34, share, height=0.34, left=left, color=shade, align="edge")
            left += share
        axes.annotate(
            row["rule"],
            (0, place),
            (0, -2),
            textcoords="offset points",
            va="top",
            color=color("ink"),
            fontsize=11,
        )
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 100))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set_xlabel(f"% of requests, {rate:g} requests a second", labelpad=4)
    return figure


def describe(document: Document, name: str) -> str:
    """Say what the lines show."""
    key, factor, title = LINES[name]
    parts = [f"{title.capitalize()}, over {span(document)} requests a second."]
    for row in document["rows"]:
        first, last = row["points"][0], row["points"][-1]
        parts.append(f"{row['rule']}: {factor * first[key]:.3g} to {factor * last[key]:.3g}.")
    return " ".join(parts)


def describe_shares(document: Document) -> str:
    """Say what the bars show."""
    rate = document["rates"][-1]
    parts = [f"Share of the requests on each instance at {rate:g} a second."]
    for row in document["rows"]:
        point = point_at(row, rate)
        names = (
            f"{one['name']} {point[f'share_{k}']:.0%}"
            for k, one in enumerate(document["instances"])
        )
        parts.append(f"{row['rule']}: {', '.join(names)}.")
    return " ".join(parts)
