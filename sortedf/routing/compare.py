"""Rules beside each other: the same workloads through each, over rates and seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sortedf.errors import OptionError
from sortedf.routing.bound import offline_bound
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import as_predicted, log_normal
from sortedf.routing.metrics import area, error_figures, figures, mean_figures
from sortedf.routing.router import RESERVE
from sortedf.routing.rules import RULES, rule_named
from sortedf.routing.simulate import Routed, route_workload
from sortedf.routing.workload import RoutedWorkload, check_rate, published_workload
from sortedf.serving.metrics import interval

SCHEMA = "sortedf.routing/1"


def compare(
    instances: Sequence[EngineInstance],
    rules: Sequence[str],
    rates: Sequence[float],
    *,
    arrivals: str = "poisson",
    n: int = 1_000,
    seeds: int = 1,
    first_seed: int = 0,
    sigma: float = 0.4,
    weight: float = 5e-4,
    reserve: float = RESERVE,
    bounded: bool | Sequence[str] = True,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Route drawn workloads by several rules and gather the figures, as plain data.

    Parameters
    ----------
    rules
        Names of :data:`~sortedf.routing.rules.RULES`.
    rates
        Requests a second, ascending.
    arrivals, n, sigma
        See :func:`~sortedf.routing.workload.published_workload`.
    seeds, first_seed
        How many workloads at each rate, and the seed of the first.
    bounded
        Whether to hold rules against the offline bound, or which. The bound is that of routings
        whose answers in time end no later than this one's.
    say
        Told what is done next.

    Raises
    ------
    OptionError
        For an unknown rule, no rate or seed, or rates that do not ascend.
    """
    if not rules or not rates or seeds < 1:
        raise OptionError("a comparison needs at least one rule, one rate and one seed")
    for rate in rates:
        check_rate(rate)
    if list(rates) != sorted(set(rates)):
        raise OptionError(f"rates are {', '.join(map(str, rates))}; they must ascend")
    if twice := [name for name in rules if list(rules).count(name) > 1]:
        raise OptionError(f"rule {twice[0]} is named twice")
    for name in rules:
        rule_named(name)
    held = set(rules) if bounded is True else set(bounded or ())
    found: dict[str, list[list[dict[str, float]]]] = {name: [] for name in rules}
    for rate in rates:
        workloads = [
            published_workload(
                n, rate, instances, arrivals=arrivals, sigma=sigma, seed=first_seed + seed
            )
            for seed in range(seeds)
        ]
        for name in rules:
            say(f"{name}, {arrivals}, {rate:g} requests/s")
            runs = [
                one_run(workload, instances, name, sigma, weight, reserve, name in held)
                for workload in workloads
            ]
            found[name].append(runs)
    rows = [_row(name, rates, found[name], seeds) for name in rules]
    return {
        "schema": SCHEMA,
        "arrivals": arrivals,
        "requests": n,
        "seeds": seeds,
        "first_seed": first_seed,
        "sigma": sigma,
        "cost_weight": weight,
        "instances": [_described(one) for one in instances],
        "rates": list(rates),
        "rows": rows,
    }


def one_run(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    name: str,
    sigma: float,
    weight: float,
    reserve: float,
    bounded: bool,
) -> dict[str, float]:
    """Route a workload by a rule and give its figures, with the bound if asked for."""
    lengths = log_normal(sigma) if RULES[name]().conditional else as_predicted()
    routed = route_workload(
        workload, instances, name, weight=weight, lengths=lengths, reserve=reserve
    )
    found = figures(routed)
    if bounded:
        bound = offline_bound(workload, instances, horizon_of(routed), weight=weight)
        found["bound"] = bound.value
    return found


def horizon_of(routed: Routed) -> float:
    """Give the second by which all that a routing answered in time is complete."""
    ends = routed.completion[routed.on_time]
    return float(max(ends.max(initial=-np.inf), routed.workload.arrivals[-1]))


def estimator_errors(
    workload: RoutedWorkload,
    instances: Sequence[EngineInstance],
    sigma: float,
    rule: str = "sfs",
) -> dict[str, dict[str, float]]:
    """Errors of estimated times to the first token against the replay's, by what is known.

    ``predicted`` and ``conditional`` lengths and the ``throughput`` rule under the predictions of
    the workload. With exact lengths the estimate is the replay's time if nobody comes later; who
    does can share the step of the first token and lengthen it.
    """
    found = {}
    for name, lengths in (("predicted", as_predicted()), ("conditional", log_normal(sigma))):
        routed = route_workload(workload, instances, rule, lengths=lengths, estimates=True)
        found[name] = error_figures(routed.estimate, routed.ttft)
        found["throughput"] = error_figures(routed.by_throughput, routed.ttft)
    return found


def _row(
    name: str, rates: Sequence[float], runs: list[list[dict[str, float]]], seeds: int
) -> dict[str, Any]:
    areas = [
        area(rates, [at_rate[seed]["on_time_utility"] for at_rate in runs]) for seed in range(seeds)
    ]
    spread = interval(areas)
    row: dict[str, Any] = {
        "rule": name,
        "area": spread.mean,
        "area_half_width": spread.half_width if seeds > 1 else None,
        "areas": areas,
        "points": [
            {"rate": rate} | mean_figures(at_rate)
            for rate, at_rate in zip(rates, runs, strict=True)
        ],
    }
    if all("bound" in run for at_rate in runs for run in at_rate):
        bounds = [
            area(rates, [at_rate[seed]["bound"] for at_rate in runs]) for seed in range(seeds)
        ]
        row["bound_area"] = float(np.mean(bounds))
        if row["bound_area"] > 0:  # a share of no utility at all is no number
            row["share_of_bound"] = float(np.mean(areas) / row["bound_area"])
    return row


def _described(one: EngineInstance) -> dict[str, Any]:
    return {
        "name": one.name,
        "kv_tokens": one.settings.kv_tokens,
        "max_num_seqs": one.settings.max_num_seqs,
        "max_num_batched_tokens": one.settings.max_num_batched_tokens,
        "prompt_price": one.prompt_price,
        "output_price": one.output_price,
        "quality": dict(one.quality),
        "mean_output": one.mean_output,
        "step_time": one.step_time.source,
    }
