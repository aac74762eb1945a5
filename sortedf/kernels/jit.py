"""The one way kernels are compiled: numba, nopython, cached on disk, integers only."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba

P = ParamSpec("P")
R = TypeVar("R")


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile at the first call; the typed face of ``numba.njit(cache=True, nogil=True)``.

    ``NUMBA_DISABLE_JIT=1`` leaves the plain Python function, which the tests run too.

    Notes
    -----
    Numba's cache holds the machine code of a kernel together with that of the kernels it calls, but
    looks only at the caller's file to see whether it is stale. Here it looks at the kernels' files
    too, so that an edit or an upgrade never runs code of before. And a cache that names a class
    which is no more (of a named tuple among the arguments) is taken for empty, not for an error.
    """
    return _compiled(function)


def lean_jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as :func:`jit` does, into each caller, a small kernel that makes no array.

    Numba counts the references to every array that a function is handed, also when another kernel
    calls it, and hands over its shape and strides; for a handful of arrays both take longer than
    the work. Here nothing is counted, for whoever calls holds the arrays, and nothing handed over.
    So such a kernel makes no arrays, returns none, and is called by kernels only.
    """
    return _compiled(
        function, _nrt=False, forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )


def rare_jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile as :func:`lean_jit` does, but not into each caller: for what is long and rare."""
    return _compiled(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def _compiled(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written
        return numba.njit(nogil=True, **options)(function)
    if compiled is not function:
        stamp = _contents(Path(__file__).parent), _contents(Path(inspect.getfile(function)))
        index = compiled._cache._cache_file
        index._source_stamp = stamp
        index._load_index = _or_empty(index._load_index)
    result: Callable[P, R] = compiled
    return result


def _or_empty(load: Callable[[], Any]) -> Callable[[], Any]:
    """Let what cannot be unpickled be no cache at all."""

    def load_or_empty() -> Any:
        try:
            return load()
        except (AttributeError, ImportError, TypeError):
            return {}

    return load_or_empty


@cache
def _contents(path: Path) -> str:
    """Digest of a source file, or of all in a folder."""
    digest = hashlib.sha256()
    for file in sorted(path.glob("*.py")) if path.is_dir() else [path]:
        digest.update(file.read_bytes())
    return digest.hexdigest()
