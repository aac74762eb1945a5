"""The router as a program uses it: it sees requests and events, and follows instances by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sortedf.errors import InfeasibleError, OptionError
from sortedf.routing import Event, Router, RouteRequest
from sortedf.routing.fleet import Fleet
from sortedf.routing.instances import EngineInstance, published_instances
from sortedf.routing.simulate import route_workload
from sortedf.routing.workload import RoutedWorkload, published_workload, utilities


class RealInstances:
    """What a router is in front of: engines that it cannot look into, and their events."""

    def __init__(self, w: RoutedWorkload, instances: tuple[EngineInstance, ...]) -> None:
        self.w, self.fleet = w, Fleet(instances)
        self.under_way: dict[int, tuple[int, int]] = {}

    def send(self, j: int, place: int) -> None:
        ticket = self.fleet.engines[place].send(
            int(self.w.prompt_tokens[j]),
            int(self.w.output_tokens[j, place]),
            1.0,
            self.fleet.now,
        )
        self.under_way[j] = place, ticket

    def ended(self) -> list[tuple[float, int]]:
        found = []
        for j, (place, ticket) in self.under_way.items():
            end = self.fleet.engines[place].outcome(ticket).completion
            if end <= self.fleet.now:
                found.append((end, j))
        return sorted(found)


def routed_by(
    router: Router, w: RoutedWorkload, instances: tuple[EngineInstance, ...]
) -> tuple[float, float]:
    """Give utility in time and share on time of a workload behind a router."""
    real = RealInstances(w, instances)
    first = np.full(len(w), np.inf)
    worth = utilities(w, instances)
    served: dict[int, tuple[int, int]] = {}

    def go_on(until: float) -> None:
        real.fleet.advance(until)
        for _, j in real.ended():
            place, ticket = real.under_way.pop(j)
            tokens = int(w.output_tokens[j, place])
            router.observe(Event(str(j), until, tokens, ended=True))
            served[j] = place, ticket
        for decision in router.due(until):
            assert decision.instance is not None
            real.send(int(decision.id), decision.instance)

    for j in range(len(w)):
        go_on(float(w.arrivals[j]))
        decision = router.route(
            RouteRequest(
                id=str(j),
                arrival=float(w.arrivals[j]),
                prompt_tokens=int(w.prompt_tokens[j]),
                predicted=w.predicted[j].tolist(),
                limit=float(w.limit[j]),
                task=w.task[j],
            )
        )
        if decision.instance is not None:
            real.send(j, decision.instance)
    while len(served) < len(w):
        go_on(real.fleet.now + 1.0)
    value = 0.0
    for j, (place, ticket) in served.items():
        first[j] = real.fleet.engines[place].outcome(ticket).first_token
        value += worth[j, place] * (first[j] - w.arrivals[j] <= w.limit[j])
    assert router.n_held == 0
    return value / len(w), float((first - w.arrivals <= w.limit).mean())


def test_a_router_that_follows_by_itself_is_about_as_good_as_one_that_sees_the_engines() -> None:
    instances = published_instances()
    w = published_workload(500, 7.0, instances, seed=2)
    utility, on_time = routed_by(Router(instances), w, instances)
    seen = route_workload(w, instances, "priced")
    assert on_time > 0.9
    assert utility > 0.93 * (seen.utility * seen.on_time).mean()


def request(name: str, arrival: float = 0.0, **changed: Any) -> RouteRequest:
    given: dict[str, Any] = {
        "id": name,
        "arrival": arrival,
        "prompt_tokens": 100,
        "predicted": 300.0,
        "limit": 0.5,
        "task": "alpaca",
    }
    return RouteRequest(**(given | changed))


def test_a_request_goes_to_the_best_that_is_free_and_the_doomed_wait() -> None:
    router = Router(published_instances(), "guarded-back")
    assert router.route(request("a")).instance == 2
    assert router.route(request("b", limit=1e-6)).instance is None
    assert router.n_held == 1
    assert [decision.id for decision in router.due(0.1)] == ["b"]
    assert router.n_held == 0
    router.observe(Event("a", 0.2, 5))
    router.observe(Event("a", 0.3, 9, ended=True))
    with pytest.raises(OptionError, match="not under way"):
        router.observe(Event("a", 0.4, 9, ended=True))


def test_what_is_seen_moves_the_twin() -> None:
    router = Router(published_instances())
    place = router.route(request("a")).instance
    assert place is not None
    router.observe(Event("a", 1.0, 200))
    rows, _ = router.fleet.engines[place].live()
    assert rows[0, 2] == 200
    router.observe(Event("a", 1.1, 201, ended=True))
    assert router.fleet.engines[place].n_present == 0


def test_lengths_are_learnt_from_those_that_end() -> None:
    router = Router(published_instances(), "round-robin")
    for number in range(60):
        router.route(request(str(number), number * 1.0))
        router.observe(Event(str(number), number + 0.5, 600, ended=True))
    assert router.fleet.engines[0].lengths.name.startswith("learnt")
    assert router.fleet.engines[0].lengths.longer[96] == pytest.approx(2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": "chess"},
        {"predicted": 0.0},
        {"limit": 0.0},
        {"prompt_tokens": 0},
        {"arrival": -1.0},
        {"arrival": float("nan")},
        {"id": "first"},
    ],
)
def test_what_is_no_request_is_refused(wrong: dict[str, Any]) -> None:
    router = Router(published_instances())
    router.route(request("first"))
    with pytest.raises(OptionError):
        router.route(request("second", **wrong))


def test_a_prompt_that_no_cache_holds_is_refused() -> None:
    with pytest.raises(InfeasibleError):
        Router(published_instances()).route(request("long", prompt_tokens=400_000))


@pytest.mark.parametrize(
    "wrong",
    [
        {"predicted": float("inf")},
        {"predicted": [1.0, 2.0]},
        {"predicted": "many"},
        {"prompt_tokens": float("nan")},
        {"prompt_tokens": 9.5},
        {"prompt_tokens": 400_000},
    ],
)
def test_what_is_refused_leaves_nothing_behind(wrong: dict[str, Any]) -> None:
    router = Router(published_instances())
    for decide in (router.route, router.estimates):
        with pytest.raises((OptionError, InfeasibleError), match="'second'"):
            decide(request("second", **wrong))
    assert router.n_held == 0
    assert router.route(request("second")).instance is not None


@pytest.mark.parametrize("tokens", [-1, 1.5, float("nan"), "3"])
def test_tokens_that_are_no_number_of_them_are_refused(tokens: Any) -> None:
    router = Router(published_instances())
    router.route(request("a"))
    with pytest.raises(OptionError, match="tokens of request 'a'"):
        router.observe(Event("a", 1.0, tokens))
    router.observe(Event("a", 1.0, np.int64(3)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option", [{"weight": -1.0}, {"weight": float("nan")}, {"longest_output": 0}]
)
def test_options_out_of_range_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        Router(published_instances(), **option)


def test_the_clock_may_begin_below_zero() -> None:
    late, early = (Router(published_instances()) for _ in range(2))
    at_zero = late.estimates(request("a", arrival=0.0))
    assert early.estimates(request("a", arrival=-5.0)) == pytest.approx(at_zero)


def test_one_that_is_held_back_can_be_given_up() -> None:
    router = Router(published_instances(), "guarded-back")
    assert router.route(request("a", limit=1e-9)).instance is None
    router.observe(Event("a", 0.0, 0, ended=True))
    assert router.n_held == 0
    assert router.due(1.0) == []
