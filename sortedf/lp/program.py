"""The time-indexed linear program as arrays: which start each request takes, and memory by step.

    least   sum (p - a + o) x[i,p]
    where   sum_p x[i,p] = how many requests are of kind i,
            sum (s + t - p) x[i,p] / M <= 1   over the starts that run at step t,  t = 1..T,
            x >= 0,

one variable for each kind of request and each start a <= p <= max(T, a).

**Horizon.** For every T the value is a lower bound: a schedule, or a fractional one, that starts
requests later than T costs less if these start at T, where they hold nothing at steps 1..T. It is
the value of the program without a horizon as soon as some solution of it holds at most M at every
step after T too, since that solution is then feasible there. At T = max (a + o V / M + o), V the
sum of the volumes, it always does: a share that starts at p could start earlier, unless each of
the (p - a) / o windows of o steps before p has a step at which M is held; so many steps hold
M (p - a) / o <= V, and every start of a best solution is at most a + o V / M. Mostly the makespan
of a list schedule suffices. Derived for this project.

Two layouts of the same program:

- :func:`by_steps`, as above: o + 1 nonzeros a variable.
- :func:`by_differences`: memory held is a variable U_t <= 1, and each row of a step is taken minus
  twice the one before plus the one before that. A request started at p then appears at p + 1,
  p + 2, p + o + 1 and p + o + 2 only, so that a variable has 5 nonzeros whatever its o. Rows and
  columns are transformed, the solutions are the same. Derived for this project.

The simplex and interior point methods want the differences (n = 50 of the mix: 28 s against 1.3 s),
first-order methods the steps: they do not converge on sums over thousands of rows. All want memory
in shares of the budget; in tokens the interior point method fails now and then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.kernels.price_ascent import FloatArray
from sortedf.lp.distinct import Distinct, distinct
from sortedf.model import Instance
from sortedf.model.instance import IntArray

Int32Array = npt.NDArray[np.int32]

MOST_NONZEROS = 50_000_000
"""Largest program that is built: a GiB or two."""


class Starts(NamedTuple):
    """Start variables: the kind of request and the start p of each, both ascending; shape (N,)."""

    kind: IntArray
    step: IntArray


class Program(NamedTuple):
    """Least cost x where row_lower <= A x <= row_upper and 0 <= x <= upper; A by columns.

    The columns are the ``starts`` and then, by differences, the memory held at steps 1..T. The
    rows are one a kind of request and then one a step. Costs are in steps, memory in units of
    ``unit`` tokens: M, or what all requests together fill if that is less.
    """

    kinds: Distinct
    horizon: int
    unit: int
    starts: Starts
    cost: FloatArray
    upper: FloatArray
    begin: IntArray
    row: Int32Array
    value: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray

    @property
    def differences(self) -> bool:
        """Whether memory is held by columns."""
        return len(self.cost) > len(self.starts.kind)

    def prices(self, row_duals: FloatArray, reduced_costs: FloatArray) -> FloatArray:
        """Price of a token at steps 1..T, shape (T,), from the duals of a minimisation; >= 0."""
        duals = reduced_costs if self.differences else row_duals
        return np.maximum(-duals[len(duals) - self.horizon :] / self.unit, 0.0)


def longest_horizon(instance: Instance) -> int:
    """Horizon at which the program always has the value of the one without; see the module."""
    turns = int(instance.volume.sum()) // instance.kv_tokens + 2
    return int((instance.release + instance.output_tokens * turns).max())


def all_starts(kinds: Distinct, horizon: int) -> Starts:
    """Every start variable; kinds x horizon of them."""
    count = np.maximum(horizon - kinds.release, 0) + 1  # after T only the release itself
    kind = np.repeat(np.arange(len(count)), count)
    first = np.cumsum(count) - count
    return Starts(kind, np.arange(len(kind)) - np.repeat(first - kinds.release, count))


def by_steps(instance: Instance, horizon: int, starts: Starts | None = None) -> Program:
    """Build the program with memory as it is held at each step.

    Parameters
    ----------
    horizon
        Last step T that has a row, at least 1.
    starts
        The start variables; all when left out. A restriction bounds the value from above.

    Raises
    ------
    OptionError
        If there would be more than ``MOST_NONZEROS``.
    """
    kinds = distinct(instance)
    kind, step = starts = _checked(kinds, horizon, starts, kinds.output_tokens + 1)
    s, o = kinds.prompt_tokens[kind], kinds.output_tokens[kind]
    begin = np.append(0, np.cumsum(np.clip(horizon - step, 0, o) + 1))
    column = np.repeat(np.arange(len(kind)), np.diff(begin))
    k = np.arange(begin[-1]) - begin[column]
    row = np.where(k == 0, kind[column], len(kinds.weight) + step[column] + k - 1)
    unit, most = _memory(instance)
    return Program(
        kinds,
        horizon,
        unit,
        starts,
        (step - kinds.release[kind] + o).astype(np.float64),
        np.full(len(kind), np.inf),
        begin,
        row.astype(np.int32),
        np.where(k == 0, 1.0, (s[column] + k) / unit),
        np.append(kinds.weight, np.full(horizon, -np.inf)).astype(np.float64),
        np.append(kinds.weight, np.full(horizon, most)).astype(np.float64),
    )


def by_differences(instance: Instance, horizon: int, starts: Starts | None = None) -> Program:
    """Build the program with memory as variables, its rows as second differences.

    Parameters and errors are those of :func:`by_steps`. O(N + T) numbers.
    """
    kinds = distinct(instance)
    kind, step = starts = _checked(kinds, horizon, starts, np.full(len(kinds.weight), 5))
    s, o = kinds.prompt_tokens[kind], kinds.output_tokens[kind]
    N, T, top = len(kind), horizon, len(kinds.weight)
    # Held: s + 1 at p + 1, then one more a step up to s + o, then nothing.
    rows = np.stack([kind, *(top + step + k for k in (0, 1, o, o + 1))], axis=1)
    unit, most = _memory(instance)
    held = (s + 1, -s, -(s + o + 1), s + o)
    values = np.stack([np.ones(N), *(tokens / unit for tokens in held)], axis=1)
    short = o == 1  # the second and the third are at the same step
    values[short, 2] += values[short, 3]
    values[short, 3] = 0.0
    used = (rows < top + T) & (values != 0.0)
    # U_t stands in the rows t, t + 1, t + 2 with -1, 2, -1.
    memory_rows = top + np.arange(T)[:, None] + np.arange(3)
    memory_used = memory_rows < top + T
    memory_values = np.broadcast_to([-1.0, 2.0, -1.0], (T, 3))
    lengths = np.append(used.sum(axis=1), memory_used.sum(axis=1))
    right = np.zeros(top + T)
    right[:top] = kinds.weight
    return Program(
        kinds,
        horizon,
        unit,
        starts,
        np.append((step - kinds.release[kind] + o).astype(np.float64), np.zeros(T)),
        np.append(np.full(N, np.inf), np.full(T, most)),
        np.append(0, np.cumsum(lengths)),
        np.append(rows[used], memory_rows[memory_used]).astype(np.int32),
        np.append(values[used], memory_values[memory_used]),
        right,
        right,
    )


def _checked(
    kinds: Distinct, horizon: int, starts: Starts | None, nonzeros_each: IntArray
) -> Starts:
    """All starts, unless given, if the program stays within ``MOST_NONZEROS``."""
    if horizon < 1:
        raise OptionError(f"the horizon is step {horizon}; it must be at least 1")
    count = horizon + 1 if starts is None else np.bincount(starts.kind, minlength=len(kinds.weight))
    nonzeros = int(np.sum(nonzeros_each * count)) + 3 * horizon
    if nonzeros > MOST_NONZEROS:
        raise OptionError(
            f"the time-indexed program has about {nonzeros:,} nonzeros, more than "
            f"{MOST_NONZEROS:,}; for a backlog of this size take the prices of `ascend`"
        )
    return all_starts(kinds, horizon) if starts is None else starts


def _memory(instance: Instance) -> tuple[int, float]:
    """Choose the unit of memory, and its limit in units: none where all requests fill less."""
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    return min(instance.kv_tokens, needed), 1.0 if instance.kv_tokens < needed else np.inf
