"""Rules against slow twins that replay everything anew for every decision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from small_fleets import instance, workload

import sortedf
from sortedf.engine import replay
from sortedf.errors import InfeasibleError, OptionError
from sortedf.kernels.route_prices import lower_dual
from sortedf.routing.compare import compare
from sortedf.routing.fleet import Arriving, Fleet
from sortedf.routing.instances import EngineInstance, published_instances
from sortedf.routing.metrics import area, figures, on_time_utility
from sortedf.routing.router import BackQueue
from sortedf.routing.rules import (
    RULES,
    AverageCase,
    Guarded,
    LatencyAgnostic,
    Published,
    rule_named,
)
from sortedf.routing.simulate import Routed, route_workload
from sortedf.routing.work import least_work, share_seconds
from sortedf.routing.workload import (
    RoutedWorkload,
    published_limit,
    published_workload,
    utilities,
)


def fleet_of_two() -> list[EngineInstance]:
    return [
        instance("good", 240, 90.0, slow=2.0, price=5.0),
        instance("quick", 160, 40.0, asynchronous=False),
    ]


def replayed(
    w: RoutedWorkload, fleet: list[EngineInstance], sent: dict[int, list[int]], place: int
) -> list[float]:
    """First tokens of what was sent to an instance, by the replay of these alone."""
    rows = sent[place]
    one = fleet[place]
    backlog = sortedf.Instance(
        w.prompt_tokens[rows], w.output_tokens[rows, place], one.settings.kv_tokens
    )
    done = replay(backlog, one.settings, one.step_time, arrivals=w.arrivals[rows], by="steps")
    return [float(second) for second in done.first_token]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_the_published_rule_decides_as_one_that_replays_all_anew(seed: int, delta: float) -> None:
    fleet = fleet_of_two()
    w = workload(60, 2, seed, rate=25.0)
    worth = utilities(w, fleet)
    sent: dict[int, list[int]] = {0: [], 1: []}
    chosen = []
    for j in range(len(w)):
        ttft = []
        for place in range(2):
            sent[place].append(j)
            ttft.append(replayed(w, fleet, sent, place)[-1] - w.arrivals[j])
            sent[place].pop()
        late = [second > w.limit[j] for second in ttft]
        if all(late):
            place = int(np.argmin(ttft))
        else:
            values = [worth[j, k] - delta * ttft[k] for k in range(2)]
            place = max((k for k in range(2) if not late[k]), key=lambda k: values[k])
        sent[place].append(j)
        chosen.append(place)
    found = route_workload(w, fleet, Published(delta))
    assert found.instance.tolist() == chosen
    for place in range(2):
        first = found.first_token[found.instance == place]
        assert first.tolist() == replayed(w, fleet, sent, place)
    assert 0 < sum(chosen) < len(w)


@pytest.mark.parametrize("rule", list(RULES))
@pytest.mark.parametrize("demotes", [False, True])
def test_every_request_is_served_once(rule: str, demotes: bool) -> None:
    fleet = fleet_of_two()
    w = workload(200, 2, 3, rate=30.0, sigma=0.5)
    found = route_workload(w, fleet, rule, demotes=demotes)
    assert np.isfinite(found.completion).all()
    assert (found.first_token > w.arrivals).all()
    assert (found.completion >= found.first_token).all()
    assert (found.sent >= w.arrivals).all()
    assert found.utility == pytest.approx(utilities(w, fleet)[np.arange(len(w)), found.instance])
    told = figures(found)
    assert told["on_time"] == np.mean(found.first_token - w.arrivals <= w.limit)
    assert told["share_0"] + told["share_1"] == pytest.approx(1)


def test_the_baselines_do_what_their_names_say() -> None:
    fleet = fleet_of_two()
    w = workload(40, 2, 0, rate=2.0)
    assert route_workload(w, fleet, "round-robin").instance.tolist() == [0, 1] * 20
    agnostic = route_workload(w, fleet, "latency-agnostic").instance
    assert agnostic.tolist() == utilities(w, fleet, foreseen=True).argmax(axis=1).tolist()
    busy = Fleet(fleet)
    busy.advance(0.0)
    busy.engines[0].send(10, 30, 30.0, 0.0)
    busy.engines[1].send(10, 2, 2.0, 0.0)
    busy.engines[1].send(10, 2, 2.0, 0.0)
    request = Arriving(0, 5, np.array([5.0, 5.0]), np.array([0.1, 0.2]), 0.0, 1.0)
    assert busy.queues == [1, 2]
    assert rule_named("shortest-queue").choose(request, busy) == 0
    assert rule_named("least-outstanding").choose(request, busy) == 1
    assert LatencyAgnostic().choose(request, busy) == 1


def test_the_doomed_go_where_they_are_told_to() -> None:
    fleet = Fleet(fleet_of_two())
    fleet.advance(0.0)
    doomed = Arriving(0, 50, np.array([5.0, 5.0]), np.array([0.9, 0.4]), 0.0, 1e-6)
    assert Guarded(doomed="least").choose(doomed, fleet) == 1
    assert Guarded(doomed="back").choose(doomed, fleet) == -1
    assert rule_named("priced").choose(doomed, fleet) == -1


def test_the_back_queue_leaves_the_reserve_and_is_first_come_first_served() -> None:
    fleet = Fleet([instance("one", 160, 50.0)])
    fleet.advance(0.0)
    queue = BackQueue(fleet, 0.5)
    assert queue.next_due() is None
    for index in range(2):
        queue.hold(Arriving(index, 40, np.array([9.0]), np.array([0.5]), 0.0, 1e-6))
    due = queue.next_due()
    assert due is not None
    assert (due[0].number, due[1]) == (0, 0)
    fleet.engines[0].send(40, 20, 9.0, 0.0)
    assert queue.next_due() is None  # it waits
    fleet.advance(0.01)
    assert queue.next_due() is None  # 40 of 160 held, 40 more leave half, of what grows less
    fleet.advance(1e6)
    assert queue.next_due() is not None
    assert len(queue) == 0


def test_average_estimates_end_where_an_instance_is_saturated() -> None:
    fleet = Fleet([instance("one", 160, 50.0, seats=4)])
    fleet.advance(0.0)
    rule = AverageCase(window=10.0)
    estimates = []
    for index in range(200):
        request = Arriving(index, 20, np.array([20.0]), np.array([0.5]), index * 0.05, 1.0)
        assert rule.choose(request, fleet) == 0
        estimates.append(rule.ttft(request, fleet, 0))
    assert math.isfinite(estimates[0])
    assert math.isinf(estimates[-1])


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 4), st.floats(0.05, 3.0))
def test_prices_of_capacity_give_a_bound_near_the_best_assignment(
    seed: int, n: int, width: int, capacity: float
) -> None:
    rng = np.random.default_rng(seed)
    utility, work = rng.random((n, width)), rng.uniform(0.05, 1.0, (n, width))
    room = np.full(width, capacity)
    prices = np.zeros(width)
    lower_dual(utility, work, room, prices, 30)
    assert (prices >= 0).all()
    dual = np.maximum(utility - prices * work, 0).max(axis=1).sum() + prices @ room
    once = np.kron(np.eye(n), np.ones(width))
    loads = np.concatenate([np.diag(row) for row in work], axis=1)
    best = linprog(
        -utility.ravel(),
        A_ub=np.concatenate([once, loads]),
        b_ub=np.concatenate([np.ones(n), room]),
    )
    assert dual >= -best.fun - 1e-9
    if width == 1:
        assert dual == pytest.approx(-best.fun)
    lower_dual(utility, work, room, prices, 5)
    again = np.maximum(utility - prices * work, 0).max(axis=1).sum() + prices @ room
    assert again <= dual + 1e-9


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("capacity", [5.0, 15.0, 60.0])
def test_of_as_many_requests_as_are_looked_at_prices_are_near_the_best(
    seed: int, capacity: float
) -> None:
    rng = np.random.default_rng(seed)
    n, width = 256, 3
    utility, work = rng.random((n, width)), rng.uniform(0.05, 1.0, (n, width))
    room, prices = np.full(width, capacity), np.zeros(width)
    lower_dual(utility, work, room, prices, 8)
    dual = np.maximum(utility - prices * work, 0).max(axis=1).sum() + prices @ room
    matrix = np.concatenate(
        [
            np.kron(np.eye(n), np.ones(width)),
            np.concatenate([np.diag(row) for row in work], axis=1),
        ]
    )
    best = linprog(-utility.ravel(), A_ub=matrix, b_ub=np.concatenate([np.ones(n), room]))
    assert dual == pytest.approx(-best.fun, rel=0.03)


def test_work_is_what_the_steps_of_a_request_alone_take() -> None:
    one = instance("one", 400, 50.0, seats=4)
    work = least_work(one, [20], [7])
    seconds = one.step_time
    decodes = sum(seconds.decode_token + seconds.context * (20 + k) for k in range(6))
    assert work.prefill[0] == pytest.approx(20 * seconds.prefill_token)
    assert work.decode[0] == pytest.approx(decodes)
    assert work.token_steps[0] == sum(range(21, 27))
    share = max(work.token_steps[0] / 400, 7 / 4) * seconds.fixed
    assert share_seconds(one, 20, 7) == pytest.approx(20 * 2e-4 + decodes + share)


def test_limits_and_utilities_are_the_published_ones() -> None:
    limits = published_limit([1, 1000, 10_000, 100_000])
    assert limits == pytest.approx([0.155035, 0.190, 0.505, 1.120])
    fleet = published_instances()
    w = published_workload(50, 5.0, seed=1)
    worth = utilities(w, fleet)
    j = 7
    cost = w.prompt_tokens[j] * 0.287 + w.output_tokens[j, 2] * 0.640
    assert worth[j, 2] == pytest.approx((fleet[2].quality[w.task[j]] - 5e-4 * cost) / 100)
    assert fleet[1].settings.max_num_seqs == 512
    assert fleet[1].settings.max_num_batched_tokens == 32_768


def test_areas_are_means_over_the_rate() -> None:
    assert area([3, 5, 9], [1, 1, 1]) == 1
    assert area([0, 1, 3], [0, 1, 1]) == pytest.approx(2.5 / 3)
    assert area([4], [0.3]) == 0.3


def test_ours_is_at_least_every_baseline_and_the_published_collapses_at_saturation() -> None:
    found = compare(
        published_instances(),
        ["shortest-queue", "sfs", "priced"],
        [8.8],
        n=1_300,
        bounded=["priced"],
    )
    rows = {row["rule"]: row for row in found["rows"]}
    saturated = {name: row["points"][0] for name, row in rows.items()}
    assert rows["sfs"]["area"] < rows["priced"]["area"]
    assert rows["shortest-queue"]["area"] < rows["priced"]["area"]
    assert saturated["sfs"]["on_time"] < 0.6 < 0.85 < saturated["priced"]["on_time"]
    assert 0.7 < rows["priced"]["share_of_bound"] <= 1
    assert "share_of_bound" not in rows["sfs"]


def test_a_comparison_is_the_same_for_the_same_seed() -> None:
    documents = [
        compare(published_instances(), ["priced"], [6.0], n=100, seeds=2, arrivals="mmpp-3")
        for _ in range(2)
    ]
    assert documents[0] == documents[1]
    assert len(documents[0]["rows"][0]["areas"]) == 2


def test_utility_counts_in_time_only() -> None:
    w = workload(3, 1, 0)
    one = np.ones(3)
    routed = Routed(
        workload=w,
        instance=np.zeros(3, np.int64),
        sent=w.arrivals,
        first_token=w.arrivals + w.limit * [0.5, 1.0 - 1e-9, 1.1],
        completion=w.arrivals + 9,
        utility=np.array([0.3, 0.6, 0.9]),
        preemptions=np.zeros(3, np.int64),
        estimate=one,
        by_throughput=one,
    )
    assert on_time_utility(routed) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: rule_named("best"),
        lambda: Published(-1.0),
        lambda: Guarded(0.0),
        lambda: Guarded(doomed="away"),
        lambda: AverageCase(0.0),
        lambda: Fleet([]),
        lambda: BackQueue(Fleet(fleet_of_two()), 1.0),
        lambda: compare(fleet_of_two(), ["sfs"], []),
        lambda: compare(fleet_of_two(), ["sfs"], [3.0, 2.0]),
        lambda: compare(fleet_of_two(), ["sfs", "sfs"], [3.0]),
        lambda: published_workload(0, 3.0),
        lambda: published_workload(5, 3.0, arrivals="burst"),
        lambda: published_workload(5, 3.0, sigma=-1.0),
        lambda: instance("one", 160, 101.0),
        lambda: instance("one", 160, 50.0, price=-1.0),
    ],
)
def test_bad_options_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(OptionError):
        make()


def test_a_request_that_no_cache_holds_is_refused() -> None:
    w = workload(5, 1, 0, longest=500)
    with pytest.raises(InfeasibleError):
        route_workload(w, [instance("one", 40, 50.0)], "round-robin")
