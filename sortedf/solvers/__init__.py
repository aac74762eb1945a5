"""Solvers: an instance in, a schedule out. One registry, one front function that verifies."""

from sortedf.solvers.front import oversized_requests, solve
from sortedf.solvers.registry import SOLVERS, Solver, find_solvers

__all__ = ["SOLVERS", "Solver", "find_solvers", "oversized_requests", "solve"]
