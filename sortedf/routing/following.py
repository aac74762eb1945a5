"""The twin of an engine whose steps are seen to end: it keeps step, and learns their speed."""

from __future__ import annotations

import math
from typing import Any

from sortedf.kernels.replay_state import TOKENS
from sortedf.routing.live import LiveEngine

PATIENCE = 1.0
"""Of its own length, for which a step is waited for that should have ended."""

KEPT = 0.95
"""What a step counts of the one after it, in what is learnt of their speed."""

CREDIT = 10
"""Steps for which the calibration counts at the beginning."""

FARTHEST = 2.0
"""A step counts as at most so many times as long as it was to be, or as short."""


class FollowingEngine(LiveEngine):
    """A live engine that is told of the ends of its steps.

    Steps of the real engine take longer or shorter than they were calibrated to. A twin that goes
    by its own clock is soon steps ahead, or behind; this one begins a step when the one before was
    seen to end. A step that samples no token, and one that is overdue by PATIENCE, ends by itself.
    By how much steps of late took longer than calibrated, so much longer are those to come. Derived
    for this project.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._calibrated = self._seconds
        self._unseen = False  # the end of the step that the next call waits for
        self._due = -math.inf
        self._took = 0.0
        self._tokens = 0
        self._since: float | None = None  # the end that was seen last, or the begin of work
        self._expected = 0.0  # calibrated seconds of the steps since
        self._seen_sum = self._expected_sum = 0.0

    @property
    def slowness(self) -> float:
        """Seconds of the steps of late over calibrated ones."""
        return self._seen_sum / self._expected_sum if self._expected_sum > 0 else 1.0

    def advance(self, until: float) -> None:
        """Drive the engine until its next call is at ``until`` (seconds) or later."""
        moments = self._progress.moments
        if self.n_present == 0:
            self._unseen, self._tokens, self._since = False, 0, None
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
            if self._since is None:
                self._since, self._expected = call, 0.0
            self._expected += self._took / self.slowness
        super().advance(until)

    def note_step_end(self) -> None:
        """Let the step that the next call waits for have ended now."""
        moments = self._progress.moments
        moments += self.now - moments[0]
        self._unseen = False
        if self._since is None or self.now <= self._since or self._expected <= 0:
            return
        if self._expected_sum == 0:
            self._seen_sum = self._expected_sum = CREDIT * self._expected
        seen = min(
            max(self.now - self._since, self._expected / FARTHEST), self._expected * FARTHEST
        )
        self._seen_sum = KEPT * self._seen_sum + seen
        self._expected_sum = KEPT * self._expected_sum + self._expected
        self._seconds = self._calibrated * self.slowness
        self._since, self._expected = self.now, 0.0
