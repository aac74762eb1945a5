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


KEYS: dict[str, Key] = {"planned": planned, "svf": volume, "svf-1bit": one_bit_volume}

ENGINE = "engine"
"""Name of the engine's own order, which is no key."""
