"""What the planned scheduler relies on in vLLM's, and the versions in which it was tested."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from sortedf.errors import EngineError

TESTED = ("0.32",)
"""Versions of vLLM that the tests hold this against."""

RELIED_ON = {
    "add_request": 2,
    "schedule": 1,
    "update_from_output": 3,
    "shutdown": 1,
    "_handle_blocked_waiting_request": 2,
    "_free_request_blocks": 2,
    "_free_request": 2,
    "_preempt_request": 3,
    "_is_blocked_waiting_status": 1,
    "_update_after_schedule": 2,
    "_holds_kv_blocks": 1,
    "get_request_counts": 1,
    "get_num_unfinished_requests": 1,
    "get_kv_cache_usage": 1,
}
"""What vLLM's scheduler must have, and how many arguments each must do with."""


def check_interface(scheduler: type, version: str, warn: Callable[[str], None]) -> None:
    """Refuse a scheduler of vLLM that lacks what is needed; warn of a version that was not tested.

    Raises
    ------
    EngineError
        Naming what is missing.
    """
    missing = []
    for name, arguments in RELIED_ON.items():
        method = getattr(scheduler, name, None)
        if method is None:
            missing.append(name)
            continue
        kinds = [p for p in inspect.signature(method).parameters.values() if p.kind < 2]
        needed = [p for p in kinds if p.default is p.empty]
        if not len(needed) <= arguments <= len(kinds):
            missing.append(f"{name} with {arguments} arguments")
    if missing:
        raise EngineError(
            f"the scheduler of vLLM {version} has no {', '.join(missing)}, which sortedf relies "
            f"on; tested versions: {', '.join(TESTED)}"
        )
    if not version.startswith(tuple(f"{tested}." for tested in TESTED)):
        warn(
            f"sortedf was not tested with the scheduler of vLLM {version}; "
            f"tested versions: {', '.join(TESTED)}"
        )
