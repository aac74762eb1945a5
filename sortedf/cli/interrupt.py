"""Ctrl-C as a wish to stop, so that what was found is kept."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction
    from types import FrameType, TracebackType

    from sortedf.model import StopReason


class Interrupt:
    """While entered, the first Ctrl-C sets ``pressed``; a second one is KeyboardInterrupt.

    It is a stop criterion, for work that asks now and then. Outside the main thread, and where
    Ctrl-C is ignored, it changes nothing. Other signals may be taken so too; a second one is then
    what it was before.
    """

    def __init__(self, *signals: int) -> None:
        self.signal = 0
        self._signals = signals or (signal.SIGINT,)
        self._before: dict[int, signal._HANDLER] = {}

    @property
    def pressed(self) -> bool:
        """Whether a signal came."""
        return self.signal != 0

    def __enter__(self) -> Interrupt:
        """Take the signals over, where they would end the program now."""
        if threading.current_thread() is threading.main_thread():
            for number in self._signals:
                now = signal.getsignal(number)
                if callable(now) if number != signal.SIGINT else now is signal.default_int_handler:
                    self._before[number] = signal.signal(number, self._press)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        while self._before:
            signal.signal(*self._before.popitem())

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Stop once pressed."""
        from sortedf.model import StopReason

        return StopReason.INTERRUPTED if self.pressed else None

    def share(self, iterations: int) -> float:
        """Nothing is used up by waiting for a key."""
        return 0.0

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            before = self._before.get(number)
            assert callable(before)
            before(number, frame)
        self.signal = number
