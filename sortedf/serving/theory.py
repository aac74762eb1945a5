"""What theory says of online policies, to be held against what they do in the model in steps.

Sources: SVF and 1-bit SVF under Poisson arrivals arXiv 2606.22327; the family of MC-SF's online
figures arXiv 2502.07115. All times are in steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.errors import OptionError, whole_number
from sortedf.model import Instance
from sortedf.orders.one_bit import Proxies, geometric_proxies
from sortedf.serving.arrivals import poisson
from sortedf.serving.served import Served
from sortedf.serving.workloads import Workload, released

MCSF_ONLINE = (1.047, 1.227)
"""Mean and worst ratio of MC-SF to the optimum in hindsight that arXiv 2502.07115 reports."""


@dataclass(frozen=True)
class GeometricLoad:
    """Poisson arrivals of requests whose outputs are geometric: the setting of SVF's theorems.

    Parameters
    ----------
    rate
        Requests a step, above 0.
    mean_prompt
        Tokens, a whole number of at least 1; drawn prompts are uniform on 1..2 mean - 1.
    mean_output
        Tokens, 1 / mu in the paper, above 1.
    kv_tokens
        The KV budget M.

    Raises
    ------
    OptionError
        For a value out of its range.
    """

    rate: float
    mean_prompt: int
    mean_output: float
    kv_tokens: int

    def __post_init__(self) -> None:
        if not 0 < self.rate < np.inf or not 1 < self.mean_output < np.inf:
            raise OptionError(
                f"rate is {self.rate!r} and mean_output {self.mean_output!r}; "
                "they must be above 0 and above 1"
            )
        whole_number("mean_prompt", self.mean_prompt, 1)
        whole_number("kv_tokens", self.kv_tokens, 2 * self.mean_prompt)

    @property
    def mean_volume(self) -> float:
        """E[s o + o (o + 1) / 2] = E[s] / mu + 1 / mu^2, token-steps."""
        return self.mean_prompt * self.mean_output + self.mean_output**2

    @property
    def rho(self) -> float:
        """Load that the theorem speaks of, rate E[v] / (M / 4): a quarter of M is all it counts on.

        The share of the cache that is in use is a quarter of that.
        """
        return 4 * self.rate * self.mean_volume / self.kv_tokens

    def svf_limit(self) -> float:
        """Limit of SVF's expected ratio to the optimum, 1 + 4 / ((1 - mu)(1 - rho)).

        Raises
        ------
        OptionError
            Where there is none: rho >= 1.
        """
        return self._limit(self.rho)

    def one_bit_limit(self, threshold: int, *, printed: bool = True) -> float:
        """Limit of 1-bit SVF: that of SVF with E[v] less a gap in place of E[v].

        ``printed`` takes the gap as the paper prints it, :meth:`printed_gap`, which makes the
        weaker claim; otherwise it is :meth:`proxy_gap`. Errors as :meth:`svf_limit`.
        """
        gap = self.printed_gap(threshold) if printed else self.proxy_gap(threshold)
        return self._limit(self.rho * (1 - gap / self.mean_volume))

    def proxies(self, threshold: int) -> Proxies:
        """Short and long outputs as 1-bit SVF takes them: the means on both sides."""
        return geometric_proxies(self.mean_output, threshold)

    def proxy_gap(self, threshold: int) -> float:
        """E[v] less the mean proxy volume: half of the variance of outputs within the two classes.

        Of the variance (1 - mu) / mu^2 the classes explain threshold^2 q / (1 - q), where
        q = (1 - mu)^threshold. Derived for this project.
        """
        q = self._tail(threshold)
        variance = self.mean_output**2 - self.mean_output
        return (variance - threshold**2 * q / (1 - q)) / 2

    def printed_gap(self, threshold: int) -> float:
        """Give the gap as the paper's first version prints it, (threshold q / (1 - q))^2 / 2.

        At most :meth:`proxy_gap`, and the same for a threshold of 1: this and half of what the
        classes explain add up to half of threshold^2 q / (1 - q)^2, which falls with the threshold,
        and is half of the variance at 1 (derived for this project).
        """
        q = self._tail(threshold)
        return (threshold * q / (1 - q)) ** 2 / 2

    def draw(self, n: int, *, seed: int = 0) -> Workload:
        """Draw requests that come at whole steps; outputs are cut at what the budget leaves."""
        rng = np.random.default_rng(seed)
        prompts = rng.integers(1, 2 * self.mean_prompt, n)
        outputs = rng.geometric(1 / self.mean_output, n)
        outputs = np.minimum(outputs, self.kv_tokens - prompts)
        times = np.floor(poisson(n, self.rate, seed=seed + 10**6))
        return Workload(Instance(prompts, outputs, self.kv_tokens), times, "geometric")

    def _limit(self, rho: float) -> float:
        if rho >= 1:
            raise OptionError(f"rho is {rho:.4g}: the theorem says nothing from 1 on")
        return 1 + 4 / ((1 - 1 / self.mean_output) * (1 - rho))

    def _tail(self, threshold: int) -> float:
        whole_number("threshold", threshold, 1)
        return float((1 - 1 / self.mean_output) ** threshold)


def mcsf_family(seed: int, *, steps: tuple[int, int] = (40, 60)) -> Workload:
    """Draw a trial of MC-SF's online figures.

    M uniform on 30..50, prompts on 1..5, outputs on 1..M - s; as many requests a step as a Poisson
    law of a rate uniform on 0.5..1.5 gives, for a number of steps uniform on ``steps``.
    """
    rng = np.random.default_rng(seed)
    kv_tokens, length = int(rng.integers(30, 51)), int(rng.integers(steps[0], steps[1] + 1))
    comes = np.repeat(np.arange(length), rng.poisson(rng.uniform(0.5, 1.5), length))
    if not len(comes):
        comes = np.zeros(1, np.int64)
    prompts = rng.integers(1, 6, len(comes))
    outputs = rng.integers(1, kv_tokens - prompts + 1)
    return Workload(Instance(prompts, outputs, kv_tokens), comes.astype(np.float64), "synthetic")


def total_latency(served: Served) -> int:
    """Sum of all times from arrival to last token, in whole steps: of the model in steps.

    Raises
    ------
    OptionError
        If it was served in seconds.
    """
    if served.engine != "steps":
        raise OptionError("total latency in steps is of a workload served by engine='steps'")
    instance = released(served.workload)
    return int(served.completion.astype(np.int64).sum()) - int(instance.release.sum())


def competitive_ratio(served: Served, bound: Fraction) -> float:
    """Total latency over a lower bound on that of every schedule: at least the ratio to the best.

    The bound is of schedules without preemption. A policy that evicts and keeps the tokens sampled
    so far is not held by it; one that starts again is. ``bound`` is
    of the workload as :func:`sortedf.serving.workloads.released` gives it, above 0.
    """
    return float(total_latency(served) / bound)
