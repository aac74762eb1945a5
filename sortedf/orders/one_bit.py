"""1-bit volume [2]: of each output only one bit is known, short or long."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sortedf.errors import OptionError
from sortedf.model import Instance
from sortedf.model.instance import IntArray


class Proxies(NamedTuple):
    """Outputs up to ``threshold`` count as ``short`` tokens, longer ones as ``long``."""

    threshold: float
    short: float
    long: float

    @classmethod
    def burst(cls, largest: float) -> Proxies:
        """Threshold and proxies of [2]'s burst theory, ``largest`` the largest s + o.

        threshold = T^(1/2), short = T^(1/4), long = T^(3/4); with these the ratio is O(T).
        """
        return cls(math.sqrt(largest), largest**0.25, largest**0.75)

    def checked(self) -> Proxies:
        """Return itself.

        Raises
        ------
        OptionError
            If the proxies are not positive, finite, and short <= long.
        """
        threshold, short, long = self
        if not (0 < short <= long < math.inf and 0 <= threshold < math.inf):
            raise OptionError(
                "1-bit volume needs a threshold of at least 0 and proxies 0 < short <= long, not "
                f"{threshold:g}, {short:g} and {long:g}"
            )
        return self


def burst_proxies(instance: Instance) -> Proxies:
    """Threshold and proxies of [2]'s burst theory for an instance; see :meth:`Proxies.burst`."""
    return Proxies.burst(int((instance.prompt_tokens + instance.output_tokens).max()))


def geometric_proxies(mean_output: float, threshold: float) -> Proxies:
    """Proxies of [2]'s Poisson theory: the mean output on each side of the threshold.

    Outputs are geometric with mean 1 / mu (tokens): with q = (1 - mu)^threshold,
    short = 1 / mu - threshold q / (1 - q), long = threshold + 1 / mu.

    Raises
    ------
    OptionError
        Unless mean_output > 1 and threshold >= 1.
    """
    if not (mean_output > 1 and threshold >= 1):
        raise OptionError(
            f"geometric proxies need a mean output over 1 and a threshold of at least 1 token, "
            f"not {mean_output} and {threshold}"
        )
    tail = (1 - 1 / mean_output) ** threshold
    return Proxies(threshold, mean_output - threshold * tail / (1 - tail), threshold + mean_output)


def one_bit_volume(instance: Instance, *, proxies: Proxies | None = None) -> IntArray:
    """Rank by the volume that a request would have with its proxy output O: s O + (O^2 + O) / 2.

    ``proxies`` are those of the burst theory when left out. Ratio O(T), T the largest s + o [2].

    Raises
    ------
    OptionError
        If the proxies are not positive, finite, and short <= long.
    """
    proxies = burst_proxies(instance) if proxies is None else proxies.checked()
    ranks = proxy_volume(instance.prompt_tokens, instance.output_tokens, proxies)
    return np.argsort(ranks, kind="stable")


def proxy_volume(
    prompt_tokens: npt.ArrayLike, output_tokens: npt.ArrayLike, proxies: Proxies
) -> npt.NDArray[np.float64]:
    """Volume with the proxy O of each output: s O + (O^2 + O) / 2, token-steps."""
    output = np.where(np.asarray(output_tokens) <= proxies.threshold, proxies.short, proxies.long)
    result: npt.NDArray[np.float64] = (
        np.asarray(prompt_tokens) * output + (output * output + output) / 2
    )
    return result
