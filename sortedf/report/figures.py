"""The pictures of a gap report, drawn from its document with matplotlib, for two widths.

Drawn in points that are pixels on a screen of its width, so that text keeps its size: a wide and a
narrow drawing of each, of which the page shows one. Colours are those of the palette for light
paper; legends and titles are the page's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sortedf.report.numbers import compact
from sortedf.report.palette import PALETTE, SHAPES, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]


class Paper(NamedTuple):
    """Size of a drawing: its name, width, height of one row of axes (points), and ticks along x."""

    name: str
    width: int
    height: int
    ticks: int


PAPERS = (Paper("wide", 900, 290, 8), Paper("narrow", 360, 260, 4))

LONGEST_NAME = 100
"""Characters of an id that are shown."""

LEFT, RIGHT, TOP, BOTTOM = 62, 22, 30, 46
"""Room for the labels around each row of axes, in points."""


def color(name: str) -> str:
    """Give a colour of the palette, on light paper."""
    return PALETTE[name].light


@contextmanager
def style() -> Iterator[None]:
    """Set what all pictures have in common; text is never read as mathematics."""
    import matplotlib as mpl

    settings: Any = {
        "font.family": "DejaVu Sans",
        "font.size": 12.5,
        "text.parse_math": False,
        "text.color": color("ink"),
        "axes.labelcolor": color("muted"),
        "axes.edgecolor": color("muted"),
        "axes.facecolor": "none",
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "grid.color": color("grid"),
        "grid.linewidth": 0.8,
        "xtick.color": color("muted"),
        "ytick.color": color("muted"),
        "xtick.labelsize": 12.5,
        "ytick.labelsize": 12.5,
        "path.simplify": False,
    }
    with mpl.rc_context(settings):
        yield


def new(paper: Paper, rows: int = 1, columns: int = 1, height: float = 1.0) -> tuple[Figure, Any]:
    """Begin a figure of so many axes; gives it and the array of axes."""
    from matplotlib.figure import Figure

    row = paper.height * height
    figure = Figure(figsize=(paper.width / 72, rows * row / 72), dpi=72)
    figure.patch.set_visible(False)
    axes = figure.subplots(rows, columns, squeeze=False)
    total = rows * row
    inner = row - TOP - BOTTOM
    figure.subplots_adjust(
        left=LEFT / paper.width,
        right=1 - RIGHT / paper.width,
        top=1 - TOP / total,
        bottom=BOTTOM / total,
        hspace=(TOP + BOTTOM) / inner,
        wspace=0.16,
    )
    return figure, axes


def label(axes: Axes, paper: Paper, x: str, y: str) -> None:
    """Write what the axes are, y above its axis and level, and number them shortly."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel(x, labelpad=4)
    axes.annotate(
        y,
        (0, 1),
        (6 - LEFT, 12),
        xycoords="axes fraction",
        textcoords="offset points",
        color=color("muted"),
        va="bottom",
    )
    round_numbers = [1, 2, 2.5, 5, 10]
    axes.xaxis.set_major_locator(MaxNLocator(paper.ticks, integer=True, steps=round_numbers))
    whole = y.startswith("requests")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=whole, steps=round_numbers))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))


def lengths(document: Document, paper: Paper) -> Figure:
    """Histograms of prompt and output tokens, bins of even ratio on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    beside = paper.name == "wide"
    figure, grid = new(paper, *((1, 2) if beside else (2, 1)), height=0.8)
    names = {"prompt_tokens": "prompt tokens", "output_tokens": "output tokens"}
    for axes, (key, text) in zip(grid.flat, names.items(), strict=True):
        counted = document["pictures"]["lengths"][key]
        axes.stairs(counted["counts"], counted["edges"], fill=True, color=color("accent"))
        axes.set_xscale("log")
        axes.set_xlim(counted["edges"][0] * 0.9, counted["edges"][-1] * 1.1)
        axes.set_ylim(0)
        ticks = log_ticks(counted["edges"][0] * 0.9, counted["edges"][-1] * 1.1)
        label(axes, paper, f"{text} (logarithmic)", "requests")
        axes.set_xticks(ticks)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
        axes.minorticks_off()
    return figure


def curves(document: Document, paper: Paper) -> Figure:
    """Draw the requests finished up to each step, a curve a plan."""
    drawn = document["pictures"]["curves"]
    figure, grid = new(paper, height=1.2)
    axes = grid[0, 0]
    n = document["backlog"]["n"]
    if drawn["released"]:
        axes.step(
            [0, *drawn["released"]["steps"], drawn["last"]],
            [0, *drawn["released"]["finished"], n],
            where="post",
            color=color("muted"),
            linewidth=1.2,
            linestyle=(0, (1, 2)),
        )
    for plan in reversed(drawn["plans"]):
        name, dashes = line_style(plan["row"])
        axes.step(
            [0, *plan["steps"], drawn["last"]],
            [0, *plan["finished"], n],
            where="post",
            color=color(name),
            linewidth=2,
            linestyle=dashed(dashes),
        )
    axes.set(xlim=(0, drawn["last"]), ylim=(0, 1.02 * n))
    label(axes, paper, "step", "requests finished")
    return figure


def memory(document: Document, place: int, paper: Paper) -> Figure:
    """Tokens held over time, stacked by class of request, beside the budget."""
    drawn = document["pictures"]["memory"]
    plan = drawn["plans"][place]
    figure, grid = new(paper)
    axes = grid[0, 0]
    tops = np.cumsum(np.array(plan["mean"]), axis=0)
    for k in reversed(range(len(tops))):
        # From the top down to 0 each: half the points, and no seams between the classes.
        axes.stairs(tops[k], plan["edges"], fill=True, color=color(f"class-{k}"), linewidth=0)
    axes.stairs(plan["peak"], plan["edges"], color=color("ink"), linewidth=0.8, baseline=None)
    budget = plan.get("budget", drawn["budget"])
    _budget(axes, budget)
    axes.set(xlim=(0, drawn["last"]), ylim=(0, 1.13 * budget))
    label(axes, paper, "step", "KV tokens held")
    return figure


def packing(document: Document, place: int, paper: Paper) -> tuple[Figure, dict[int, str]]:
    """Draw requests as growing shapes that share the memory, and what to show over each shape."""
    from matplotlib.patches import Polygon

    drawn = document["pictures"]["packing"][place]
    budget = drawn.get("budget", document["pictures"]["memory"]["budget"])
    figure, grid = new(paper, rows=len(drawn["windows"]), height=0.95)
    tips: dict[int, str] = {}
    for axes, window in zip(grid[:, 0], drawn["windows"], strict=True):
        for shape in window["shapes"]:
            if not shape["steps"]:
                continue
            lower = zip(shape["steps"], shape["low"], strict=True)
            upper = zip(shape["steps"], shape["high"], strict=True)
            axes.add_artist(
                Polygon(
                    [*upper, *reversed(list(lower))],
                    facecolor=color(f"shape-{min(shape['color'], SHAPES - 1)}"),
                    edgecolor=color("paper"),
                    linewidth=0.7,
                    gid=f"tip-{len(tips)}",
                )
            )
            tips[len(tips)] = _tip(shape)
        _budget(axes, budget)
        axes.set(xlim=(window["first"], window["last"]), ylim=(0, 1.13 * budget))
        axes.grid(visible=False)
        label(axes, paper, "step", "KV tokens held")
    return figure, tips


def prices(document: Document, paper: Paper) -> Figure:
    """Draw what a unit of memory is worth at each step."""
    drawn = document["pictures"]["prices"]
    figure, grid = new(paper)
    axes = grid[0, 0]
    axes.stairs(drawn["mean"], drawn["edges"], fill=True, color=color("accent-soft"), linewidth=0)
    axes.stairs(drawn["mean"], drawn["edges"], color=color("accent"), linewidth=1.6)
    axes.set(xlim=(0, drawn["last"]), ylim=(0, 1.05 * max(drawn["mean"]) or 1))
    label(axes, paper, "step", f"steps of latency for {document['extra_memory']['unit']}")
    return figure


def extra_memory(document: Document, paper: Paper) -> Figure:
    """Mean latency against the budget: what no schedule beats, and what an order reaches."""
    extra = document["extra_memory"]
    n = document["backlog"]["n"]
    here = extra["kv_tokens"]
    rows = extra["rows"]
    figure, grid = new(paper, height=1.1)
    axes = grid[0, 0]
    budgets = np.array([here, *(row["kv_tokens"] for row in rows)])
    floor = np.array([document["bound"]["by_prices"], *(row["floor"] for row in rows)]) / n
    least = np.array([document["bound"]["lower_bound"], *(row["least"] for row in rows)]) / n
    order = np.array([extra["order_latency"], *(row["order_latency"] for row in rows)]) / n
    best = document["rows"][0]["mean_latency"]
    values = np.concatenate([floor, least, order, [best]])
    margin = 0.08 * (values.max() - values.min() or 1)
    bottom = max(0.0, float(values.min() - margin))
    axes.fill_between(budgets, bottom, least, color=color("forbidden"), linewidth=0)
    axes.plot(budgets, floor, color=color("limit"), linewidth=1.6, linestyle=(0, (5, 3)))
    axes.plot(budgets, least, color=color("limit"), linewidth=2, marker="o", markersize=5)
    axes.plot(budgets, order, color=color("line-0"), linewidth=2, marker="s", markersize=5)
    axes.plot([here], [best], color=color("ink"), marker="D", markersize=7, linestyle="none")
    axes.set(ylim=(bottom, float(values.max() + margin)))
    axes.margins(x=0.03)
    label(axes, paper, "KV budget (tokens)", "mean latency (steps)")
    return figure


def _tip(shape: Mapping[str, Any]) -> str:
    names = ", ".join(name[:LONGEST_NAME] for name in shape["ids"])
    if shape["requests"] > len(shape["ids"]):
        names = f"{shape['requests']:,} requests: {names}, ..."
    return (
        f"{names}: {shape['prompt_tokens']:,} prompt and {shape['output_tokens']:,} output tokens, "
        f"steps {shape['start']:,} to {shape['completion']:,}"
    )


def _budget(axes: Axes, budget: int) -> None:
    """Draw the budget as a line with its name above it."""
    axes.axhline(budget, color=color("limit"), linewidth=1.2)
    axes.annotate(
        f"budget {budget:,}",
        (1, budget),
        (0, 3),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        color=color("limit"),
        ha="right",
        va="bottom",
    )


def dashed(dashes: str) -> Any:
    """Turn a dash pattern of SVG into matplotlib's, which counts in line widths."""
    return (0, tuple(float(part) / 2 for part in dashes.split())) if dashes else "-"


def log_ticks(low: float, high: float) -> Sequence[float]:
    """Choose powers of ten in the range, or where there are few, 1, 2 and 5 times these."""
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [f * 10**k for k in range(-9, 13) for f in factors if low <= f * 10**k <= high]
        if len(ticks) >= 3:
            return ticks[:: -(-len(ticks) // 5)]
    return ticks or [round(low / 0.9)]
