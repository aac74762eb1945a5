"""Maximise a concave bound of which values and supergradients are to be had: levels, then planes.

A step of the level method goes along a smoothed supergradient as far as would lift the bound to a
target slightly above the best, were it linear; the target comes down when it is not reached
(Polyak's rule with an adaptive level). It is fast at first and slow in the end; there a cutting
plane method takes over: HiGHS maximises the least of the linear upper bounds seen so far, within a
box around the best point. Floats throughout: they only propose where the bound is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.lp.highs import new_highs

FloatArray = npt.NDArray[np.float64]
Evaluate = Callable[[FloatArray], tuple[float, FloatArray]]
"""Bound and supergradient at a point."""


def by_levels(
    evaluate: Evaluate, point: FloatArray, evaluations: int, level: float = 0.05
) -> FloatArray:
    """Best point of so many evaluations; ``level`` is the first target, relative to the bound."""
    value, gradient = evaluate(point)
    best, best_value = point, value
    ahead = level * max(1.0, abs(value))
    direction = gradient
    failures = 0
    for _ in range(evaluations):
        if not direction.any():
            break
        point = point + (best_value + ahead - value) / (direction @ direction) * direction
        value, gradient = evaluate(point)
        failures = 0 if value > best_value + 0.1 * ahead else failures + 1
        if value > best_value:
            best, best_value = point, value
        if failures == 10:
            ahead, failures = ahead / 2, 0
            point, value, direction = best, best_value, gradient
        else:
            direction = 0.7 * direction + gradient
    return best


def by_planes(
    evaluate: Evaluate, point: FloatArray, evaluations: int, box: float, tolerance: float = 0.05
) -> FloatArray:
    """Best point of at most so many evaluations; ends when no plane promises ``tolerance`` more.

    ``box`` is the first half-width of the box in which the next point is sought.
    """
    n = len(point)
    planes = _Planes(n)
    best = point
    best_value, gradient = evaluate(point)
    planes.add(gradient, best_value - float(gradient @ point))
    for _ in range(evaluations):
        point, promised = planes.highest(best, box)
        if promised - best_value < tolerance:
            break
        value, gradient = evaluate(point)
        planes.add(gradient, value - float(gradient @ point))
        if value > best_value:
            if value - best_value > 0.5 * (promised - best_value):
                box = min(1.5 * box, 50.0)
            best, best_value = point, value
        else:
            box = max(0.8 * box, 0.2)
    return best


class _Planes:
    """Linear upper bounds on the objective, and the point where their minimum is highest."""

    def __init__(self, n: int) -> None:
        import highspy

        self.n = n
        self.infinity = highspy.kHighsInf
        self.columns = np.arange(n + 1, dtype=np.int32)
        self.lp: Any = new_highs()
        for _ in range(n):
            self.lp.addCol(0.0, 0.0, 0.0, 0, [], [])
        self.lp.addCol(-1.0, -self.infinity, self.infinity, 0, [], [])

    def add(self, gradient: FloatArray, offset: float) -> None:
        """Bound the objective by ``gradient @ point + offset``."""
        row = np.append(-gradient, 1.0)
        self.lp.addRow(-self.infinity, float(offset), self.n + 1, self.columns, row)

    def highest(self, centre: FloatArray, box: float) -> tuple[FloatArray, float]:
        """Point within the box whose least upper bound is highest, and that bound."""
        for i, x in enumerate(centre.tolist()):
            self.lp.changeColBounds(i, x - box, x + box)
        self.lp.run()
        solution = np.array(self.lp.getSolution().col_value)
        return solution[: self.n], float(solution[self.n])
