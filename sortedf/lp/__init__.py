"""Lower bounds: closed forms, and prices of memory whose bound is exact."""

from sortedf.lp.ascent import ascend
from sortedf.lp.bounds import METHODS, Bound, lower_bound, lower_bounds
from sortedf.lp.closed_forms import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.cutting_plane import relax_by_planes
from sortedf.lp.fractional import FractionalStarts
from sortedf.lp.highs import LpStatus
from sortedf.lp.pdlp import relax_by_pdlp
from sortedf.lp.prices import CostTables, MinCosts, Prices, cost_tables, min_costs, price_bound
from sortedf.lp.pulp_model import pulp_model, write_model
from sortedf.lp.time_indexed import IntegerSolution, Relaxation, relax, solve_integer

__all__ = [
    "METHODS",
    "Bound",
    "CostTables",
    "FractionalStarts",
    "IntegerSolution",
    "LpStatus",
    "MinCosts",
    "Prices",
    "Relaxation",
    "ascend",
    "cost_tables",
    "lower_bound",
    "lower_bounds",
    "mean_busy_time_bound",
    "min_costs",
    "output_bound",
    "price_bound",
    "pulp_model",
    "relax",
    "relax_by_pdlp",
    "relax_by_planes",
    "solve_integer",
    "volume_bound",
    "write_model",
]
