"""What is known of the least total latency of an instance: the optimum, or bounds on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sortedf.errors import OptionError
from sortedf.instances import new_certificate
from sortedf.kernels.exhaustive import search
from sortedf.lp.ascent import ascend
from sortedf.lp.bounds import Bound
from sortedf.lp.prices import Prices
from sortedf.model import Instance, Schedule
from sortedf.solvers.check import certified_bound
from sortedf.solvers.front import verified_latency
from sortedf.solvers.in_order import shortest_of_orders

MOST_REQUESTS = 8
MOST_NODES = 5_000_000
"""Requests and nodes up to which the optimum is searched for; a second at most."""

FEW, MANY = 20, 150
"""Iterations of the prices beside a known optimum, and where they are all that is known."""


def least_schedule(instance: Instance, *, most_nodes: int = MOST_NODES) -> Schedule | None:
    """Find a schedule of least total latency by a search through all of them.

    See :mod:`sortedf.kernels.exhaustive` for why nothing is missed. ``None`` if so many nodes do
    not suffice.

    Raises
    ------
    OptionError
        With releases, or over ``MOST_REQUESTS`` requests.
    """
    if len(instance) > MOST_REQUESTS or instance.release.any():
        raise OptionError(f"the full search takes up to {MOST_REQUESTS} requests released at 0")
    starts = np.empty(len(instance), np.int64)
    # More memory than all requests together fill changes nothing, and keeps sums in int64.
    needed = int((instance.prompt_tokens + instance.output_tokens).sum())
    value, _ = search(
        instance.prompt_tokens,
        instance.output_tokens,
        min(instance.kv_tokens, needed),
        most_nodes,
        starts,
    )
    return None if value < 0 else Schedule(starts)


@dataclass(frozen=True)
class Known:
    """An instance and what is proved of its optimum.

    Parameters
    ----------
    instance
        The instance; all released at 0, each request fits alone.
    lower, upper
        No schedule has a total latency below ``lower``; a verified one has ``upper``.
    prices
        Prices, whose bound is at most the optimum, if what is known of them is right.
    """

    instance: Instance
    lower: Fraction
    upper: int
    prices: Prices

    @property
    def solved(self) -> bool:
        """Whether the optimum is known."""
        return self.lower == self.upper


def know(instance: Instance, *, most_nodes: int = MOST_NODES) -> Known:
    """Find the optimum of up to ``MOST_REQUESTS`` requests, of more bounds on both sides.

    The lower bound is by prices alone, and is what :mod:`sortedf.certificate` finds, which shares
    no code with what is checked here; so, too, where the search is cut off. The optimum rests on
    the full search; its schedule is verified.

    Raises
    ------
    VerificationError
        If a schedule is refused, or the checker does not find the bound of the prices.
    """
    schedule = None
    if len(instance) <= MOST_REQUESTS:
        schedule = least_schedule(instance, most_nodes=most_nodes)
    if schedule is not None:
        optimum = verified_latency(instance, schedule)
        prices, _ = ascend(instance, iterations=FEW, start=schedule)
        return Known(instance, Fraction(optimum), optimum, prices)
    _, schedule = shortest_of_orders(instance)
    prices, value = ascend(instance, iterations=MANY, start=schedule)
    certificate = new_certificate(instance, Bound(value, "prices", prices))
    bound = certified_bound(instance, certificate, "the certificate")
    return Known(instance, bound, verified_latency(instance, schedule), prices)
