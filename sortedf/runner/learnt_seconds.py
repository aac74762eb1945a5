"""What a step takes, learnt as an engine goes, where no calibration is given."""

from __future__ import annotations

from collections import deque

from sortedf.engine.step_time import FloatArray, published
from sortedf.kernels.step_terms import DECODE_TOKENS, PREFILL_TOKENS, STEPS

PRIOR = "qwen3-8b-h100"
"""Published coefficients that serve until enough has been seen."""

FIRST = 50
"""Steps after which what was seen takes their place."""

FORGETS = 0.999
"""Weight of a step against the one after it."""


class LearntSeconds:
    """Seconds of a step and of a token: a line through the steps of late, by least squares.

    Attributes
    ----------
    seconds
        Per unit of each term of a step, shape (TERMS,); changed in place by each step. A token
        costs the same in a prompt and in a decode, and context is not told apart: that is what
        steps can tell whose composition nobody chose.

    Notes
    -----
    A step begins when the one before has ended, or when it is scheduled, if that is later: so it
    is where one step is scheduled while another runs. Derived for this project.
    """

    def __init__(self) -> None:
        self.seconds: FloatArray = published()[PRIOR].seconds
        self._pending: deque[float] = deque()
        # Weights, tokens, seconds, tokens squared, tokens x seconds.
        self._sums = (0.0, 0.0, 0.0, 0.0, 0.0)
        self._seen = 0
        self._last_end = 0.0

    def scheduled(self, now: float, tokens: int) -> None:
        """Note that a step of so many tokens was scheduled."""
        if tokens > 0:
            self._pending.append(now)

    def ended(self, now: float, tokens: int) -> None:
        """Note that the oldest step that was scheduled has ended. O(1)."""
        if tokens == 0 or not self._pending:
            return
        taken = now - max(self._pending.popleft(), self._last_end)
        self._last_end = now
        one, n, y, nn, ny = self._sums
        self._sums = (
            FORGETS * one + 1.0,
            FORGETS * n + tokens,
            FORGETS * y + taken,
            FORGETS * nn + tokens * tokens,
            FORGETS * ny + tokens * taken,
        )
        self._seen += 1
        if self._seen == FIRST:
            self.seconds[:] = 0.0
        if self._seen >= FIRST:
            self._fit()

    def _fit(self) -> None:
        weight, n, y, nn, ny = self._sums
        spread = weight * nn - n * n
        alike = spread <= 1e-9 * weight * nn  # steps of one size: no more than rounding
        token = 0.0 if alike else max((weight * ny - n * y) / spread, 0.0)
        fixed = (y - token * n) / weight
        if fixed < 0:  # all of it is for the tokens
            fixed, token = 0.0, y / n
        self.seconds[STEPS] = fixed
        self.seconds[PREFILL_TOKENS] = self.seconds[DECODE_TOKENS] = token
