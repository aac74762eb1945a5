"""Plans on bounds of output lengths, replayed against the true ones: A_min and A_max [4].

[4] is arXiv 2508.14544. A_min admits by the lower bound of each output and evicts when memory runs
out; A_max admits by the upper bound and never has to. What is derived for this project is said in
:func:`sortedf.kernels.replay_bounds.replay`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sortedf.errors import InfeasibleError, OptionError
from sortedf.kernels.replay_bounds import replay
from sortedf.model import Instance, Schedule
from sortedf.model.instance import IntArray
from sortedf.solvers.sorted_f import Selector, sorted_f_order, swap_batch

Rule = Literal["a-min", "sorted-f", "a-max"]
RULES: tuple[Rule, ...] = ("a-min", "sorted-f", "a-max")


@dataclass(frozen=True)
class BoundedPlan:
    """What became of a plan on bounds.

    Parameters
    ----------
    schedule
        Start steps of the last run of each request, the one that completed: a feasible schedule,
        which :func:`sortedf.verify.verify` accepts. The evicted runs took memory as well, so that
        it may look wasteful: the sum of both stayed within the budget at every step.
    evictions
        How often each request was evicted, shape (n,).
    evicted
        The evicted runs in order of time, shape (e, 3): request, start, step of the eviction. One
        held s + k tokens at step start + k, up to the step of its eviction.
    lost_tokens
        Output tokens generated in vain.
    lost_token_steps
        Memory that the evicted runs took, in the unit of :attr:`Instance.volume`.
    """

    schedule: Schedule
    evictions: IntArray
    evicted: IntArray
    lost_tokens: int
    lost_token_steps: int


def plan_with_bounds(
    instance: Instance,
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    rule: Rule = "a-min",
    select: Selector = swap_batch,
) -> BoundedPlan:
    """Plan with l <= o <= u known of each output o, and replay the plan against the true outputs.

    Parameters
    ----------
    instance
        The backlog with its true outputs, which the plan does not look at; each request fits alone.
    lower, upper
        l and u of each request, shape (n,), tokens. An upper bound above M - s is taken as M - s.
    rule
        ``a-min``: the queue by current lower bound, evicted requests by the one they have now.
        ``sorted-f``: the queue in the Sorted-F order of the lower bounds, an evicted request keeps
        its place. ``a-max``: queue and admission by the upper bound.
    select
        Batches of the rule ``sorted-f``.

    Returns
    -------
    BoundedPlan
        The runs that completed, those that were evicted, and what was lost.

    Raises
    ------
    InfeasibleError
        Naming the requests that are larger than the budget.
    OptionError
        For bounds of another shape, not integer, or that an output breaks; or an unknown rule.
    InvalidRequestError
        If the upper bounds are larger than what an instance may hold.

    Notes
    -----
    With l = u = o nothing is evicted, and the schedule is strict list scheduling by output (or in
    Sorted-F order). O(steps x running requests).
    """
    if rule not in RULES:
        raise OptionError(f"there is no rule {rule!r}; choose from {', '.join(RULES)}")
    s, o = instance.prompt_tokens, instance.output_tokens
    low, high = _bounds(lower, "lower", len(o)), _bounds(upper, "upper", len(o))
    for wrong, name, bounds in (
        (low > o, "lower", low),
        (low < 1, "lower", low),
        (high < o, "upper", high),
    ):
        if wrong.any():
            i = int(np.flatnonzero(wrong)[0])
            raise OptionError(
                f"the {name} bound of request {instance.ids[i]!r} is {bounds[i]}, its output {o[i]}"
            )
    if len(oversized := instance.oversized):
        raise InfeasibleError(
            [(i, instance.ids[i], int(s[i] + o[i])) for i in oversized.tolist()],
            instance.kv_tokens,
        )
    rank = np.empty(0, np.int64)
    if rule == "sorted-f":
        order = sorted_f_order(instance.replace(output_tokens=low), select)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
    bound = np.minimum(high, instance.kv_tokens - s) if rule == "a-max" else low
    # An instance of the bounds makes sure that no sum of them leaves int64.
    planned = instance.replace(output_tokens=np.maximum(bound, o))
    budget = min(instance.kv_tokens, int(s.sum() + planned.output_tokens.sum()))
    starts, evicted = replay(s, o, instance.release, bound, rank, budget)
    generated = evicted[:, 2] - evicted[:, 1]
    held = s[evicted[:, 0]] * generated + generated * (generated + 1) // 2
    return BoundedPlan(
        Schedule(starts),
        np.bincount(evicted[:, 0], minlength=len(o)).astype(np.int64),
        evicted,
        int(generated.sum()),
        int(held.sum()),
    )


def intervals_around(instance: Instance, percent: int) -> tuple[IntArray, IntArray]:
    """Bounds ``percent`` % below and above each true output, rounded outward; for experiments.

    Lower at least 1, upper at most M - s. They keep the order of the true outputs, which real
    predictions do not; see :func:`length_classes`.
    """
    if not 0 <= percent <= 100:
        raise OptionError(f"the percentage is {percent}; it must be 0 .. 100")
    o = instance.output_tokens
    upper = -(-o * (100 + percent) // 100)
    room = instance.kv_tokens - instance.prompt_tokens
    return np.maximum(o * (100 - percent) // 100, 1), np.maximum(np.minimum(upper, room), o)


def length_classes(instance: Instance, base: int = 2) -> tuple[IntArray, IntArray]:
    """Bounds of a predictor that tells in which of [1, base), [base, base^2), .. an output lies."""
    if base < 2:
        raise OptionError(f"the base is {base}; it must be at least 2")
    o = instance.output_tokens
    lower = np.ones_like(o)
    while (longer := lower * base <= o).any():
        lower = np.where(longer, lower * base, lower)
    room = instance.kv_tokens - instance.prompt_tokens
    return lower, np.maximum(np.minimum(lower * base - 1, room), o)


def _bounds(values: npt.ArrayLike, name: str, n: int) -> IntArray:
    array = np.asarray(values)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise OptionError(f"{name} must be {n} integers, not {array.dtype} of shape {array.shape}")
    return array.astype(np.int64)
