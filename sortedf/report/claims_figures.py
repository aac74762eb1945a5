"""The pictures of the page of `sortedf prove`, and what they show in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sortedf.report.figures import Paper, color, dashed, label, new
from sortedf.report.numbers import compact
from sortedf.report.palette import line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]


def shares(part: Document, paper: Paper) -> Figure:
    """Largest ratio of each claim as a share of its limit, a bar each, the limit a line."""
    from sortedf.report.claims import limited

    rows = limited(part)
    figure, grid = new(paper, height=(76 + 34 * len(rows)) / paper.height)
    axes = grid[0, 0]
    # Names stand below the bars: nothing is written to their left.
    figure.subplots_adjust(left=12 / paper.width)
    for place, row in enumerate(rows):
        failed = row["verdict"] == "violated"
        # Above the place, on an axis that goes down; the name of the claim goes below it.
        axes.barh(
            place - 0.34,
            row["share"],
            height=0.34,
            color=color("limit" if failed else "accent"),
            align="edge",
        )
        name = f"{row['claim']} ({row['against']})"
        axes.annotate(
            f"{name}: {row['share']:.1%}" if paper.name == "wide" else name,
            (0, place),
            (0, -2),
            textcoords="offset points",
            va="top",
            color=color("ink"),
            fontsize=11,
        )
    axes.axvline(1, color=color("limit"), linewidth=1.4)
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.08 * max(1, *(r["share"] for r in rows))))
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False)
    axes.set_xlabel("largest ratio seen / its limit", labelpad=4)
    return figure


def describe_shares(part: Document) -> str:
    """Say how near each claim came to its limit."""
    from sortedf.report.claims import limited

    return " ".join(
        f"{row['claim']}, against the {row['against']}: at most {row['share']:.1%} of the limit."
        for row in limited(part)
    )


def curves(drawn: Document, paper: Paper) -> Figure:
    """Ratios along a parameter; on logarithmic axes where growth is shown."""
    figure, grid = new(paper, height=1.2)
    axes = grid[0, 0]
    for k, curve in enumerate(drawn["curves"]):
        name, dashes = line_style(k)
        values, ratios = zip(*curve["points"], strict=True)
        axes.plot(
            values,
            ratios,
            color=color(name),
            linewidth=2,
            linestyle=dashed(dashes),
            marker="o",
            markersize=4,
        )
    axes.margins(x=0.03)
    label(axes, paper, drawn["parameter"], "ratio")
    if drawn["growing"]:
        _logarithmic(axes, drawn)
    else:
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(paper.ticks, steps=[1, 2, 5, 10]))
        axes.set_ylim(bottom=0)
    return figure


def _logarithmic(axes: Axes, drawn: Document) -> None:
    """Make both axes logarithmic, numbered at the values measured and at 1, 2, 5, 10, ..."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    values = sorted({value for curve in drawn["curves"] for value, _ in curve["points"]})
    ratios = [ratio for curve in drawn["curves"] for _, ratio in curve["points"]]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    wanted = [f * 10**k for k in range(-3, 9) for f in (1, 2, 5)]
    low, high = min(ratios), max(ratios)
    ticks = [tick for tick in wanted if low / 2 <= tick <= 2 * high]
    for axis, places in ((axes.xaxis, values[:: -(-len(values) // 8)]), (axes.yaxis, ticks)):
        axis.set_major_locator(FixedLocator(places))
        axis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
        axis.set_minor_formatter(NullFormatter())


def describe_curves(drawn: Document) -> str:
    """Say where each curve begins and ends, and how it grows."""
    parts = [drawn["note"]]
    for curve in drawn["curves"]:
        if not curve["points"]:
            continue
        (first, low), (last, high) = curve["points"][0], curve["points"][-1]
        parts.append(
            f"{curve['name']}: {low:.3g} at {compact(first)}, {high:.3g} at {compact(last)}"
            + ("." if curve["exponent"] is None else f", exponent {curve['exponent']:.2f}.")
        )
    return " ".join(parts)
