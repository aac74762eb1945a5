"""A schedule: the start step of every request of an instance."""

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
    """

    starts: IntArray

    def __init__(self, starts: npt.ArrayLike) -> None:
        array = np.array(starts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(f"starts must be a sequence of integers, not {array.dtype}")
        array = array.astype(np.int64)
        array.setflags(write=False)
        self.__dict__["starts"] = array

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Schedule is frozen")

    def __reduce__(self) -> tuple[type[Schedule], tuple[IntArray]]:
        return Schedule, (self.starts,)  # arrays come out of a pickle writable

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and np.array_equal(self.starts, other.starts)

    def __hash__(self) -> int:
        return hash(self.starts.tobytes())

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
