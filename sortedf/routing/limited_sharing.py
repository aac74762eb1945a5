"""The average case: an instance as a server that is shared by a limited number of requests.

Where nothing is known of an instance but how often requests come to it, a queue tells what to
expect: at most k requests share the server (those that fit into its KV cache), the others wait,
first come, first served.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sortedf.errors import OptionError


class SaturatedError(OptionError):
    """More arrives than is served: there is no average case."""


@dataclass(frozen=True, kw_only=True)
class LimitedSharing:
    """A server shared by at most ``sharers`` requests; Poisson arrivals, exponential work.

    Parameters
    ----------
    arrival_rate, service_rate
        Requests a second: alpha that come, mu that the server completes while it is busy.
    sharers
        k, at least 1.

    Raises
    ------
    SaturatedError
        When alpha is not below mu.
    """

    arrival_rate: float
    service_rate: float
    sharers: int

    def __post_init__(self) -> None:
        alpha, mu = self.arrival_rate, self.service_rate
        if not 0 <= alpha < math.inf or not 0 < mu < math.inf:
            raise OptionError(
                f"arrival_rate is {alpha!r} and service_rate {mu!r}; give requests a second, "
                "service_rate above 0"
            )
        if type(self.sharers) is not int or self.sharers < 1:
            raise OptionError(f"sharers is {self.sharers!r}; it must be a whole number from 1 on")
        if alpha >= mu:
            raise SaturatedError(
                f"{alpha:g} requests a second arrive and {mu:g} are served: the queue grows "
                "without end and has no average; send fewer, or estimate by the replay ahead"
            )

    @property
    def wait(self) -> float:
        """Mean seconds until a request is served: (alpha / mu)^k / (mu - alpha).

        arXiv 2607.18253. The number of requests there is that of the M/M/1 queue, whatever k is,
        so that on average rho^(k+1) / (1 - rho) of them wait; Little's law gives the rest.
        """
        rho = self.arrival_rate / self.service_rate
        return rho**self.sharers / (self.service_rate - self.arrival_rate)

    def ttft(self, prompt_tokens: int, prefill_rate: float, decode_seconds: float = 0.0) -> float:
        """Mean seconds to the first token: the wait, the prompt, and a decode step.

        ``prefill_rate`` is in tokens a second.
        """
        if not prefill_rate > 0:
            raise OptionError(f"prefill_rate is {prefill_rate!r}; give tokens a second, above 0")
        return self.wait + prompt_tokens / prefill_rate + decode_seconds
