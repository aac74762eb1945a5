"""Lower bounds: closed forms, and prices of memory whose bound is exact."""

from sortedf.lp.ascent import ascend
from sortedf.lp.bounds import METHODS, Bound, lower_bound, lower_bounds
from sortedf.lp.closed_forms import mean_busy_time_bound, output_bound, volume_bound
from sortedf.lp.prices import CostTables, MinCosts, Prices, cost_tables, min_costs, price_bound

__all__ = [
    "METHODS",
    "Bound",
    "CostTables",
    "MinCosts",
    "Prices",
    "ascend",
    "cost_tables",
    "lower_bound",
    "lower_bounds",
    "mean_busy_time_bound",
    "min_costs",
    "output_bound",
    "price_bound",
    "volume_bound",
]
