"""The fluid machine: work is done at one rate, the most urgent that is there first, cut anywhere.

Time and work have the same unit: in one unit of time one unit of work is done.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from sortedf.kernels.jit import jit


def fluid_pieces_in_python(
    release: Any, work: Any, rank: Any, job_of: Any, job: Any, begin: Any, length: Any
) -> int:
    """Write what the machine does, piece by piece, ascending in time; returns how many there are.

    Parameters
    ----------
    release, work
        Of each job, in the order of the releases; all work is above 0.
    rank, job_of
        Rank of each job, a permutation of 0..n-1, least first; and the job of each rank.
    job, begin, length
        Results: which job, from when, for how long. Room for twice as many as there are jobs.

    Notes
    -----
    A piece ends where its job ends or another one comes, so there are 2 n at most. O(n log n). With
    lists of Python integers any size is exact.
    """
    n = len(work)
    heap = [0 for _ in range(0)]
    left = [w + 0 for w in work]
    pieces = 0
    comes = 0
    now = release[0]
    while comes < n or len(heap) > 0:
        if len(heap) == 0:
            now = max(now, release[comes])
        while comes < n and release[comes] <= now:
            heappush(heap, rank[comes])
            comes += 1
        i = job_of[heap[0]]
        end = now + left[i]
        if comes < n and release[comes] < end:
            end = release[comes]
            left[i] -= end - now
        else:
            heappop(heap)
        job[pieces] = i
        begin[pieces] = now
        length[pieces] = end - now
        pieces += 1
        now = end
    return pieces


fluid_pieces = jit(fluid_pieces_in_python)
