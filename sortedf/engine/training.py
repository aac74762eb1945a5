"""Which times of a run a calibration may look at, and how far a replay is from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sortedf.engine.replaying import Replay, Replayed
from sortedf.engine.run_folder import Run
from sortedf.engine.settings import EngineSettings
from sortedf.errors import OptionError

FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

HORIZON = 1.25
"""A replay of the training part is broken off at so many times its end: later is late enough."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """The part of a run that may be looked at; masks of shape (n,).

    Arrivals and lengths of all requests are known: they are what a prediction is asked for.

    Parameters
    ----------
    run
        The whole run.
    admitted, first, last
        Requests whose admission, first and last token is known.
    late
        Requests that had arrived before ``end``: what is not known of them came after it.
    end
        Seconds; nothing of the run after it is known.
    name
        The part in words.
    """

    run: Run
    admitted: BoolArray
    first: BoolArray
    last: BoolArray
    late: BoolArray
    end: float
    name: str

    @property
    def times(self) -> int:
        """How many times are known."""
        return int(self.admitted.sum() + self.first.sum() + self.last.sum())

    @property
    def completed(self) -> int:
        """Requests seen from arrival to last token."""
        return int(self.last.sum())

    def replay(self, settings: EngineSettings) -> Replay:
        """Prepare the replay of what comes before the end, broken off some time after it."""
        limit = HORIZON * self.end
        present = np.flatnonzero(self.run.arrivals <= limit)
        arrivals = self.run.arrivals[present]
        return Replay(
            self.run.instance.select(present),
            settings,
            arrivals=arrivals,
            aborts=np.full(len(present), limit),
        )

    def error(self, replayed: Replayed) -> float:
        """Mean absolute error in seconds over the known times.

        What is known to be late counts by as much as it came before the end, and what the replay
        did not come to before it was broken off counts as coming then.
        """
        return float(np.abs(self.errors(replayed)).sum() / self.times)

    def errors(self, replayed: Replayed) -> FloatArray:
        """Replayed less known time in seconds: admissions, first tokens, last tokens."""
        limit = HORIZON * self.end
        present = self.run.arrivals <= limit
        parts = []
        for predicted, known, mask in (
            (replayed.admitted, self.run.admitted, self.admitted),
            (replayed.first_token, self.run.first_token, self.first),
            (replayed.completion, self.run.last_token, self.last),
        ):
            times = np.full(len(known), limit)
            times[present] = np.where(np.isnan(predicted), limit, predicted)
            late = self.late & ~mask
            parts += [times[mask] - known[mask], np.minimum(times[late] - self.end, 0.0)]
        return np.concatenate(parts)


def training_part(run: Run, part: str) -> Training:
    """Choose the training part of a run by its name.

    Parameters
    ----------
    part
        ``all``; ``half``, the requests that arrived first; or a share in (0, 1): only what was seen
        before this share of the makespan.

    Raises
    ------
    OptionError
        For another name, or where nothing is known of the part.
    """
    n = len(run.instance)
    if part in ("all", "half"):
        count = n if part == "all" else n // 2
        if count == 0:
            raise OptionError("half of one request is none; train on all of the run")
        return first_arrivals(run, np.arange(n), count)
    try:
        share = float(part)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise OptionError(
            f"the training part is {part!r}; it must be all, half or a share in (0, 1)"
        )
    return before(run, share)


def first_arrivals(run: Run, among: npt.NDArray[np.int64], count: int) -> Training:
    """Train on all times of the requests that arrived first among some of them."""
    n = len(run.instance)
    order = among[np.argsort(run.arrivals[among], kind="stable")]
    known = np.zeros(n, bool)
    known[order[:count]] = True
    return Training(
        run=run,
        admitted=known,
        first=known,
        last=known,
        late=np.zeros(n, bool),
        end=float(run.last_token[known].max()),
        name=f"the first {count} of {n} arrivals" if count < n else f"all {n} requests",
    )


def before(run: Run, share: float) -> Training:
    """Train on what was seen before a share of the makespan, unfinished requests included."""
    end = share * run.makespan
    first = run.first_token < end
    if not first.any():
        raise OptionError(f"no token came before {share:g} of the makespan ({end:.3f} s)")
    return Training(
        run=run,
        admitted=run.admitted < end,
        first=first,
        last=run.last_token < end,
        late=run.arrivals < end,
        end=end,
        name=f"what was seen before {share:.0%} of the makespan",
    )


def parts(training: Training) -> list[Training]:
    """Give the parts of a training part that a fit can be tried on: what is left tests it.

    The earlier half and the later half of its requests; of what was seen before a moment only what
    was seen before half of it, because what comes later rests on what came before.
    """
    run = training.run
    if training.late.any():
        share = training.end / 2 / run.makespan
        return [before(run, share)] if (run.first_token < share * run.makespan).any() else []
    known = np.flatnonzero(training.last)
    by_arrival = known[np.argsort(run.arrivals[known], kind="stable")]
    halves = (by_arrival[: len(known) // 2], by_arrival[len(known) // 2 :])
    return [first_arrivals(run, half, len(half)) for half in halves if len(half)]
