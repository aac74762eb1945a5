"""The engine's process and this one: each learns of the other's end."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """End this process as soon as the one that started it has ended.

    vLLM's engine goes on for ever when its client is killed, and keeps the memory of the device.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, name="end with parent", daemon=True).start()


def when_ended(sentinels: Iterable[int], tell: Callable[[], None]) -> None:
    """Call ``tell``, from a thread, as soon as one of some processes has ended.

    Parameters
    ----------
    sentinels
        Of ``multiprocessing`` processes.
    """
    waited = list(sentinels)

    def follow() -> None:
        wait(waited)
        tell()

    threading.Thread(target=follow, name="engine ended", daemon=True).start()
