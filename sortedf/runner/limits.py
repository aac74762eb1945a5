"""What an engine has for requests that hold blocks, and what one of them is foreseen to need."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Group(NamedTuple):
    """Layers that share blocks: tokens in a block, and most blocks of one request.

    ``most`` is ``None`` where a request holds all its tokens, and a number for sliding windows.
    """

    block_size: int
    most: int | None = None


@dataclass(frozen=True)
class Limits:
    """What an engine has, and how it hands it out.

    Parameters
    ----------
    blocks
        Blocks that requests can get.
    groups
        Groups of layers, each of which takes blocks of its own.
    token_budget
        Most tokens in a step.
    chunk_cap
        Most tokens of one request in a step; 0 for no cap.
    max_model_len
        Most tokens of a request.
    asynchronous
        Whether a request that has ended keeps its blocks for one more call.
    """

    blocks: int
    groups: tuple[Group, ...]
    token_budget: int
    chunk_cap: int
    max_model_len: int
    asynchronous: bool

    def blocks_of(self, slots: Any) -> Any:
        """Blocks for so many slots, an ``int`` or an array."""
        first, *others = [
            blocks if most is None else np.minimum(blocks, most)
            for blocks, most in (((slots + size - 1) // size, most) for size, most in self.groups)
        ]
        return sum(others, first)

    @property
    def longest(self) -> int:
        """Most slots that one request can hold."""
        return bisect_right(range(self.max_model_len), self.blocks, key=self.blocks_of) - 1


class Course(NamedTuple):
    """Slots needed at call k: min(k + shift, foreseen), up to the call ``until``."""

    foreseen: int
    shift: int
    until: int
