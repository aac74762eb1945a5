"""A schedule: the start step of every request of an instance, and where it runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sortedf.model.instance import Instance, IntArray


class Schedule:
    """Start steps in the order of the instance. Frozen; nothing else is claimed about them.

    Parameters
    ----------
    starts
        Start step of each request, shape (n,), integers. Request i, started at p, completes at
        step p + o_i.
    workers
        Position of the worker of each request, shape (n,), integers; all 0 when left out.
    """

    starts: IntArray
    workers: IntArray

    def __init__(self, starts: npt.ArrayLike, workers: npt.ArrayLike | None = None) -> None:
        self.__dict__["starts"] = _integers(starts, "starts")
        places = np.zeros(len(self.starts), np.int64) if workers is None else workers
        self.__dict__["workers"] = _integers(places, "workers")
        if len(self.workers) != len(self.starts):
            raise TypeError(f"{len(self.starts)} starts, but {len(self.workers)} workers")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Schedule is frozen")

    def __reduce__(self) -> tuple[type[Schedule], tuple[IntArray, IntArray]]:
        return Schedule, (self.starts, self.workers)  # arrays come out of a pickle writable

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Schedule)
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.workers, other.workers)
        )

    def __hash__(self) -> int:
        return hash((self.starts.tobytes(), self.workers.tobytes()))

    def __repr__(self) -> str:
        return f"<Schedule: {len(self)} starts>"

    def latencies(self, instance: Instance) -> IntArray:
        """Count the steps from release to completion of each request, shape (n,)."""
        return self.starts + instance.output_tokens - instance.release

    def total_latency(self, instance: Instance) -> int:
        """Sum up the total end-to-end latency, sum of c_i - a_i (steps)."""
        return int(self.latencies(instance).sum())

    def makespan(self, instance: Instance) -> int:
        """Find the step of the last completion."""
        return int((self.starts + instance.output_tokens).max())


def _integers(values: npt.ArrayLike, name: str) -> IntArray:
    """Copy into a read-only int64 array."""
    array = np.array(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be a sequence of integers, not {array.dtype}")
    result: IntArray = array.astype(np.int64)
    result.setflags(write=False)
    return result
