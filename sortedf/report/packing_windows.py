"""The windows of a packing picture: which steps of a plan it shows, and the shapes in each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from sortedf.model import Instance
from sortedf.model.instance import IntArray
from sortedf.report.memory import bin_edges
from sortedf.report.packing import Band, bands, colors

WINDOWS = 3
WINDOW_REQUESTS = 100
RUNNING = 40
"""A packing picture shows at most ``WINDOW_REQUESTS`` shapes; where more than ``RUNNING`` requests
run at its beginning, each shape is of so many requests that there are about ``RUNNING`` of them."""

WINDOW_OUTPUTS = 2
"""It is at most so many times as long as the median output of what runs at its beginning."""

NAMED = 3
"""Requests of a shape that are named."""


def packing_windows(planned: Instance, starts: IntArray) -> list[dict[str, Any]]:
    """Choose the windows of a packing picture: all, or the beginning of each third of the plan."""
    makespan = int((starts + planned.output_tokens).max())
    if len(planned) <= RUNNING:
        return [_window(planned, starts, 0, makespan, 1)]
    windows = []
    thirds = bin_edges(makespan, WINDOWS).tolist()
    for first, end in pairwise(thirds):
        running = (starts <= first) & (starts + planned.output_tokens > first)
        last = end
        if running.any():
            typical = int(np.median(planned.output_tokens[running]))
            last = min(last, first + WINDOW_OUTPUTS * typical)
        group = -(-int(running.sum()) // RUNNING) or 1
        later = np.sort(starts[starts > first])
        room = WINDOW_REQUESTS * group - int(running.sum())
        if len(later) > room:
            last = min(last, int(later[room]))
        windows.append(_window(planned, starts, first, last, group))
    return windows


def _window(
    planned: Instance, starts: IntArray, first: int, last: int, group: int
) -> dict[str, Any]:
    stacked = bands(planned, starts, first, last, group)
    return {
        "first": first,
        "last": last,
        "requests": sum(len(band.requests) for band in stacked),
        "group": group,
        "shapes": [
            _shape(planned, starts, band, color)
            for band, color in zip(stacked, colors(stacked), strict=True)
        ],
    }


def _shape(planned: Instance, starts: IntArray, band: Band, color: int) -> dict[str, Any]:
    members = np.array(band.requests)
    return {
        "requests": len(members),
        "ids": [planned.ids[i] for i in band.requests[:NAMED]],
        "prompt_tokens": int(planned.prompt_tokens[members].sum()),
        "output_tokens": int(planned.output_tokens[members].sum()),
        "start": int(starts[members].min()),
        "completion": int((starts + planned.output_tokens)[members].max()),
        "color": color,
        "steps": band.steps,
        "low": band.low,
        "high": band.high,
    }
