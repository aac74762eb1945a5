"""When the relaxation starts each request: from the linear program, or averaged from the ascent."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.adam import adam
from sortedf.lp.ascent import ascend, quadratic_nodes
from sortedf.lp.bounds import CLOSED_FORMS, Bound
from sortedf.lp.cutting_plane import relax_by_planes
from sortedf.lp.distinct import distinct
from sortedf.lp.dual import Dual, Groups
from sortedf.lp.fractional import FractionalStarts, split
from sortedf.lp.prices import Prices, beyond
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray

LARGEST_PROGRAM = 1_000_000
"""Kinds of requests times steps up to which the linear program is solved: about two seconds."""

ITERATIONS = 600
"""Of the ascent before the linear program: more of them save it less than they take."""

AVERAGED = (20, 200)
PIECES = (200, 2000)
WORK = 400_000_000
"""Least and most solutions that are averaged, and pieces of the prices; most of their product with
the kinds of requests: about two seconds."""

STEP = 0.01
"""First step around the prices, relative to them."""


def expected_starts(
    instance: Instance, start: Schedule, stopped: Callable[[], bool] = lambda: False
) -> tuple[FractionalStarts, Bound]:
    """Spread each request over its starts in a solution of the relaxation, and bound by its prices.

    Parameters
    ----------
    start
        A feasible schedule.
    stopped
        Asked now and then; ends ascent and linear programs early, with what they have.

    Returns
    -------
    FractionalStarts, Bound
        The solution of the time-indexed program where that has at most ``LARGEST_PROGRAM`` starts;
        else :func:`averaged_starts`. The bound is the best of the prices found and of the closed
        forms.

    Raises
    ------
    InfeasibleError
        If a request is larger than the budget.
    """
    solvable = len(distinct(instance).weight) * start.makespan(instance) <= LARGEST_PROGRAM
    prices, value = ascend(
        instance,
        iterations=ITERATIONS if solvable else None,
        start=start,
        stop=lambda *_: stopped(),
    )
    starts = None
    if solvable:
        relaxed = relax_by_planes(instance, prices=prices, start=start, stop=lambda *_: stopped())
        prices, value, starts = relaxed.prices, relaxed.bound, relaxed.starts
    bounds = [Bound(form(instance), name) for name, form in CLOSED_FORMS.items()]
    bounds.append(Bound(value, "prices", prices))
    if starts is None:
        starts = averaged_starts(instance, prices, stopped)
    return starts, max(bounds, key=lambda bound: bound.value)


def averaged_starts(
    instance: Instance, prices: Prices, stopped: Callable[[], bool] = lambda: False
) -> FractionalStarts:
    """Average the cheapest starts of each request over many prices around good ones.

    Each step of an ascent takes the start that is cheapest at its prices. Where these are the best,
    several starts are equally cheap, and the ascent goes back and forth between them about as often
    as the relaxation has shares of them. O(pieces x kinds of requests) for each of the prices.
    Derived for this project, from what is known of averages in subgradient methods.
    """
    kinds = distinct(instance)
    groups = Groups(*kinds[:3], kinds.weight.astype(np.float64), sampled=False)
    count = len(kinds.weight)
    pieces = int(np.clip(WORK // (count * AVERAGED[1]), *PIECES))
    iterations = int(np.clip(WORK // (count * pieces), *AVERAGED))
    T = prices.horizon
    nodes = quadratic_nodes(T, pieces)
    at_nodes = prices.at(np.maximum(nodes, 1))
    dual = Dual(groups, instance.kv_tokens, nodes, beyond(instance, T))
    found: list[IntArray] = []

    def watched(at_nodes: FloatArray) -> tuple[float, FloatArray]:
        bound = dual(at_nodes)
        found.append(dual.cheapest.copy())
        return bound

    step = STEP * (at_nodes + 0.1 * float(at_nodes.max()))
    adam(watched, at_nodes, step, iterations, stopped)
    each = np.sort(np.stack(found, axis=1), axis=1)  # by kind and start
    kind = np.repeat(np.arange(count), len(found))
    share = np.repeat(kinds.weight / len(found), len(found))
    return split(kinds, kind, each.ravel(), share)
