"""Adam, uphill: what the ascents of prices step by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortedf.kernels.price_ascent import FloatArray

Function = Callable[[FloatArray], tuple[float, FloatArray]]


def adam(
    function: Function,
    x: FloatArray,
    step: float | FloatArray,
    iterations: int,
    stopped: Callable[[], bool],
) -> FloatArray:
    """Ascend by Adam over non-negative variables, the step falling linearly to 0.

    Kingma and Ba's rule (arXiv 1412.6980) with decay rates 0.9 and 0.99. Returns the best point
    seen, or the mean of the second half if that is better.
    """
    mean = np.zeros_like(x)
    square = np.zeros_like(x)
    total = np.zeros_like(x)
    averaged = 0
    best, best_x = -np.inf, x
    for k in range(iterations):
        bound, gradient = function(x)
        if bound > best:
            best, best_x = bound, x
        if stopped():
            break
        mean += 0.1 * (gradient - mean)
        square += 0.01 * (gradient * gradient - square)
        root = np.sqrt(square / (1 - 0.99 ** (k + 1))) + 1e-12
        length = (1 - k / iterations) / (1 - 0.9 ** (k + 1))
        x = np.maximum(x + length * step * mean / root, 0.0)
        if 2 * k >= iterations:
            total += x
            averaged += 1
    for point in (x, total / max(averaged, 1)) if averaged else ():
        bound, _ = function(point)
        if bound > best:
            best, best_x = bound, point
    return best_x
