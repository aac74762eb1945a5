"""Prices of capacity: at which the best use of a limited server is everybody's own best choice."""

from __future__ import annotations

import numpy as np

from sortedf.kernels.jit import jit
from sortedf.kernels.replay_state import FloatArray


@jit
def lower_dual(
    utility: FloatArray, work: FloatArray, capacity: FloatArray, prices: FloatArray, sweeps: int
) -> None:
    """Lower the dual of "send each request at most once, within capacities" by coordinates.

    ``sum_j max(0, max_i (U_ij - p_i w_ij)) + sum_i p_i C_i`` over p >= 0 is the value of the linear
    program of the best assignment when p is best. One price at a time is set to its exact best,
    given the others: where those who would still come at that price fill the capacity.

    Parameters
    ----------
    utility, work
        U and w, shape (n, R); work in the unit of capacity.
    capacity
        C, shape (R,).
    prices
        Where to start, shape (R,); changed.
    sweeps
        How often over all prices.

    Notes
    -----
    O(sweeps R n (R + log n)). Coordinates may stop short of the best; every p gives a bound.
    Derived for this project.
    """
    n, width = utility.shape
    limit = np.empty(n)
    for _ in range(sweeps):
        for i in range(width):
            for j in range(n):
                other = 0.0
                for k in range(width):
                    if k != i:
                        other = max(other, utility[j, k] - prices[k] * work[j, k])
                limit[j] = (utility[j, i] - other) / work[j, i]
            order = np.argsort(-limit)
            load, price = 0.0, 0.0
            for place in range(n):
                j = order[place]
                if limit[j] <= 0:
                    break
                load += work[j, i]
                if load > capacity[i]:
                    price = limit[j]
                    break
            prices[i] = price
