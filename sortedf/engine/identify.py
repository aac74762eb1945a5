"""What data cannot tell: columns of a design that are nearly a combination of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]

LARGE_CONDITION = 30.0
"""Of scaled columns: from here on a dependence does harm (Belsley, Kuh and Welsch, 1980)."""

INVOLVED = 0.3
"""Least weight in a near dependence for a column to be named."""

ROWS_PER_COEFFICIENT = 10


def condition_number(design: FloatArray) -> float:
    """Largest over least singular value, columns scaled to length 1; inf for a column of zeros."""
    lengths = np.linalg.norm(design, axis=0)
    if not lengths.all() or len(design) < design.shape[1]:
        return float("inf")
    values = np.linalg.svd(design / lengths, compute_uv=False)
    return float(values[0] / values[-1]) if values[-1] > 0 else float("inf")


def unidentified(design: FloatArray, names: Sequence[str]) -> list[str]:
    """Say which coefficients the data cannot tell, a line each; empty when it tells all.

    Parameters
    ----------
    design
        Shape (rows, coefficients): what the time of each row is a weighted sum of.
    names
        The coefficients.

    Notes
    -----
    Singular values of the scaled columns, as in Belsley, Kuh and Welsch, *Regression Diagnostics*
    (1980); a dependence names the columns that have a weight in it.
    """
    lines = []
    rows, columns = design.shape
    if rows < ROWS_PER_COEFFICIENT * columns:
        lines.append(
            f"too little data: {rows} observations for {columns} coefficients "
            f"({ROWS_PER_COEFFICIENT} for each are wanted)"
        )
    lengths = np.linalg.norm(design, axis=0)
    lines += [
        f"{name} cannot be told: the data hold nothing that it would count for"
        for name, length in zip(names, lengths, strict=True)
        if length == 0
    ]
    seen = np.flatnonzero(lengths > 0)
    if rows < len(seen) or not len(seen):
        return lines
    _, values, directions = np.linalg.svd(design[:, seen] / lengths[seen], full_matrices=False)
    for value, direction in zip(values, directions, strict=True):
        if value * LARGE_CONDITION > values[0]:
            continue
        involved = [names[seen[k]] for k in np.flatnonzero(np.abs(direction) >= INVOLVED)]
        ratio = "over 1e12" if value * 1e12 <= values[0] else f"{values[0] / value:.3g}"
        lines.append(
            f"{' and '.join(involved)} cannot be told apart (condition number {ratio}): "
            "their sum is known, single values are not"
        )
    return lines
