"""The model of [1-3]: requests, an instance of them, a schedule, and what a solver returns."""

from sortedf.model.instance import Instance, Request
from sortedf.model.result import Result, Status, StopReason
from sortedf.model.schedule import Schedule

__all__ = ["Instance", "Request", "Result", "Schedule", "Status", "StopReason"]
