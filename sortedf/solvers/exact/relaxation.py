"""The relaxation of one backlog at one resolution: bound, rewards, and costs to go."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sortedf.kernels import exact_relaxation as kernel
from sortedf.kernels.exact_search import Requests
from sortedf.kernels.exact_states import States, combine, list_moves, one_class
from sortedf.model.instance import IntArray
from sortedf.solvers.exact.dual import FloatArray
from sortedf.solvers.exact.work import Work

SCALE = 64
"""Costs are whole multiples of 1/SCALE step."""

TICK_CELLS = 1 << 20
"""States times steps that are filled between two looks at the clock: about 5 ms."""


class Relaxation:
    """See :mod:`sortedf.kernels.exact_relaxation`; here with the rewards of one backlog.

    Parameters
    ----------
    work
        The account of the search; each few ms of evaluation count as an iteration.
    floors
        Holdings at which the classes vanish, ascending; the last is at least every s.
    horizon
        Completions are looked for up to this step.
    """

    def __init__(self, work: Work, floors: list[int], horizon: int) -> None:
        instance = work.instance
        prompt, output = instance.prompt_tokens, instance.output_tokens
        M = instance.kv_tokens
        self.work = work
        self.floors = floors
        self.horizon = horizon
        self.peak = prompt + output
        self.output = output
        self.earliest = instance.release + output
        group = np.searchsorted(np.array(floors), prompt)
        floor = np.array(floors)[group]
        self.kind: IntArray = np.where(self.peak > floor, group * (M + 1) + self.peak, -1)
        states: States | None = None
        for g, level in enumerate(floors):
            largest = int(self.peak[group == g].max(initial=0))
            one = one_class(M, level, largest)
            states = one if states is None else combine(M, states, one)
        assert states is not None
        used: npt.NDArray[np.bool_] = np.zeros(states.grown.shape[1], np.bool_)
        used[self.kind[self.kind >= 0]] = True
        self.moves = list_moves(states, used)
        self.states = len(states.held)
        self.to_go = np.empty((horizon + 1, self.states), np.int32)
        self.reward: IntArray = np.zeros(len(instance), np.int64)

    def requests(self) -> Requests:
        """Arrays of the search over partial schedules."""
        keys = list(
            zip(self.peak.tolist(), self.output.tolist(), self.earliest.tolist(), strict=True)
        )
        latest: dict[tuple[int, int, int], int] = {}
        twin = np.full(len(keys), -1, np.int64)
        for i, key in enumerate(keys):
            twin[i] = latest.get(key, -1)
            latest[key] = i
        floor_cost = np.where(self.kind < 0, SCALE * self.earliest - self.reward, 0)
        return Requests(
            self.peak, self.output, self.earliest, self.kind, twin, self.reward, floor_cost, SCALE
        )

    @property
    def constant(self) -> int:
        """Scaled bound of what the states do not hold, all releases subtracted.

        A request that they do not hold completes at a + o or later.
        """
        unheld = int(self.earliest[self.kind < 0].sum())
        return SCALE * (unheld - int(self.work.instance.release.sum()))

    def evaluate(self, u: FloatArray) -> tuple[float, FloatArray]:
        """Bound and supergradient with these rewards, which are rounded first.

        The bound is reported to the account as an exact rational: integers divided by the scale.
        """
        value = self.set_rewards(u)
        count = kernel.count_appearances(
            self.horizon, self.moves, self.kind, self.earliest, self.reward, SCALE, self.to_go
        )
        return value, np.where(self.kind >= 0, 1.0 - count, 0.0)

    def set_rewards(self, u: FloatArray) -> float:
        """Fill the costs to go with these rewards; the bound, in steps."""
        rounded = np.rint(u * SCALE).astype(np.int64)
        self.reward = np.where(self.kind >= 0, rounded, 0)
        rows = max(1, TICK_CELLS // self.states)
        safe = True
        for begin in range(0, self.horizon + 1, rows):
            end = min(begin + rows, self.horizon + 1)
            safe &= kernel.sweep(
                begin, end, self.moves, self.kind, self.earliest, self.reward, SCALE, self.to_go
            )
            self.work.tick()
        total = int(self.to_go[self.horizon, 0]) + int(self.reward.sum()) + self.constant
        if not safe:
            return -float("inf")
        self.work.proved(min(Fraction(total, SCALE), self._beyond()))
        return total / SCALE

    def _beyond(self) -> Fraction:
        """Bound on schedules that complete later than the horizon; see ``shorter_horizon``."""
        return Fraction(self.work.best)

    def shorter_horizon(self, most: int) -> int:
        """Last step at which the last request of a schedule with total latency ``most`` completes.

        Holds for every schedule if the present horizon does. The cheapest sequence whose last
        completion is at t bounds every such schedule; so does the bound with one request that the
        states do not hold put to t.
        """
        costs = np.full(self.horizon + 1, kernel.NO_WAY, np.int64)
        kernel.last_steps(
            self.moves, self.kind, self.earliest, self.reward, SCALE, self.to_go, costs
        )
        steps = np.arange(self.horizon + 1)
        free = np.flatnonzero(self.kind < 0)
        if len(free):
            late = SCALE * (steps - int(self.earliest[free].max())) + self.to_go[:, 0].astype(
                np.int64
            )
            costs = np.minimum(costs, late)
        total = costs + int(self.reward.sum()) + self.constant
        return int(steps[total <= SCALE * most].max(initial=1))
