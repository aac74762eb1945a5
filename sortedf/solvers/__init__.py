"""Solvers: an instance in, a schedule out. One registry, one front function that verifies."""

from sortedf.solvers.check import PlanCheck, check_plan
from sortedf.solvers.front import oversized_requests, solve
from sortedf.solvers.registry import SOLVERS, Solver, find_solver, find_solvers

__all__ = [
    "SOLVERS",
    "PlanCheck",
    "Solver",
    "check_plan",
    "find_solver",
    "find_solvers",
    "oversized_requests",
    "solve",
]
