"""How far policies fall behind, as a picture and as tables; plain data in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from sortedf.report.figures import Paper, color, style
from sortedf.report.numbers import compact
from sortedf.report.palette import line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]

PAPER = Paper("wide", 900, 460, 8)

LEFT, RIGHT, TOP, BOTTOM = 62, 250, 36, 50
"""Room around the axes, in points; on the right for the names of the curves."""

APART = 34
"""Least distance of two names, in points."""

MARKERS = "osD^vPXd"


def growth_table(rows: Sequence[Row]) -> Table:
    """Ratios by budget, from the objects of :meth:`sortedf.proofs_check.growth.Growth.to_dict`."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Backlogs on which a policy is far from the best",
        caption="ratio: total latency of the policy / of the best verified schedule found, at most "
        "the ratio to the optimum; by hand: what the derivation proves",
    )
    for heading in ("policy", "family"):
        table.add_column(heading, no_wrap=True, overflow="fold")
    for heading in ("M", "n", "policy, steps", "best, steps", "ratio", "by hand"):
        table.add_column(heading, justify="right", overflow="fold")
    table.add_column("best by", overflow="fold")
    for row in rows:
        for place, point in enumerate(row["points"]):
            last = place == len(row["points"]) - 1
            table.add_row(
                row["policy"] if place == 0 else "",
                row["family"] if place == 0 else _exponents(row) if place == 1 else "",
                f"{point['kv_tokens']:,}",
                f"{point['n']:,}",
                f"{point['policy_latency']:,}",
                f"{point['best_latency']:,}",
                f"{point['ratio']:,.3f}",
                "" if point["proven"] is None else f"{point['proven']:,.3f}",
                point["best_by"],
                end_section=last,
            )
    return table


def _exponents(row: Row) -> str:
    return f"  M^{row['exponent']:.2f}" if row["exponent"] is not None else ""


def bracket_table(rows: Sequence[Row]) -> Table:
    """Worst cases with their ratios from below and above; ``to_dict`` of each bracket."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title="Worst cases found",
        caption="the ratio to the optimum is between the two; plans and bounds checked",
    )
    table.add_column("policy", no_wrap=True)
    for heading in ("M", "n", "policy, steps", "best, steps", "bound", "ratio from", "to"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(
            row["policy"],
            f"{row['kv_tokens']:,}",
            f"{row['n']:,}",
            f"{row['policy_latency']:,}",
            f"{row['best_latency']:,}",
            f"{row['lower_bound']:,}",
            f"{row['ratio_at_least']:.3f}",
            f"{row['ratio_at_most']:.3f}",
        )
    return table


def growth_picture(rows: Sequence[Row]) -> Figure:
    """Ratio against budget, both logarithmic; policies of equal ratios share a curve.

    ``rows`` are as for :func:`growth_table`. What a curve is called stands at its right end, with
    the power of M that fits.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    curves = _curves(rows)
    budgets = sorted({x for _, points in curves for x, _ in points})
    with style():
        figure = Figure(figsize=(PAPER.width / 72, PAPER.height / 72), dpi=72)
        figure.patch.set_facecolor(color("paper"))
        axes = figure.subplots()
        figure.subplots_adjust(
            left=LEFT / PAPER.width,
            right=1 - RIGHT / PAPER.width,
            top=1 - TOP / PAPER.height,
            bottom=BOTTOM / PAPER.height,
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for number, (_, points) in enumerate(curves):
            name, _ = line_style(number)
            axes.plot(
                *zip(*points, strict=True),
                color=color(name),
                linewidth=2,
                marker=MARKERS[number % len(MARKERS)],
                markersize=5,
            )
        axes.xaxis.set_major_locator(FixedLocator(budgets[:: -(-len(budgets) // PAPER.ticks)]))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
        axes.minorticks_off()
        axes.set_ylim(bottom=1)
        axes.set_xlabel("KV budget M (tokens)", labelpad=4)
        axes.annotate(
            "total latency / that of the best schedule found",
            (0, 1),
            (6 - LEFT, 12),
            xycoords="axes fraction",
            textcoords="offset points",
            color=color("muted"),
            va="bottom",
        )
        ends = [
            axes.transData.transform(points[-1])[1] - axes.transAxes.transform((0, 0))[1]
            for _, points in curves
        ]
        height = PAPER.height - TOP - BOTTOM
        for number, y in zip(_by_height(ends), _spread(sorted(ends), height), strict=True):
            name, _ = line_style(number)
            axes.annotate(
                curves[number][0],
                (1, 0),
                (14, y),
                xycoords="axes fraction",
                textcoords="offset points",
                color=color(name),
                va="center",
                fontsize=11.5,
            )
    return figure


Points = list[tuple[int, float]]


def _curves(rows: Sequence[Row]) -> list[tuple[str, Points]]:
    """Name and points of each curve; rows with the same points are one."""
    names: dict[tuple[str, tuple[tuple[int, float], ...]], list[Row]] = {}
    for row in rows:
        points = tuple((point["kv_tokens"], point["ratio"]) for point in row["points"])
        names.setdefault((row["family"], points), []).append(row)
    return [
        (
            f"{', '.join(row['policy'] for row in same)}\n{family}{_power(same[0])}",
            list(points),
        )
        for (family, points), same in names.items()
    ]


def _power(row: Row) -> str:
    return "" if row["exponent"] is None else f", M^{row['exponent']:.2f}"


def _by_height(ends: Sequence[float]) -> list[int]:
    return sorted(range(len(ends)), key=ends.__getitem__)


def _spread(places: Sequence[float], height: float) -> list[float]:
    """Move ascending places apart, each no farther than it takes, by least squares."""
    from scipy.optimize import isotonic_regression

    apart = min(APART, height / max(1, len(places)))
    slots = [place - number * apart for number, place in enumerate(places)]
    moved = isotonic_regression(slots).x
    return [float(slot) + number * apart for number, slot in enumerate(moved)]
