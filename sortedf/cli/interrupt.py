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
    Ctrl-C is ignored, it changes nothing.
    """

    def __init__(self) -> None:
        self.pressed = False
        self._before: signal._HANDLER = None

    def __enter__(self) -> Interrupt:
        """Take Ctrl-C over, if it means KeyboardInterrupt now."""
        if (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give Ctrl-C back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Stop once pressed."""
        from sortedf.model import StopReason

        return StopReason.INTERRUPTED if self.pressed else None

    def share(self, iterations: int) -> float:
        """Nothing is used up by waiting for a key."""
        return 0.0

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True
