"""The engine's side of a policy: what a comparison of policies hides unless it is said."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sortedf.errors import OptionError

WATERMARK = 0.03
"""Of policies that have one: of 1 to 5 %, none is much better or worse on all workloads."""


class Eviction(StrEnum):
    """What an evicted request keeps."""

    RECOMPUTE = "recompute"
    SWAP = "swap"
    RESTART = "restart"


class Victim(StrEnum):
    """Who is evicted when blocks run out."""

    TAIL = "tail"
    WORST = "worst"
    LEAST = "least"


_NEEDING = ("swap_seconds", "hysteresis", "lookahead")
"""Options that change something only together with another."""


@dataclass(frozen=True, kw_only=True)
class EngineSide:
    """How the engine carries a policy out. Frozen; printed with every result.

    Parameters
    ----------
    eviction
        ``recompute``: sampled tokens are kept, the KV of all known ones is computed again (vLLM).
        ``swap``: the KV moves out and back, in ``swap_seconds`` a token each way. ``restart``:
        output tokens are sampled again as well.
    displaces
        Whether the head of the waiting queue may evict running requests of worse score to make
        room; at most one head a step. Otherwise only running requests that grow evict.
    hysteresis
        How much worse the score of an evicted request must then be, in the unit of the score.
    victim
        Who goes when blocks run out: the ``tail`` of running (the last admitted), the request of
        ``worst`` score, that of ``least``. Protected requests go last.
    watermark
        Share of the blocks that an admission beside running requests leaves free.
    future
        Whether an admission needs room for the predicted outputs of all that run and its own until
        they have ended (the engine's ``planned``).
    lookahead
        With ``future``: how many requests that do not fit end the admissions of a step.
    swap_seconds
        For each token moved, one way; 0 is free.

    Raises
    ------
    OptionError
        For a value out of its range.
    """

    eviction: Eviction | str = Eviction.RECOMPUTE
    displaces: bool = False
    hysteresis: float = 0.0
    victim: Victim | str = Victim.WORST
    watermark: float = 0.0
    future: bool = False
    lookahead: int = 1
    swap_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("eviction", Eviction), ("victim", Victim)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, kind(value))
            except ValueError:
                raise OptionError(
                    f"{name} is {value!r}; it must be one of {', '.join(kind)}"
                ) from None
        if self.displaces and self.victim == Victim.LEAST:
            raise OptionError("who is least first of all victims cannot be displaced for its score")
        for name in ("hysteresis", "swap_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise OptionError(f"{name} is {getattr(self, name)!r}; it must be at least 0")

    def __str__(self) -> str:
        evicted = str(self.eviction)
        if self.swap_seconds and self.eviction == Eviction.SWAP:
            evicted += f" at {self.swap_seconds:g} s a token"
        waiting = "waiting evicts nobody"
        if self.displaces:
            waiting = f"waiting evicts running, hysteresis {self.hysteresis:g}"
        future = "future check" if self.future else "no future check"
        if self.lookahead > 1:
            future += f", lookahead {self.lookahead}"
        return (
            f"{evicted}; {waiting}; victim {self.victim}; "
            f"watermark {100 * self.watermark:g} %; {future}"
        )

    def idle(self, name: str) -> str | None:
        """Say what an option would need to change anything, if it changes nothing here."""
        if (
            name not in _NEEDING
            or getattr(self, name) == type(self).__dataclass_fields__[name].default
        ):
            return None
        if name == "swap_seconds" and self.eviction != Eviction.SWAP:
            return "eviction swap"
        if name == "hysteresis" and not self.displaces:
            return "that waiting requests may evict (displaces)"
        if name == "lookahead" and not self.future:
            return "the future check (future)"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {name: str(v) if isinstance(v, StrEnum) else v for name, v in asdict(self).items()}
