"""How a replay goes on, step by step or from event to event, and when it can do which."""

from __future__ import annotations

from enum import StrEnum

from sortedf.engine.settings import EngineSettings, Policy
from sortedf.errors import OptionError


class Driver(StrEnum):
    """How a replay goes on."""

    STEPS = "steps"
    EVENTS = "events"


def can_jump(settings: EngineSettings) -> bool:
    """Whether the rules that hold under these settings are known to the driver by events."""
    known = settings.policy in (Policy.FCFS, Policy.PRIORITY)
    return known and not settings.enable_prefix_caching


def chosen_driver(by: Driver | str | None, *, can_jump: bool) -> Driver:
    """Give the driver that was asked for; from event to event where nothing was and it can.

    Raises
    ------
    OptionError
        When there is no such driver, or it cannot do what is asked.
    """
    if by is None:
        return Driver.EVENTS if can_jump else Driver.STEPS
    try:
        driver = Driver(by)
    except ValueError:
        raise OptionError(f"by is {by!r}; it must be one of {', '.join(Driver)}") from None
    if driver == Driver.EVENTS and not can_jump:
        raise OptionError(
            "neither prefix caching nor a log goes from event to event, nor does planned; by steps"
        )
    return driver
