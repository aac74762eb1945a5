"""Which instance: requests that arrive over time, sent to one of several engines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sortedf.routing.bound import OfflineBound, offline_bound
    from sortedf.routing.compare import compare
    from sortedf.routing.instance_file import read_instances
    from sortedf.routing.instances import EngineInstance, published_instances
    from sortedf.routing.limited_sharing import LimitedSharing
    from sortedf.routing.router import Decision, Event, Router, RouteRequest
    from sortedf.routing.rules import RULES
    from sortedf.routing.simulate import Routed, route_workload
    from sortedf.routing.workload import RoutedWorkload, published_workload

# Imported at first use: instances need no compiled kernels.
_HOMES = {
    "Decision": "router",
    "EngineInstance": "instances",
    "Event": "router",
    "LimitedSharing": "limited_sharing",
    "OfflineBound": "bound",
    "RULES": "rules",
    "RouteRequest": "router",
    "Routed": "simulate",
    "RoutedWorkload": "workload",
    "Router": "router",
    "compare": "compare",
    "offline_bound": "bound",
    "published_instances": "instances",
    "published_workload": "workload",
    "read_instances": "instance_file",
    "route_workload": "simulate",
}

__all__ = [
    "RULES",
    "Decision",
    "EngineInstance",
    "Event",
    "LimitedSharing",
    "OfflineBound",
    "RouteRequest",
    "Routed",
    "RoutedWorkload",
    "Router",
    "compare",
    "offline_bound",
    "published_instances",
    "published_workload",
    "read_instances",
    "route_workload",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sortedf.routing.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sortedf.routing' has no attribute {name!r}")
