"""What waiting requests are ordered by in a live engine: one number each, the least first.

A key is a function of what is known of a request when it arrives. A new policy is one more function
in :data:`KEYS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from sortedf.model.instance import volume_of
from sortedf.orders.one_bit import Proxies, proxy_volume

BEHIND_THE_PLAN = 1 << 60
"""What stands in no plan waits behind all that does."""


class Waiting(NamedTuple):
    """A request as the scheduler knows it on arrival.

    Tokens of its prompt, tokens of its output as predicted, its place in the plan (``None`` if it
    stands in none), the priority that the user gave it (vLLM's: lower first).
    """

    prompt_tokens: int
    output_tokens: int
    place: int | None
    priority: int


Key: TypeAlias = Callable[[Waiting, Proxies], float]


def planned(request: Waiting, proxies: Proxies) -> float:
    """Give its place; whoever has none comes behind, by the user's priority."""
    if request.place is not None:
        return request.place
    return BEHIND_THE_PLAN + request.priority


def volume(request: Waiting, proxies: Proxies) -> float:
    """Give its volume, smallest first: see :func:`sortedf.orders.keys.volume`."""
    return volume_of(request.prompt_tokens, request.output_tokens)


def one_bit_volume(request: Waiting, proxies: Proxies) -> float:
    """Give its volume by a proxy output: see :func:`sortedf.orders.one_bit_volume`."""
    return float(proxy_volume(request.prompt_tokens, request.output_tokens, proxies))


def output(request: Waiting, proxies: Proxies) -> float:
    """Give its predicted output, shortest first."""
    return request.output_tokens


KEYS: dict[str, Key] = {
    "planned": planned,
    "svf": volume,
    "svf-1bit": one_bit_volume,
    "mcsf": output,
}

BOOSTED = ("uniboost", "uniboost-guard")
"""Names of orders that change with service: see :mod:`sortedf.runner.boost`."""

FCFS = "fcfs"
"""Name of vLLM's own order by arrival, which is no key."""

ENGINE = "engine"
"""Name of the order that vLLM is configured to, which is no key."""


def foreseen_output(policy: str, output_tokens: int, proxies: Proxies) -> int:
    """Give the output that room is kept for, tokens: on one bit, the proxy of its side."""
    if policy != "svf-1bit":
        return output_tokens
    proxy = proxies.short if output_tokens <= proxies.threshold else proxies.long
    return max(round(proxy), 1)
