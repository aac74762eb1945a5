"""The twin of an engine whose steps are seen to end: it begins none before the one before has."""

from __future__ import annotations

import math
from typing import Any

from sortedf.kernels.replay_state import TOKENS
from sortedf.routing.live import LiveEngine

PATIENCE = 1.0
"""Of its own length, for which a step is waited for that should have ended."""


class FollowingEngine(LiveEngine):
    """A live engine that is told of the ends of its steps.

    Steps of the real engine take longer or shorter than they were calibrated to. A twin that goes
    by its own clock is soon steps ahead, or behind; this one begins a step when the one before was
    seen to end. A step that samples no token, and one that is overdue by PATIENCE, ends by itself.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unseen = False  # the end of the step that the next call waits for
        self._due = -math.inf
        self._took = 0.0
        self._tokens = 0

    def advance(self, until: float) -> None:
        """Drive the engine until its next call is at ``until`` (seconds) or later."""
        moments = self._progress.moments
        if self.n_present == 0:
            self._unseen, self._tokens = False, 0
        while self.n_present > 0 and moments[0] < until:
            call = float(moments[0])
            if self._unseen and until <= self._due + PATIENCE * self._took:
                moments += until - call  # it may end at any moment now
                break
            free = max(call, float(moments[1]))
            super().advance(math.nextafter(call, math.inf))
            before, self._tokens = self._tokens, int(self._engine.counts[TOKENS])
            self._unseen = (before if self.settings.async_scheduling else self._tokens) > 0
            self._due, self._took = float(moments[0]), float(moments[1]) - free
        super().advance(until)

    def note_step_end(self) -> None:
        """Let the step that the next call waits for have ended now."""
        moments = self._progress.moments
        moments += self.now - moments[0]
        self._unseen = False
