"""Plans over several workers: against the optimum, the checkers, and plans for one."""

from __future__ import annotations

import random
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from brute_force import least_on_workers

import sortedf
from sortedf import Instance, OptionError, Result
from sortedf.certificate import check
from sortedf.errors import InvalidRequestError, VerificationError
from sortedf.instances import new_certificate
from sortedf.lp import ascend
from sortedf.lp.bounds import METHODS, best_of, lower_bounds
from sortedf.lp.worker_prices import tiers_of
from sortedf.model.workers import Worker, identical_workers
from sortedf.solvers import SOLVERS, MaxIterations
from sortedf.solvers.front import verified_latency
from sortedf.solvers.improve.annealing import Annealer
from sortedf.solvers.in_order import schedule_by


def draw_instance(rng: random.Random, n: int, most: int = 3) -> Instance:
    """Draw tiny requests on a few workers; some fit only on the largest."""
    s = [rng.randint(1, 6) for _ in range(n)]
    o = [rng.randint(1, 5) for _ in range(n)]
    a = [rng.choice([0, 0, 0, rng.randint(0, 4)]) for _ in range(n)]
    largest = max(x + y for x, y in zip(s, o, strict=True)) + rng.randint(0, 3)
    others = [
        rng.choice([largest, rng.randint(3, largest)]) for _ in range(rng.randint(1, most - 1))
    ]
    budgets = rng.sample([largest, *others], len(others) + 1)
    workers = [Worker(f"w{k}", budget) for k, budget in enumerate(budgets)]
    return Instance(s, o, 1, release=a).on_workers(workers)


def proved(instance: Instance, result: Result) -> None:
    """Have the bound of a result recomputed by the checker of certificates."""
    assert result.proof is not None
    columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
    s, o, a = (column.tolist() for column in columns)
    report = check(s, o, a, new_certificate(instance, result.proof))
    assert report.ok
    assert report.bound == result.proof.value


def test_plans_and_bounds_on_both_sides_of_the_optimum() -> None:
    """On tiny backlogs no bound is above the optimum, no plan below, and `improve` mostly there."""
    rng = random.Random(5)
    reached = 0
    for _ in range(10):
        instance = draw_instance(rng, rng.randint(2, 5))
        optimum = least_on_workers(instance)
        for bound in lower_bounds(instance, iterations=40):
            assert bound.value <= optimum, bound.kind
        for solver in ("svf", "fcfs", "local-swap"):
            result = sortedf.solve(instance, solver=solver, bound=False)
            assert result.total_latency >= optimum
        best = sortedf.solve(instance, solver="improve", stop=MaxIterations(6))
        assert best.lower_bound is not None
        assert best.lower_bound <= optimum <= best.total_latency
        proved(instance, best)
        reached += best.total_latency == optimum
    assert reached >= 9


@pytest.mark.parametrize("method", ["planes", "branching"])
def test_other_bounds_hold_for_several_workers(method: str) -> None:
    """Bounds of all memory together are below the optimum, and their certificates hold."""
    rng = random.Random(6)
    for _ in range(3):
        instance = draw_instance(rng, 4, most=2)
        bound = METHODS[method].find(instance, stop=MaxIterations(30))
        assert bound.value <= least_on_workers(instance)
        columns = (instance.prompt_tokens, instance.output_tokens, instance.release)
        s, o, a = (column.tolist() for column in columns)
        report = check(s, o, a, new_certificate(instance, bound))
        assert report.ok


def test_one_worker_is_the_plan_and_bound_of_before(tmp_path: Path) -> None:
    """One worker, named or not, gives byte for byte the plan and the certificate of none."""
    backlog = sortedf.generate("mix", 60, seed=3)
    named = backlog.on_workers([Worker("gpu", backlog.kv_tokens)])
    assert named == backlog
    for solver, stop in (("svf", None), ("improve", MaxIterations(5))):
        written = []
        for instance in (backlog, named):
            result = sortedf.solve(instance, solver=solver, stop=stop)
            assert result.proof is not None
            path = tmp_path / "plan.json"
            sortedf.write_plan(result, path)
            written.append((path.read_bytes(), new_certificate(instance, result.proof)))
        assert written[0] == written[1]
        assert b"worker" not in written[0][0]
        assert "workers" not in written[0][1]


def test_identical_workers_have_the_bound_of_one_with_all_memory() -> None:
    """One list of prices for all proves what it proves of one worker with the sum of budgets."""
    backlog = sortedf.generate("mix", 80, seed=1)
    instance = backlog.on_workers(identical_workers(3, backlog.kv_tokens))
    pooled = backlog.replace(kv_tokens=3 * backlog.kv_tokens)
    assert instance.pooled == pooled
    found = {bound.kind: bound for bound in lower_bounds(instance, iterations=60)}
    for bound in lower_bounds(pooled, iterations=60):
        assert found[bound.kind].value == bound.value
    assert found["prices"].worker_prices is None


def test_lists_of_prices_prove_more_where_large_requests_fit_on_few() -> None:
    """Where half of the work fits on one of three workers, prices of each prove a tenth more."""
    rng = random.Random(3)
    rows = [
        (rng.randint(1, 50) if k % 2 else rng.randint(100, 200), rng.randint(5, 40))
        for k in range(60)
    ]
    s, o = zip(*rows, strict=True)
    instance = Instance(s, o, 240).on_workers(
        [Worker("small", 100), Worker("large", 240), Worker("medium", 110)]
    )
    assert tiers_of(instance).of_worker == (0, 2, 1) or len(tiers_of(instance).budgets) == 2
    result = sortedf.solve(instance, solver="svf")
    assert result.lower_bound_exact is not None
    _, together = ascend(instance.pooled)
    assert result.lower_bound_exact > together * 11 / 10
    assert ceil(best_of(lower_bounds(instance)).value) <= result.total_latency
    proved(instance, result)


def test_a_request_goes_where_it_fits() -> None:
    """What fits on one worker only runs there, by every solver; what fits on none is named."""
    instance = Instance([8, 1, 1, 8], [2, 2, 2, 2], 1).on_workers(
        [Worker("small", 4), Worker("large", 10), Worker("tiny", 3)]
    )
    for name, solver in SOLVERS.items():
        if solver.several_workers:
            stop = MaxIterations(3) if solver.anytime else None
            result = sortedf.solve(instance, solver=name, stop=stop, bound=False)
            assert result.schedule.workers[[0, 3]].tolist() == [1, 1], name
    with pytest.raises(sortedf.InfeasibleError, match="needs 10 tokens, the KV budget is 9"):
        sortedf.solve(instance.on_workers([Worker("a", 9), Worker("b", 5)]))
    with pytest.raises(OptionError, match="exact plans for one worker"):
        sortedf.solve(instance, solver="exact", stop=MaxIterations(1))


def test_annealing_on_several_workers_keeps_its_books() -> None:
    """Moves within and between workers: totals are those of the full decoding, plans hold."""
    rng = random.Random(1)
    traded = 0
    for case in range(24):
        n = rng.choice([2, 10, 70])
        o = [rng.randint(1, 30) for _ in range(n)]
        s = [rng.randint(1, 30) for _ in range(n)]
        a = [rng.choice([0, 0, 3, 20]) for _ in range(n)]
        workers = [Worker(str(k), rng.choice([60, 100, 200])) for k in range(rng.randint(2, 5))]
        instance = Instance(s, o, 60, release=a).on_workers(workers)
        first = schedule_by(rng.choice(["fcfs", "svf"]), instance, lookahead=rng.choice([1, 5]))
        annealer = Annealer(instance, first, case)
        assert annealer.schedule() == first
        for temperature in (20.0, 1.0, 0.1):
            annealer.run(temperature, 4.0)
            kept = [solution.start[: solution.size[0]].copy() for solution in annealer.solutions]
            now = list(annealer.now)
            assert annealer._decode() == now
            for solution, starts in zip(annealer.solutions, kept, strict=True):
                np.testing.assert_array_equal(solution.start[: solution.size[0]], starts)
        best = annealer.schedule()
        assert verified_latency(instance, best) == annealer.best_total
        assert annealer.best_total <= first.total_latency(instance)
        traded += bool((best.workers != first.workers).any())
    assert traded > 4


def test_improve_is_the_same_again_and_on_any_threads() -> None:
    """Same seed and iterations, same plan; another number of threads changes nothing."""
    backlog = sortedf.generate("mix", 90, seed=8)
    instance = backlog.on_workers([Worker("a", 16_492), Worker("b", 9_000)])
    plans = [
        sortedf.solve(instance, solver="improve", stop=MaxIterations(8), threads=threads)
        for threads in (1, 2, 2)
    ]
    assert plans[0].schedule == plans[1].schedule == plans[2].schedule
    simple = sortedf.solve(instance, solver="svf")
    assert plans[0].total_latency < simple.total_latency


def test_a_schedule_on_a_worker_that_is_too_small_is_refused() -> None:
    """The front function's check looks at each worker's own budget."""
    instance = Instance([5, 5], [2, 2], 1).on_workers([Worker("a", 7), Worker("b", 14)])
    assert verified_latency(instance, sortedf.Schedule([0, 0], [1, 1])) == 4
    with pytest.raises(VerificationError, match="12 of 7 tokens of worker 0"):
        verified_latency(instance, sortedf.Schedule([0, 0], [0, 0]))


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ([], "0 workers; there must be 1 to 1024"),
        ([Worker("a", 5)] * 2, "worker 1 repeats the name 'a' of worker 0"),
        ([Worker("", 5)], "worker 0 is called ''; a name is not empty and can be printed"),
        ([Worker("a\x1b[31m", 5)], r"worker 0 is called 'a\\x1b\[31m'; a name"),
        ([Worker("a", 5), Worker("b\n", 5)], r"worker 1 is called 'b\\n'; a name"),
        ([Worker("a", 0)], "worker 'a': kv_tokens is 0"),
        ([Worker("a", 2**61), Worker("b", 2**61)], "together are 2\\^62 tokens or more"),
        ([Worker(str(k), 5) for k in range(1025)], "1025 workers"),
    ],
)
def test_workers_that_are_none(workers: list[Worker], message: str) -> None:
    """Names are distinct and not empty, budgets at least 1, workers at least one."""
    with pytest.raises(InvalidRequestError, match=message):
        Instance([1], [1], 2).on_workers(workers)
    with pytest.raises(InvalidRequestError, match="the largest budget is 5"):
        Instance([1], [1], 2, workers=[Worker("a", 5)])
