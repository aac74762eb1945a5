"""The keys of a config.json under all the names that model families give them."""

from __future__ import annotations

from collections.abc import Mapping

from sortedf.errors import Fault, InputError

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads")
HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
HEAD_DIM = ("head_dim", "kv_channels", "hidden_size_per_head", "attention_head_dim")
KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "num_attention_groups")
"""The names of each quantity; a name that is absent or null is passed over."""

MOST = 10_000_000
"""No count in a config.json is larger; what is, is a slip."""


class Keys:
    """One object of a config.json, read by aliases; faults are collected, ``close`` raises them.

    A faulty or missing value is stood in for by 1, which is never used, as ``close`` comes first.

    Parameters
    ----------
    config
        The object.
    source
        The file, for messages.
    place
        The way to the object in messages: empty, or like ``text_config.``.
    """

    def __init__(self, config: Mapping[str, object], source: str, place: str = "") -> None:
        self.config = config
        self.source = source
        self.place = place
        self.faults: list[Fault] = []

    def inside(self, name: str, part: Mapping[str, object]) -> Keys:
        """Look at an object within this one; its faults are collected here."""
        inner = Keys(part, self.source, f"{self.place}{name}.")
        inner.faults = self.faults
        return inner

    def fault(self, message: str) -> None:
        """Note what is wrong and what to do."""
        self.faults.append(Fault(self.source, None, message))

    def close(self) -> None:
        """Raise what was collected, if anything.

        Raises
        ------
        InputError
            When there are faults.
        """
        if self.faults:
            raise InputError(self.faults)

    def have(self, names: tuple[str, ...]) -> bool:
        """Whether one of the names is there, be its value null."""
        return any(name in self.config for name in names)

    def count(
        self, names: tuple[str, ...], default: int | None = None, *, zero_is_none: bool = False
    ) -> int:
        """Return the one count that the aliases give.

        Parameters
        ----------
        names
            The aliases.
        default
            What to return when none of them gives a value; ``None`` makes that a fault.
        zero_is_none
            Whether 0 says the same as null.
        """
        values: dict[str, int] = {}
        for name in names:
            value = self.config.get(name)
            if value is None or (zero_is_none and type(value) is int and value == 0):
                continue
            if type(value) is not int or not 1 <= value <= MOST:
                self.fault(_not_a_count(self.place + name, value))
                return 1
            values[name] = value
        if len(set(values.values())) > 1:
            said = " but ".join(f"{self.place}{name} {value}" for name, value in values.items())
            self.fault(f"has {said}, which should be the same; keep the right one")
        if values:
            return next(iter(values.values()))
        if default is None:
            self.fault(f"has no {self.place}{names[0]}; write it into the file")
            return 1
        return default


def _not_a_count(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"has a {name} that differs from layer to layer; such a model is not supported"
    shown = repr(value)
    if len(shown) > 40:
        shown = shown[:40] + "..."
    return f"has {name} {shown}; it must be a whole number from 1 to {MOST}"
