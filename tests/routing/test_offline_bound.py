"""The offline bound: above every way to serve tiny workloads, and above all rules."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from small_fleets import instance, workload

from sortedf.errors import OptionError
from sortedf.routing.bound import offline_bound
from sortedf.routing.compare import horizon_of
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import as_predicted
from sortedf.routing.live import LiveEngine
from sortedf.routing.metrics import on_time_utility
from sortedf.routing.rules import RULES
from sortedf.routing.simulate import route_workload
from sortedf.routing.workload import RoutedWorkload, utilities


def value_of(
    w: RoutedWorkload,
    fleet: list[EngineInstance],
    places: tuple[int, ...],
    order: tuple[int, ...],
    apart: float,
) -> tuple[float, float]:
    """Give utility in time of one way to serve a workload, and when all of it is complete.

    Requests go to ``places`` in ``order``, each when it has come and at least ``apart`` seconds
    after the one before; no code of the router's is used.
    """
    engines = [LiveEngine(one.settings, one.step_time, as_predicted()) for one in fleet]
    tickets, now = {}, 0.0
    for j in order:
        now = max(now + apart, float(w.arrivals[j]))
        for engine in engines:
            engine.advance(now)
        output = int(w.output_tokens[j, places[j]])
        tickets[j] = engines[places[j]].send(int(w.prompt_tokens[j]), output, 1.0, now)
    for engine in engines:
        engine.advance(1e9)
    worth = utilities(w, fleet)
    total, end = 0.0, float(w.arrivals[-1])
    for j, ticket in tickets.items():
        outcome = engines[places[j]].outcome(ticket)
        if outcome.first_token - w.arrivals[j] <= w.limit[j]:
            total += worth[j, places[j]]
            end = max(end, outcome.completion)
    return total / len(w), end


@pytest.mark.parametrize("seed", range(8))
def test_no_way_to_serve_a_tiny_workload_is_above_the_bound(seed: int) -> None:
    fleet = [
        instance("good", 100, 90.0, slow=2.0, seats=2, price=3.0),
        instance("quick", 80, 40.0, seats=2, asynchronous=seed % 2 == 0),
    ]
    w = workload(4, 2, seed, rate=30.0, longest=16)
    ways = [
        value_of(w, fleet, places, order, apart)
        for places in product(range(2), repeat=4)
        for order in permutations(range(4))
        for apart in (0.0, 0.03)
    ]
    # A later horizon never lowers the bound: who is worth less and ends later is seen to as well.
    best, checked = 0.0, 0
    for value, end in sorted(ways, key=lambda way: (way[1], -way[0])):
        if value > best:
            best, checked = value, checked + 1
            bound = offline_bound(w, fleet, end, window=0.05).value
            assert value <= bound + 1e-12
            assert bound < 0.9
    assert checked > 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rule", list(RULES))
def test_no_rule_is_above_the_bound(rule: str, seed: int) -> None:
    fleet = [instance("good", 240, 90.0, slow=2.0), instance("quick", 160, 40.0)]
    w = workload(150, 2, seed, rate=25.0, sigma=0.5)
    routed = route_workload(w, fleet, rule)
    bound = offline_bound(w, fleet, horizon_of(routed), window=0.2)
    assert on_time_utility(routed) <= bound.value + 1e-12


def test_the_bound_sees_overload() -> None:
    fleet = [instance("one", 160, 90.0)]
    calm, busy = (workload(200, 1, 0, rate=rate) for rate in (1.0, 60.0))
    bounds = [
        offline_bound(w, fleet, float(w.arrivals[-1]) + 1.0, window=0.2) for w in (calm, busy)
    ]
    alone = float((utilities(calm, fleet)[:, 0]).mean())
    assert bounds[0].value > 0.8 * alone
    assert bounds[1].value < 0.75 * alone
    assert bounds[1].capacity_prices[0] > 0


def test_a_later_horizon_never_lowers_it() -> None:
    fleet = [instance("good", 240, 90.0, slow=2.0), instance("quick", 160, 40.0)]
    w = workload(100, 2, 1, rate=40.0)
    last = float(w.arrivals[-1])
    values = [offline_bound(w, fleet, last + more, window=0.2).value for more in (0, 1, 3, 10)]
    assert values == sorted(values)


def test_a_horizon_before_the_last_arrival_is_refused() -> None:
    fleet = [instance("one", 160, 90.0)]
    w = workload(5, 1, 0)
    with pytest.raises(OptionError, match="horizon"):
        offline_bound(w, fleet, 0.0)
    with pytest.raises(OptionError, match="window"):
        offline_bound(w, fleet, 100.0, window=0.0)
