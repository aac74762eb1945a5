"""Ratios along a parameter: a plain table, and how fast they grow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curves:
    """A table of ratios, one column a policy.

    Parameters
    ----------
    title
        What is shown, in a line.
    parameter
        What the rows differ in, as the label of an axis.
    values
        The parameter by row, ascending.
    ratios
        By policy (or what else the curve is), the ratio by row.
    growing
        Whether both axes are logarithmic, and a power is fitted.
    """

    title: str
    parameter: str
    values: tuple[float, ...]
    ratios: Mapping[str, tuple[float, ...]]
    growing: bool = False

    @property
    def exponents(self) -> dict[str, float]:
        """Exponent b of ratio = a value^b by curve, of least squares of the logarithms."""
        if not self.growing or len(self.values) < 2:
            return {}
        logs = np.log(np.array(self.values, float))
        return {
            name: float(np.polyfit(logs, np.log(np.array(ratios)), 1)[0])
            for name, ratios in self.ratios.items()
        }
