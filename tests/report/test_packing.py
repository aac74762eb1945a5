"""The packing picture: shapes are as large as what is held, and no two ever overlap."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_report import Starts, held_by, plans

import sortedf
from sortedf import Instance
from sortedf.report.packing import Band, bands, colors


def place(band: Band, step: int) -> tuple[Fraction, Fraction] | None:
    """Read a shape as it is drawn: its lower and upper end at a step."""
    corners = list(zip(band.steps, band.low, band.high, strict=True))
    for (a, low, high), (b, low_to, high_to) in pairwise(corners):
        if a < step <= b:
            share = Fraction(step - a, b - a)
            return low + share * (low_to - low), high + share * (high_to - high)
    return None


@st.composite
def windows(draw: st.DrawFn) -> tuple[Instance, Starts, int, int]:
    """Draw a plan and a window of its time axis."""
    instance, starts = draw(plans(releases=True))
    last = max(p + int(o) for p, o in zip(starts, instance.output_tokens, strict=True))
    first = draw(st.integers(0, last - 1))
    return instance, starts, first, draw(st.integers(first + 1, last))


@settings(max_examples=200)
@given(windows())
def test_each_request_is_as_high_as_what_it_holds_and_overlaps_no_other(
    window: tuple[Instance, Starts, int, int],
) -> None:
    """At every step the shapes are the requests' tokens, side by side from 0 without a gap."""
    instance, starts, first, last = window
    stacked = bands(instance, np.array(starts), first, last, 1)
    for step in range(first + 1, last + 1):
        held = held_by(instance, starts, step)
        seen = {}
        for band in stacked:
            (request,) = band.requests
            interval = place(band, step)
            if interval is not None and interval[1] > interval[0]:
                seen[request] = interval
        assert {i: high - low for i, (low, high) in seen.items()} == held
        floor = Fraction(0)
        for low, high in sorted(seen.values()):
            assert low == floor
            floor = high
        assert floor == sum(held.values()) <= instance.kv_tokens


@settings(max_examples=100)
@given(windows())
def test_a_completion_moves_nothing(window: tuple[Instance, Starts, int, int]) -> None:
    """A shape that stays never comes down."""
    instance, starts, first, last = window
    for band in bands(instance, np.array(starts), first, last, 1):
        assert all(a <= b for a, b in pairwise(band.low))


@settings(max_examples=100)
@given(windows(), st.integers(2, 5), st.integers(1, 99))
def test_groups_hold_what_their_requests_hold(
    window: tuple[Instance, Starts, int, int], group: int, corners: int
) -> None:
    """Shapes of several requests have the height of these, at the steps where they are taken."""
    instance, starts, first, last = window
    with mock.patch("sortedf.report.packing.POINTS", corners):
        stacked = bands(instance, np.array(starts), first, last, group)
    inside = {i for step in range(first + 1, last + 1) for i in held_by(instance, starts, step)}
    assert sorted(i for band in stacked for i in band.requests) == sorted(inside)
    assert all(len(band.requests) == group for band in stacked[:-1])
    points = min(last - first, ceil(corners / len(stacked))) if stacked else 0
    for k in range(1, points + 1):
        step = first + (last - first) * k // points
        held = held_by(instance, starts, step)
        for band in stacked:
            low, high = place(band, step) or (0, 0)
            assert high - low == sum(held.get(i, 0) for i in band.requests)


@settings(max_examples=200)
@given(windows())
def test_shapes_that_touch_differ_in_colour(window: tuple[Instance, Starts, int, int]) -> None:
    """Two shapes with a border in common, at a step or from one to the next, differ."""
    instance, starts, first, last = window
    stacked = bands(instance, np.array(starts), first, last, 1)
    given_colors = colors(stacked)
    drawn = [
        {
            step: interval
            for step in range(first + 1, last + 1)
            if (interval := place(band, step)) and interval[1] > interval[0]
        }
        for band in stacked
    ]
    for i, one in enumerate(drawn):
        for j, other in enumerate(drawn[:i]):
            for step, (low, high) in one.items():
                for beside in (step - 1, step, step + 1):
                    if beside not in other:
                        continue
                    bottom, top = other[beside]
                    # Strictly: what only meets at a corner when a step passes may look alike.
                    if (low < top and bottom < high) or (beside == step and bottom in (high, low)):
                        assert given_colors[i] != given_colors[j]


def test_few_colours_are_enough_for_a_real_plan() -> None:
    """On the packaged example no more numbers are given than the palette has colours."""
    example = sortedf.example()
    for solver in ("fcfs", "svf", "longest"):
        starts = sortedf.solve(example, solver=solver).schedule.starts
        assert max(colors(bands(example, starts, 0, 500, 1))) < 8


def test_an_idle_window_is_empty() -> None:
    """Where nothing runs there is nothing to draw."""
    instance = Instance([1, 1], [1, 1], 2, release=[0, 50])
    assert bands(instance, np.array([0, 50]), 10, 20, 1) == []
