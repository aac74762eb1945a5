"""One process at a time works on a run folder."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import weakref
from pathlib import Path

from sortedf.errors import Fault, InputError

_BUSY = (errno.EWOULDBLOCK, errno.EACCES)


class FolderLock:
    """A lock on a file, held until it is released or the process ends, however it ends.

    The kernel holds it (``flock``), so a dead process leaves none behind. Programs that are started
    do not inherit it, and processes that are forked let go of it at once: an engine that outlives
    the process that started it does not keep the folder locked.

    Raises
    ------
    InputError
        When another process, or this one, holds it; when the file cannot be made or its file system
        has no locks.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            text = f"cannot be written: {error.strerror or error}"
            raise InputError([Fault(str(path), None, text)]) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(self._fd, path):  # who held it has removed it meanwhile
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
            # For the message of a process that is refused; nothing depends on it.
            os.ftruncate(self._fd, 0)
            os.write(self._fd, f"{os.getpid()} {socket.gethostname()}\n".encode())
        except OSError as error:
            text = self._why(error)
            self.release()
            raise InputError([Fault(str(path), None, text)]) from None
        _held.add(self)

    def _why(self, error: OSError) -> str:
        if error.errno not in _BUSY:
            reason = error.strerror or error
            return f"cannot be locked: {reason}; put the run folder on a disk that can lock files"
        process, _, host = (
            os.pread(self._fd, 300, 0).decode(errors="replace").strip().partition(" ")
        )
        who = f"process {process}" if process.isdigit() else "another process"
        where = f" on {host}" if host and host != socket.gethostname() else ""
        return f"{who}{where} is at work on this folder; wait for its end or stop it"

    def release(self) -> None:
        """Let go of it; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _is_at(descriptor: int, path: str | Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), Path(path).stat())
    except FileNotFoundError:
        return False


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _release_in_child() -> None:
    # Closing a copy of the descriptor leaves the lock with the parent.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
