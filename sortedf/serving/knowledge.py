"""What is known of output lengths when a request arrives: all, some, one bit, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.model import Instance
from sortedf.orders.one_bit import Proxies, burst_proxies

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """Predictions of the outputs of a workload's requests; ``None`` for what is not known.

    Parameters
    ----------
    kind
        ``exact``, ``noisy``, ``interval``, ``one-bit``, ``nothing``, or ``learned``: what
        :mod:`.predictor` predicts, whose bounds are broken now and then.
    predicted
        Output tokens, shape (n,), above 0, not necessarily whole.
    lower, upper
        Bounds on them, shape (n,), tokens.
    parameters
        What it was made with.
    """

    kind: str
    predicted: FloatArray | None = None
    lower: IntArray | None = None
    upper: IntArray | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        values = ", ".join(f"{name} {value:g}" for name, value in self.parameters.items())
        return f"{self.kind} ({values})" if values else self.kind

    @property
    def tokens(self) -> IntArray:
        """The predictions as whole tokens, rounded, at least 1, shape (n,).

        Raises
        ------
        OptionError
            When there are none.
        """
        values: IntArray = np.maximum(np.rint(self.outputs), 1).astype(np.int64)
        return values

    @property
    def outputs(self) -> FloatArray:
        """The predictions; as :attr:`tokens`, but not rounded."""
        if self.predicted is None:
            raise OptionError(f"the policy needs predicted outputs; what is known is {self.kind}")
        return self.predicted

    def bounds(self) -> tuple[IntArray, IntArray]:
        """Lower and upper bounds; both the prediction where it is exact.

        Raises
        ------
        OptionError
            When there are none.
        """
        if self.lower is None or self.upper is None:
            raise OptionError(f"the policy needs bounds on outputs; what is known is {self.kind}")
        return self.lower, self.upper


def exact(instance: Instance) -> Knowledge:
    """Let the outputs themselves be known."""
    o = instance.output_tokens
    return Knowledge(kind="exact", predicted=o.astype(np.float64), lower=o, upper=o)


def noisy(
    instance: Instance, sigma: float, *, longest: int | None = None, seed: int = 0
) -> Knowledge:
    """Let predictions be off by a log-normal factor of median 1; ``sigma`` of its logarithm.

    No prediction is above ``longest``, the most tokens that the service gives. Without such a limit
    an output predicted to fill the cache keeps all others waiting under the future check.
    """
    _at_least_0(sigma=sigma)
    factor = np.exp(sigma * np.random.default_rng(seed).standard_normal(len(instance)))
    most = np.inf if longest is None else float(longest)
    predicted: FloatArray = np.clip(instance.output_tokens * factor, 1.0, most)
    parameters: dict[str, Any] = {"sigma": sigma, "seed": seed}
    if longest is not None:
        parameters["longest"] = longest
    return Knowledge(kind="noisy", predicted=predicted, parameters=parameters)


def interval(instance: Instance, spread: float, *, seed: int = 0) -> Knowledge:
    """Let each output lie in an interval that is about exp(2 spread) times as long as it starts.

    Bounds are o exp(-spread u) and o exp(spread (1 - u)), rounded outward, u uniform on 0..1: what
    a bound says of the output differs from request to request. The upper one is at most M - s, and
    the prediction is their geometric mean.
    """
    _at_least_0(spread=spread)
    o = instance.output_tokens
    u = np.random.default_rng(seed).random(len(o))
    lower = np.maximum(np.floor(o * np.exp(-spread * u)), 1).astype(np.int64)
    room = np.maximum(instance.kv_tokens - instance.prompt_tokens, o)
    upper = np.minimum(np.ceil(o * np.exp(spread * (1 - u))), room).astype(np.int64)
    return Knowledge(
        kind="interval",
        predicted=np.sqrt(lower * upper.astype(np.float64)),
        lower=lower,
        upper=upper,
        parameters={"spread": spread, "seed": seed},
    )


def one_bit(
    instance: Instance,
    proxies: Proxies | None = None,
    *,
    predicted: npt.ArrayLike | None = None,
) -> Knowledge:
    """Let only be known whether an output (or its prediction) is short or long.

    The prediction is the proxy of its class: by default the mean output on each side of the median,
    as a history of requests would tell.
    """
    outputs = np.asarray(instance.output_tokens if predicted is None else predicted, np.float64)
    if proxies is None:
        proxies = class_means(outputs)
    values = np.where(outputs <= proxies.threshold, proxies.short, proxies.long)
    parameters = {"threshold": proxies.threshold, "short": proxies.short, "long": proxies.long}
    return Knowledge(kind="one-bit", predicted=values, parameters=parameters)


def class_means(outputs: FloatArray) -> Proxies:
    """Give the median of some outputs as threshold, and the means on both sides of it."""
    threshold = float(np.median(outputs))
    above = outputs[outputs > threshold]
    short = float(outputs[outputs <= threshold].mean())
    return Proxies(threshold, short, float(above.mean()) if len(above) else short)


def paper_proxies(instance: Instance) -> Proxies:
    """Proxies of the burst theory of SVF; see :func:`sortedf.orders.burst_proxies`."""
    return burst_proxies(instance)


def nothing(instance: Instance) -> Knowledge:
    """Let nothing be known."""
    return Knowledge(kind="nothing")


def _at_least_0(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < np.inf:
            raise OptionError(f"{name} is {value!r}; it must be a number of at least 0")
