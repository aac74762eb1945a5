"""Ratios along a parameter: plain points, and how fast they grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Points = tuple[tuple[float, float], ...]
"""Parameter and ratio, by parameter ascending."""


def fitted_power(points: Sequence[tuple[float, float]]) -> float | None:
    """Power b of ratio = a parameter^b, of least squares of the logarithms; none of one point."""
    if len(points) < 2:
        return None
    values, ratios = np.log(np.array(points, float)).T
    return float(np.polyfit(values, ratios, 1)[0])


@dataclass(frozen=True)
class Curves:
    """Curves for one picture.

    Parameters
    ----------
    title, note
        What is shown, in a few words, and what a ratio is to.
    parameter
        What the ratios are plotted against, as the label of an axis.
    points
        By curve, a policy mostly.
    growing
        Whether both axes are logarithmic, and a power is fitted.
    """

    title: str
    note: str
    parameter: str
    points: Mapping[str, Points]
    growing: bool = False

    @property
    def exponents(self) -> dict[str, float]:
        """:func:`fitted_power` by curve, of those that grow and have one."""
        if not self.growing:  # the parameter may be 0
            return {}
        fitted = {name: fitted_power(points) for name, points in self.points.items()}
        return {name: b for name, b in fitted.items() if b is not None}

    def to_dict(self) -> dict[str, Any]:
        """Give plain data for JSON and for a page."""
        return {
            "title": self.title,
            "note": self.note,
            "parameter": self.parameter,
            "growing": self.growing,
            "curves": [
                {
                    "name": name,
                    "points": [[float(value), float(ratio)] for value, ratio in points],
                    "exponent": self.exponents.get(name),
                }
                for name, points in self.points.items()
            ],
        }
