"""How prices of memory go over time, summed up over bins of steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.lp import Prices
from sortedf.model.instance import IntArray

FloatArray = npt.NDArray[np.float64]


def price_up_to(prices: Prices, steps: IntArray) -> FloatArray:
    """Sum of the prices of steps 1..t for each t given; O(pieces + steps log pieces)."""
    if not len(prices.first):
        return np.zeros(len(steps))
    length = (prices.last - prices.first + 1).astype(np.float64)
    whole = prices.numerator * length + prices.slope * (length * (length - 1) / 2)
    before = np.concatenate([[0.0], np.cumsum(whole)])
    piece = np.maximum(np.searchsorted(prices.first, steps, side="right") - 1, 0)
    m = np.clip(steps - prices.first[piece] + 1, 0, length[piece])
    part = prices.numerator[piece] * m + prices.slope[piece] * (m * (m - 1) / 2)
    total: FloatArray = (before[piece] + part) / prices.divisor
    return total


def price_bins(prices: Prices, edges: IntArray) -> FloatArray:
    """Mean price of the steps edges[b] + 1..edges[b + 1] of each bin b."""
    return np.maximum(np.diff(price_up_to(prices, edges)), 0.0) / np.diff(edges)


def step_of_share(prices: Prices, share: float) -> int:
    """First step up to which this share of all prices has fallen; 0 if all prices are 0."""
    total = float(price_up_to(prices, np.array([prices.horizon]))[0])
    low, high = 0, prices.horizon if total > 0 else 0
    while low < high:
        middle = (low + high) // 2
        if price_up_to(prices, np.array([middle]))[0] < share * total:
            low = middle + 1
        else:
            high = middle
    return low
