"""What arrives: requests with their times, and how much of it an engine can take.

A load is a share of the saturated rate: requests a second that first come, first served completes
while a long backlog keeps the engine full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sortedf.engine.replaying import Replay
from sortedf.engine.settings import EngineSettings, Policy
from sortedf.engine.step_time import StepTimeModel
from sortedf.errors import OptionError
from sortedf.instances.generators import heavy_tail, mix
from sortedf.instances.read import read_trace
from sortedf.model import Instance
from sortedf.serving.arrivals import FloatArray, poisson, stretched

REASONING_LONGEST = 12_000
REASONING_MEDIAN = 700
REASONING_SIGMA = 1.0


@dataclass(frozen=True)
class Workload:
    """Requests and the seconds at which they arrive.

    Parameters
    ----------
    instance
        Prompts and outputs, in the order of arrival; its releases are not read.
    arrivals
        Seconds, shape (n,), ascending.
    name
        For tables.
    """

    instance: Instance
    arrivals: FloatArray
    name: str = ""

    def __post_init__(self) -> None:
        times = np.array(self.arrivals, np.float64)
        if times.shape != (len(self.instance),) or not np.isfinite(times).all():
            raise OptionError(f"arrivals must be {len(self.instance)} finite times in seconds")
        if (np.diff(times) < 0).any():
            raise OptionError("requests must come in the order of their arrivals")
        times.setflags(write=False)
        object.__setattr__(self, "arrivals", times)

    def __len__(self) -> int:
        return len(self.instance)

    def arriving(self, arrivals: npt.ArrayLike) -> Workload:
        """Give the same requests at other times."""
        return replace(self, arrivals=np.asarray(arrivals, np.float64))


def released(workload: Workload) -> Instance:
    """Give the requests with their arrivals as releases, which are whole steps.

    Raises
    ------
    OptionError
        For arrivals that are not whole steps of 0 or more.
    """
    arrivals = workload.arrivals
    if (arrivals != np.floor(arrivals)).any() or (arrivals < 0).any():
        raise OptionError("arrivals are whole steps of 0 or more in the model in steps")
    return workload.instance.replace(release=arrivals.astype(np.int64))


def reasoning(n: int, *, seed: int = 0, kv_tokens: int) -> Instance:
    """Draw requests with long answers: log-normal outputs up to 12,000 tokens, short prompts.

    Outputs of median 700 tokens and sigma 1, prompts log-normal of median 100 and sigma 1, at most
    4,096; independent. Derived for this project, to look like a reasoning model's work.
    """
    rng = np.random.default_rng(seed)
    output = np.exp(rng.normal(np.log(REASONING_MEDIAN), REASONING_SIGMA, n))
    prompt = np.exp(rng.normal(np.log(100), 1.0, n))
    return Instance(
        np.clip(np.rint(prompt), 1, 4096).astype(np.int64),
        np.clip(np.rint(output), 1, REASONING_LONGEST).astype(np.int64),
        kv_tokens,
    )


def _mix(n: int, *, seed: int, kv_tokens: int) -> Instance:
    return mix(n, seed=seed, kv_tokens=kv_tokens)


def _pareto(n: int, *, seed: int, kv_tokens: int) -> Instance:
    return heavy_tail(n, seed=seed, kv_tokens=kv_tokens)


LENGTHS: Mapping[str, Callable[..., Instance]] = MappingProxyType(
    {"mix": _mix, "reasoning": reasoning, "pareto": _pareto}
)
"""Kinds of requests by name, each a function (n, *, seed, kv_tokens) -> Instance."""


def drawn(
    kind: str, n: int, rate: float, *, kv_tokens: int, seed: int = 0, name: str = ""
) -> Workload:
    """Draw requests of a kind of :data:`LENGTHS`, Poisson at ``rate`` a second."""
    if kind not in LENGTHS:
        raise OptionError(f"no requests are called {kind!r}; there are {', '.join(LENGTHS)}")
    instance = LENGTHS[kind](n, seed=seed, kv_tokens=kv_tokens)
    # A stream of its own: that of the lengths has the seed itself.
    return Workload(instance, poisson(n, rate, seed=seed + 10**6), name or kind)


def of_trace(
    path: str | Path, rate: float | None = None, *, kv_tokens: int, **reading: Any
) -> Workload:
    """Read a trace with its stamps, stretched in time to ``rate`` requests a second if given.

    ``reading``: options of :func:`sortedf.instances.read.read_trace`.
    """
    instance, seconds = read_trace(path, kv_tokens=kv_tokens, **reading)
    order = np.argsort(seconds, kind="stable")
    times = np.array(seconds)[order]
    workload = Workload(instance.select(order), times, Path(path).stem)
    return workload if rate is None else workload.arriving(stretched(times, rate))


def saturated_rate(instance: Instance, settings: EngineSettings, step_time: StepTimeModel) -> float:
    """Count the requests a second that first come completes while a long backlog waits.

    The instance is the backlog, all there at the start. Counted from a tenth to nine tenths of
    them, where the engine is neither filling nor draining.
    """
    engine = settings.replace(policy=Policy.FCFS, lookahead=1)
    done = np.sort(Replay(instance, engine).run(step_time).completion)
    first, last = len(done) // 10, len(done) * 9 // 10
    if last <= first or done[last] == done[first]:
        raise OptionError("too few requests to tell the saturated rate; take 20 or more")
    return float((last - first) / (done[last] - done[first]))
