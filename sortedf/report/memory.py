"""Memory held over time by classes of requests, summed up over bins of steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.model import Instance
from sortedf.model.instance import IntArray


class Classes(NamedTuple):
    """Requests by volume, the smallest class first.

    ``of`` (n,) is the class of each request; ``most`` the largest volume of each class
    (token-steps), ``requests`` how many requests it has.
    """

    of: IntArray
    most: list[int]
    requests: list[int]


def volume_quarters(instance: Instance) -> Classes:
    """Split the requests by volume so that each class holds about a quarter of all token-steps.

    The smallest requests whose volumes make up a quarter are the first class, and so on: what the
    classes hold over a whole schedule is alike, and many small ones weigh as much as a few large
    ones. Equal volumes stay together; there may be fewer than four classes.
    """
    ordered = np.sort(instance.volume)
    held = np.cumsum(ordered.astype(np.float64))
    quarters = np.searchsorted(held, np.array([0.25, 0.5, 0.75]) * held[-1])
    edges = np.unique(np.append(ordered[quarters], ordered[-1]))
    of = np.searchsorted(edges, instance.volume, side="left")
    return Classes(of, edges.tolist(), np.bincount(of, minlength=len(edges)).tolist())


def bin_edges(last: int, bins: int) -> IntArray:
    """Place the ends of bins of whole steps; bin b is the steps edges[b] + 1..edges[b + 1].

    At most so many bins: distinct integers from 0 to ``last``, which is at least 1, evenly.
    """
    bins = min(bins, last)
    return np.array([last * b // bins for b in range(bins + 1)], np.int64)


class Held(NamedTuple):
    """Tokens held in each bin.

    ``mean`` (classes, bins): mean over the steps of the bin, by class; ``peak`` (bins,): the most
    that all classes together hold at a step of it.
    """

    mean: npt.NDArray[np.float64]
    peak: IntArray


def memory_held(instance: Instance, starts: IntArray, classes: IntArray, edges: IntArray) -> Held:
    """Sum up the tokens that a schedule holds, by class of request and bin of steps.

    Sums over steps are exact from both ends of each stretch without a start or completion.
    O((n + bins) (log n + classes)), whatever the number of steps.
    """
    times, offset, running = stretches(instance, starts, classes, edges)
    last = offset + running * times[1:]
    area = (offset + running * (times[:-1] + 1) + last) * (np.diff(times) / 2)
    begins = np.searchsorted(times, edges[:-1])
    end = int(np.searchsorted(times, edges[-1]))
    mean = np.add.reduceat(area[:, :end], begins, axis=1) / np.diff(edges)
    peak = np.maximum.reduceat(last.sum(axis=0)[:end], begins)
    return Held(mean, peak)


def stretches(
    instance: Instance, starts: IntArray, classes: IntArray, more: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """Follow what each class holds, which changes its course at starts and completions only.

    Returns
    -------
    times
        Every start and completion, and the steps ``more``, ascending and distinct; shape (m + 1,).
    offset, running
        At each step t in times[k] + 1..times[k + 1] the requests of class c hold
        offset[c, k] + running[c, k] t tokens; shape (classes, m).
    """
    completions = starts + instance.output_tokens
    times = np.unique(np.concatenate([starts, completions, more]))
    kinds = int(classes.max()) + 1
    running = np.zeros((kinds, len(times)), np.int64)
    offset = np.zeros_like(running)
    for at, sign in ((starts, 1), (completions, -1)):
        place = np.searchsorted(times, at)
        np.add.at(running, (classes, place), sign)
        np.add.at(offset, (classes, place), sign * (instance.prompt_tokens - starts))
    return times, np.cumsum(offset, axis=1)[:, :-1], np.cumsum(running, axis=1)[:, :-1]
