"""The picture of the growth, and the tables, from plain data."""

from __future__ import annotations

from io import StringIO
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from sortedf.report import growth
from sortedf.report.growth import bracket_table, growth_picture, growth_table


def row(policy: str, family: str, ratios: list[float]) -> dict[str, Any]:
    points = [
        {
            "kv_tokens": 64 * 4**k,
            "n": 10,
            "policy_latency": 1000,
            "best_latency": 100,
            "best_by": "svf",
            "ratio": ratio,
            "proven": None if k else 1.234,
        }
        for k, ratio in enumerate(ratios)
    ]
    exponent = 0.5 if len(points) > 1 else None
    return {"policy": policy, "family": family, "exponent": exponent, "points": points}


ROWS = [
    row("mcsf", "one", [2, 4, 8]),
    row("fcfs", "one", [2, 4, 8]),
    row("svf", "two", [2, 4, 8.1]),
    row("size", "three", [3]),
]


def text_of(table: Table) -> str:
    console = Console(width=160, file=StringIO())
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def test_policies_of_equal_ratios_share_a_curve() -> None:
    """Three curves of four rows, each with its points and its name at the end."""
    (axes,) = growth_picture(ROWS).axes
    lines = [
        list(zip(np.array(x).tolist(), np.array(y).tolist(), strict=True))
        for x, y in (line.get_data() for line in axes.lines)
    ]
    assert lines == [
        [(64, 2), (256, 4), (1024, 8)],
        [(64, 2), (256, 4), (1024, 8.1)],
        [(64, 3)],
    ]
    names = {text.get_text() for text in axes.texts}
    assert names >= {"mcsf, fcfs\none, M^0.50", "svf\ntwo, M^0.50", "size\nthree"}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


@given(st.lists(st.floats(0, 370), min_size=1, max_size=20))
def test_names_do_not_lie_over_each_other(ends: list[float]) -> None:
    """Apart, in the order of the curves, and where they were if there is room."""
    places = sorted(ends)
    moved = growth._spread(places, 374.0)
    apart = min(growth.APART, 374.0 / len(places))
    assert all(b - a >= apart - 1e-6 for a, b in pairwise(moved))
    if all(b - a >= apart for a, b in pairwise(places)):
        assert all(abs(a - b) < 1e-6 for a, b in zip(places, moved, strict=True))


def test_the_table_shows_every_number() -> None:
    """Each point a line, the policy once, the fitted power beside it."""
    text = text_of(growth_table(ROWS))
    for shown in ("mcsf", "three", "M^0.50", "1,024", "8.100", "1.234"):
        assert shown in text
    assert text.count("M^0.50") == 3


def test_brackets_from_both_sides() -> None:
    """Latencies, and the ratio from below and above."""
    text = text_of(
        bracket_table(
            [
                {
                    "policy": "svf",
                    "kv_tokens": 64,
                    "n": 72,
                    "policy_latency": 13284,
                    "best_latency": 3000,
                    "lower_bound": 2700,
                    "ratio_at_least": 4.428,
                    "ratio_at_most": 4.92,
                }
            ]
        )
    )
    for shown in ("svf", "13,284", "4.428", "4.920"):
        assert shown in text
