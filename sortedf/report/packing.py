"""Requests as growing shapes that share the memory without overlap: what a packing picture shows.

At every step the running requests lie on each other without a gap, those that complete last below:
each takes the first free interval of memory, in that order. So the height of all of them is the
memory in use, a completion moves nothing, and only a start lifts those that complete before it.
Derived for this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.model import Instance
from sortedf.model.instance import IntArray
from sortedf.report.memory import bin_edges, stretches

POINTS = 4000
"""Bands of several requests are evaluated at so many steps over their number."""


class Band(NamedTuple):
    """One request, or several that complete one after the other, as a shape in memory.

    ``requests`` are positions in the instance. From step ``steps[k]`` to ``steps[k + 1]`` the shape
    lies between straight lines from ``low[k]`` to ``low[k + 1]`` and from ``high[k]`` to
    ``high[k + 1]`` (tokens). A step that stands twice is one at which the shape jumps: at that step
    it is where the first of the two says, right after it where the second does. ``touches`` are the
    places in the list of those bands that it has a border with.
    """

    requests: list[int]
    steps: list[int]
    low: list[int]
    high: list[int]
    touches: frozenset[int]


def bands(instance: Instance, starts: IntArray, first: int, last: int, group: int) -> list[Band]:
    """Stack the requests that run within the steps ``first`` + 1..``last``.

    Parameters
    ----------
    instance, starts
        A feasible schedule.
    first, last
        The window, 0 <= first < last.
    group
        How many requests, next to each other in the order of completion, make up a band. Bands of
        one request are exact at every step; others at ``POINTS`` / bands steps, straight between;
        one that comes and goes between two of these has no shape.

    Returns
    -------
    list[Band]
        The lowest first, where two are there at once. O(bands (requests in the window)).
    """
    completions = starts + instance.output_tokens
    inside = np.flatnonzero((starts < last) & (completions > first))
    if not len(inside):
        return []
    inside = inside[np.lexsort((inside, -completions[inside]))]
    classes = np.arange(len(inside)) // group
    window = np.array([first, last])
    count = -(-POINTS // (int(classes[-1]) + 1))
    more = window if group == 1 else first + bin_edges(last - first, count)
    times, offset, running = stretches(instance.select(inside), starts[inside], classes, more)
    within = slice(*np.searchsorted(times, window).tolist())
    times = times[within.start : within.stop + 1]
    begin = offset[:, within] + running[:, within] * times[:-1]
    end = offset[:, within] + running[:, within] * times[1:]
    if group > 1:
        at = np.concatenate([begin[:, :1], end], axis=1)[:, np.searchsorted(times, more)]
        times, begin, end = more, at[:, :-1], at[:, 1:]
    below = np.cumsum(begin, axis=0) - begin, np.cumsum(end, axis=0) - end
    touching = _touching(below[0], below[0] + begin, below[1], below[1] + end)
    return [
        Band(
            inside[classes == k].tolist(),
            *_outline(times, below[0][k], begin[k], below[1][k], end[k]),
            frozenset(touching[k]),
        )
        for k in range(len(begin))
    ]


def _outline(
    times: IntArray, low_begin: IntArray, begin: IntArray, low_end: IntArray, end: IntArray
) -> tuple[list[int], list[int], list[int]]:
    """Join the stretches of a band from its first token to its last; corners only."""
    there = np.flatnonzero((begin > 0) | (end > 0)).tolist()
    points: list[tuple[int, int, int]] = []
    for k in range(there[0], there[-1] + 1) if there else ():
        for point in (
            (int(times[k]), int(low_begin[k]), int(low_begin[k] + begin[k])),
            (int(times[k + 1]), int(low_end[k]), int(low_end[k] + end[k])),
        ):
            if points and points[-1] == point:
                continue
            if len(points) > 1 and _straight(points[-2], points[-1], point):
                points[-1] = point
            else:
                points.append(point)
    steps, low, high = ([point[j] for point in points] for j in range(3))
    return steps, low, high


def _straight(a: Sequence[int], b: Sequence[int], c: Sequence[int]) -> bool:
    """Whether both lines from a to c go through b, in time as well."""
    if not a[0] < b[0] < c[0]:
        return False
    return all((b[j] - a[j]) * (c[0] - b[0]) == (c[j] - b[j]) * (b[0] - a[0]) for j in (1, 2))


def _touching(
    low_begin: npt.NDArray[np.int64],
    high_begin: npt.NDArray[np.int64],
    low_end: npt.NDArray[np.int64],
    high_end: npt.NDArray[np.int64],
) -> list[set[int]]:
    """Find the bands that lie on each other, or beside each other where one jumps or ends."""
    touching: list[set[int]] = [set() for _ in low_begin]
    there = (high_begin > low_begin) | (high_end > low_end)
    for k in range(there.shape[1]):
        stack = np.flatnonzero(there[:, k])
        pairs = [stack[:-1], stack[1:]]
        if k:
            before = np.flatnonzero(there[:, k - 1])
            beside = (low_end[before, k - 1][:, None] <= high_begin[stack, k]) & (
                high_end[before, k - 1][:, None] >= low_begin[stack, k]
            )
            one, other = np.nonzero(beside)
            pairs = [
                np.concatenate([pairs[0], before[one]]),
                np.concatenate([pairs[1], stack[other]]),
            ]
        for a, b in zip(*(pair.tolist() for pair in pairs), strict=True):
            if a != b:
                touching[a].add(b)
                touching[b].add(a)
    return touching


HUES = 5
"""Colours among which neighbours in the order alternate, where they may."""


def colors(stacked: Sequence[Band]) -> list[int]:
    """Give the bands numbers so that those that touch differ, greedily from the lowest."""
    given: list[int] = []
    for place, band in enumerate(stacked):
        taken = {given[other] for other in band.touches if other < place}
        tried = [(place + k) % HUES for k in range(HUES)] + list(range(HUES, place + 1))
        given.append(next(color for color in tried if color not in taken))
    return given
