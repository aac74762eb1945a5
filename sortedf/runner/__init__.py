"""Plans executed on an engine: answers, records, predicted held against realized."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortedf.runner.run_options import RunOptions
    from sortedf.runner.run_result import RunResult
    from sortedf.runner.running import resume, run

# Imported at first use: the scheduler in vLLM's process needs nothing of a run.
_HOMES = {
    "RunOptions": "run_options",
    "RunResult": "run_result",
    "resume": "running",
    "run": "running",
}

__all__ = ["RunOptions", "RunResult", "resume", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.runner.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sortedf.runner' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
