"""Runs a function in a process of its own, with a limit on its time and its memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

IMPORTS = 120.0
"""Seconds that the new process may take until it begins."""

Send = Callable[[dict[str, Any]], None]
"""Tells the parent something while the function runs."""


def run_guarded(
    function: Callable[..., dict[str, Any]], *arguments: Any, seconds: float, memory: int
) -> dict[str, Any]:
    """Call ``function(send, *arguments)`` and return all that it sent and what it returned.

    The function must be importable by name. It gets ``seconds`` of wall time from where it begins,
    and ``memory`` bytes of its own data. Added to what it says: ``wall_seconds``, ``cpu_seconds``
    and ``peak_bytes`` (all of them only if it came to an end), and ``failure``, a line on how it
    ended if it did not.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_child, args=(sender, memory, function, arguments), daemon=True
    )
    process.start()
    sender.close()
    said: dict[str, Any] = {}
    deadline = time.monotonic() + IMPORTS
    begun = False
    while receiver.poll(max(0.0, deadline - time.monotonic())):
        try:
            said |= receiver.recv()
        except EOFError:
            process.join()
            break
        if not begun:
            begun = True
            deadline = time.monotonic() + seconds
    else:
        process.kill()
        process.join()
        return said | {"failure": f"killed after {seconds if begun else IMPORTS:g} s"}
    if process.exitcode:
        code = process.exitcode
        how = signal.Signals(-code).name if code < 0 else f"exit {code}"
        said |= {"failure": f"died ({how}) with {memory / 2**30:.3g} GiB allowed"}
    return said


def _child(
    sender: Connection,
    memory: int,
    function: Callable[..., dict[str, Any]],
    arguments: tuple[Any, ...],
) -> None:
    os.dup2(2, 1)  # solvers print banners; stdout is the parent's
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sender.send({})
    begin, begin_cpu = time.perf_counter(), time.process_time()
    try:
        said = function(sender.send, *arguments)
    except MemoryError:
        said = {"failure": f"out of memory with {memory / 2**30:.3g} GiB allowed"}
    except Exception as error:
        traceback.print_exc()
        said = {"error": f"{type(error).__name__}: {error}"}
    sender.send(
        {
            "wall_seconds": time.perf_counter() - begin,
            "cpu_seconds": time.process_time() - begin_cpu,
            "peak_bytes": _peak_bytes(),
        }
        | said
    )


def _peak_bytes() -> int | None:
    """Most memory that this process had so far; ru_maxrss would begin with the parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = (line.split() for line in status.read_text().splitlines())
    return next(1024 * int(words[1]) for words in lines if words[0] == "VmHWM:")
