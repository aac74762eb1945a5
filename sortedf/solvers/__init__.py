"""Solvers: an instance in, a schedule out. One registry, one front function that verifies."""

from sortedf.solvers.check import PlanCheck, certified_bound, check_certificate, check_plan
from sortedf.solvers.front import oversized_requests, solve
from sortedf.solvers.registry import SOLVERS, find_solver, find_solvers
from sortedf.solvers.solver import Progress, Solver
from sortedf.solvers.stop import AnyOf, MaxIterations, MaxSeconds, Stop

__all__ = [
    "SOLVERS",
    "AnyOf",
    "MaxIterations",
    "MaxSeconds",
    "PlanCheck",
    "Progress",
    "Solver",
    "Stop",
    "certified_bound",
    "check_certificate",
    "check_plan",
    "find_solver",
    "find_solvers",
    "oversized_requests",
    "solve",
]
