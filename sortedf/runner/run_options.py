"""What a run is begun with, and what of it a resumed run remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from sortedf.engine.step_time import published
from sortedf.runner.engines import Handover

PASSING = ("pace", "warm_up")
"""Not remembered: they change no answer."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The engine of a run, and how it is to answer.

    Parameters
    ----------
    engine
        ``replay``, ``vllm`` or ``transformers``.
    model
        Folder of the model; the replay needs none.
    tokenizer
        Folder or file of the tokenizer; ``None`` for the model's.
    handover
        How the engine gets the plan, see :class:`sortedf.runner.engines.Handover`.
    served_model_name
        What the bodies call the model; ``()`` for the path and the name of its folder.
    any_model
        Answer whatever model a body names.
    random_prompts
        Without a batch: random prompts, outputs of exactly the planned lengths.
    output_error
        Without a batch: outputs that are by this share longer or shorter than planned, at random.
    seed
        Of random prompts and outputs, and of the engine.
    settings
        Names and values of :class:`sortedf.engine.EngineSettings`; ``version`` by its name. What is
        left out is the plan's, or the engine's default.
    engine_arguments
        Other arguments of the engine, by its own names (``dtype``, ``load_format``, ...).
    steptime
        Step times to predict the run by: a file or the name of a packaged set.
    pace
        Of the replay: how many times as fast as the engine would be; ``None`` for at once.
    warm_up
        Whether the engine first does requests that are thrown away; ``None`` for where the run is
        predicted.
    """

    engine: str = "replay"
    model: str | None = None
    tokenizer: str | None = None
    handover: str = Handover.PLANNED
    served_model_name: Sequence[str] = ()
    any_model: bool = False
    random_prompts: bool = False
    output_error: float | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    engine_arguments: Mapping[str, Any] = field(default_factory=dict)
    steptime: str | None = None
    pace: float | None = None
    warm_up: bool | None = None

    @classmethod
    def remembered(cls, manifest: Mapping[str, Any]) -> Self:
        """Give the options that a run was begun with, from its manifest."""
        names = {option.name for option in fields(cls)}
        return cls(**{name: value for name, value in manifest.items() if name in names})

    def settled(self) -> Self:
        """Give the same as it is found again from another folder; bodies call the model as before.

        What does not exist stays as it is, to be told of by that name; so do packaged step times.
        """
        steptime = self.steptime if self.steptime in published() else found_again(self.steptime)
        return replace(
            self,
            model=found_again(self.model),
            tokenizer=found_again(self.tokenizer),
            steptime=steptime,
            served_model_name=self.names,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give what is remembered as values of JSON."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        for name in PASSING:
            del values[name]
        return values | {
            "handover": str(self.handover),
            "served_model_name": list(self.served_model_name),
            "settings": dict(self.settings),
            "engine_arguments": dict(self.engine_arguments),
        }

    @property
    def names(self) -> list[str]:
        """What bodies may call the model; empty where there is no model."""
        if self.served_model_name:
            return list(self.served_model_name)
        if self.model is None:
            return []
        return list(dict.fromkeys([self.model, Path(self.model).resolve().name]))

    @property
    def warms_up(self) -> bool:
        """Whether the engine is warmed up; the replay has no need."""
        wanted = self.steptime is not None if self.warm_up is None else self.warm_up
        return wanted and self.engine != "replay"


def found_again(path: str | None) -> str | None:
    """Give a path as it is found again from another folder, if there is such a file or folder."""
    return path if path is None or not Path(path).exists() else str(Path(path).resolve())
