"""Improvement search: beams guided by prices, then annealing, as long as it is let."""

from sortedf.solvers.improve.search import SOLVERS

__all__ = ["SOLVERS"]
