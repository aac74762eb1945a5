"""A binary heap of integers in an array, the least first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import lean_jit


@lean_jit
def push(heap: npt.NDArray[np.int64], size: int, key: int) -> None:
    """Add a key to a heap of ``size`` keys, which has room for it. O(log size)."""
    child = size
    while child > 0:
        parent = (child - 1) // 2
        if heap[parent] <= key:
            break
        heap[child] = heap[parent]
        child = parent
    heap[child] = key


@lean_jit
def pop(heap: npt.NDArray[np.int64], size: int) -> None:
    """Take the least key out of a heap of ``size`` keys, at least one. O(log size)."""
    last = size - 1
    key = heap[last]
    parent, child = 0, 1
    while child < last:
        if child + 1 < last and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[parent] = heap[child]
        parent, child = child, 2 * child + 1
    heap[parent] = key
