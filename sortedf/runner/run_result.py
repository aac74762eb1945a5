"""What became of a start of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortedf import __version__
from sortedf.runner.execute import Executed
from sortedf.runner.folder import Counts
from sortedf.runner.run_options import RunOptions

RESULT_SCHEMA = "sortedf.run_result/1"


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What became of a start of a run.

    Attributes
    ----------
    folder
        The run folder; its ``output.jsonl`` holds the answers.
    attempt
        The records of this start.
    counts
        Requests of the whole run, by what became of them.
    done
        What this start did; ``None`` when nothing was left to do.
    prediction
        What was predicted of it before it began; ``None`` without step times.
    """

    folder: Path
    attempt: Path
    options: RunOptions
    counts: Counts
    done: Executed | None
    prediction: Mapping[str, Any] | None

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped."""
        return self.done is not None and self.done.interrupted

    @property
    def died(self) -> str | None:
        """Why the engine died, if it did."""
        return None if self.done is None or self.done.died is None else str(self.done.died)

    @property
    def realized(self) -> dict[str, float | int]:
        """Realized seconds of this start, named as those of a prediction."""
        return {} if self.done is None else self.done.figures()

    @property
    def predicted(self) -> dict[str, float | int] | None:
        """What was predicted of the sequences that were answered; ``None`` without step times."""
        if self.done is None or self.prediction is None:
            return None
        return self.done.predicted_figures(self.prediction)

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain data."""
        return {
            "schema": RESULT_SCHEMA,
            "version": __version__,
            "folder": str(self.folder),
            "attempt": self.attempt.name,
            "engine": self.options.engine,
            "handover": str(self.options.handover),
            "interrupted": self.interrupted,
            "died": self.died,
            **self.counts._asdict(),
            "sequences": 0 if self.done is None else len(self.done.answers),
            "realized": self.realized,
            "predicted": self.predicted,
        }
