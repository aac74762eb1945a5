"""The time-indexed program: three builders and solvers, one value; prices that prove it."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from brute_bounds import random_instance, random_prices
from brute_force import least_latency
from hypothesis import given, settings
from hypothesis import strategies as st

import sortedf
from sortedf import Instance
from sortedf.errors import InfeasibleError, OptionError
from sortedf.lp import price_bound, program
from sortedf.lp.ascent import best_in_order
from sortedf.lp.fractional import FractionalStarts
from sortedf.lp.highs import LpStatus, new_highs, solve_file, solve_program
from sortedf.lp.pdlp import relax_by_pdlp
from sortedf.lp.program import Starts, by_differences, by_steps, longest_horizon
from sortedf.lp.pulp_model import write_model
from sortedf.lp.time_indexed import Relaxation, most_held_after, relax, solve_integer

small = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=6
)


def instance_of(rows: list[tuple[int, int, int]], spare: int) -> Instance:
    """Build an instance whose largest request leaves ``spare`` tokens."""
    s, o, a = (list(column) for column in zip(*rows, strict=True))
    return Instance(s, o, max(x + y for x, y in zip(s, o, strict=True)) + spare, release=a)


def value_by_starts(instance: Instance, starts: FractionalStarts) -> float:
    """Latency of fractional starts by its definition, after a check of them by theirs."""
    total = 0.0
    whole = [0.0] * len(instance)
    for i, p, share in zip(starts.request, starts.start, starts.share, strict=True):
        assert p >= instance.release[i]
        whole[i] += float(share)
        total += float(share) * int(p + instance.output_tokens[i] - instance.release[i])
    assert whole == pytest.approx([1.0] * len(instance))
    return total


def usage(instance: Instance, starts: FractionalStarts) -> list[float]:
    """Tokens held at steps 0, 1, ... by fractional starts, request by request, step by step."""
    held = [0.0] * (int((starts.start + instance.output_tokens[starts.request]).max()) + 1)
    for i, p, share in zip(starts.request, starts.start, starts.share, strict=True):
        for k in range(1, int(instance.output_tokens[i]) + 1):
            held[p + k] += float(share) * int(instance.prompt_tokens[i] + k)
    return held


def check(instance: Instance, found: Relaxation, value: float, within: float) -> None:
    """Hold a relaxation to a value: its own, what its prices prove, and that of its starts."""
    assert found.status == LpStatus.OPTIMAL
    assert found.value == pytest.approx(value, rel=within)
    assert float(found.bound) == pytest.approx(value, rel=within)
    assert found.bound == price_bound(instance, found.prices)
    assert found.starts is not None
    assert value_by_starts(instance, found.starts) == pytest.approx(value, rel=within)
    slack = 10 * within * instance.kv_tokens
    assert max(usage(instance, found.starts)[: found.horizon + 1]) <= instance.kv_tokens + slack


@given(small, st.integers(0, 12))
@settings(max_examples=40)
def test_four_solvers_one_value(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]], spare: int
) -> None:
    """Interior point, simplex, PuLP's model and PDLP agree; all bounds are below the optimum."""
    instance = instance_of(rows, spare)
    simplex = relax(instance, method="simplex")
    T = simplex.horizon
    path = tmp_path_factory.mktemp("lp") / "model.lp"
    write_model(instance, path, horizon=T)
    written = solve_file(path)
    assert written.status == LpStatus.OPTIMAL
    pdlp = relax_by_pdlp(instance, horizon=T, tolerance=1e-7)
    optimum = least_latency(instance)
    for found, within in (
        (simplex, 1e-6),
        (relax(instance, horizon=T), 1e-6),
        (pdlp, 1e-4),
    ):
        check(instance, found, written.value, within)
        assert found.bound <= optimum
    # The prices of the model file, row by row, prove the same.
    numbers = [max(-written.duals[f"memory_{t}"], 0.0) for t in range(1, T + 1)]
    prices = sortedf.lp.prices.rounded(instance, np.arange(T + 1), np.array(numbers), np.zeros(T))
    assert float(price_bound(instance, prices)) == pytest.approx(written.value, rel=1e-6)


@given(small, st.integers(0, 12))
@settings(max_examples=60)
def test_both_layouts_are_the_same_program(rows: list[tuple[int, int, int]], spare: int) -> None:
    """With every set of starts and any horizon, steps and differences have one value."""
    instance = instance_of(rows, spare)
    for T in (1, 4, best_in_order(instance).makespan(instance)):
        rng = np.random.default_rng(T)
        every = by_steps(instance, T).starts
        some = rng.random(len(every.kind)) < 0.6
        some[np.flatnonzero(np.diff(every.kind, append=-1))] = True  # the last start of each kind
        for starts in (None, Starts(every.kind[some], every.step[some])):
            one = solve_program(by_steps(instance, T, starts), "simplex")
            two = solve_program(by_differences(instance, T, starts), "simplex")
            assert one.status == two.status == LpStatus.OPTIMAL
            assert one.value == pytest.approx(two.value)


def test_differences_add_up_to_the_memory_held() -> None:
    """The rows by differences, summed up twice, give each start's tokens at each step."""
    instance = Instance([4, 2, 7], [1, 2, 5], 14, release=[0, 3, 11])
    T = 9
    layout = by_differences(instance, T)
    kinds = len(layout.kinds.weight)
    for column, (kind, p) in enumerate(zip(*layout.starts, strict=True)):
        entries = slice(layout.begin[column], layout.begin[column + 1])
        rows = np.zeros(kinds + T)
        np.add.at(rows, layout.row[entries], layout.value[entries])
        assert np.flatnonzero(rows[:kinds]).tolist() == [kind]
        held = np.cumsum(np.cumsum(rows[kinds:])) * layout.unit
        s, o = int(layout.kinds.prompt_tokens[kind]), int(layout.kinds.output_tokens[kind])
        right = [s + t - p if p < t <= p + o else 0 for t in range(1, T + 1)]
        assert held == pytest.approx(right, abs=1e-9)
    for t in range(T):
        entries = slice(layout.begin[column + 1 + t], layout.begin[column + 2 + t])
        rows = np.zeros(T)
        rows[layout.row[entries] - kinds] = layout.value[entries]
        assert np.cumsum(np.cumsum(rows)).tolist() == [-1.0 if u == t else 0.0 for u in range(T)]


def test_value_is_above_what_any_prices_prove() -> None:
    """On 60 instances the value is at least the bound of random prices, at most the optimum."""
    rng = random.Random(41)
    for number in range(60):
        instance = random_instance(rng, 5, 4)
        found = relax(instance, method="simplex")
        assert found.complete
        for horizon in (1, 6, 20):
            bound = float(price_bound(instance, random_prices(rng, horizon)))
            assert bound <= found.value * (1 + 1e-9), number
        assert found.value <= least_latency(instance) * (1 + 1e-9), number


def test_horizon_found_is_as_good_as_none() -> None:
    """The value is that at the horizon that always suffices; a shorter one has less or as much."""
    rng = random.Random(42)
    shorter = 0
    for _ in range(40):
        instance = random_instance(rng, 5, 4)
        found = relax(instance, method="simplex")
        longest = relax(instance, method="simplex", horizon=longest_horizon(instance))
        assert found.complete
        assert longest.complete
        assert found.value == pytest.approx(longest.value)
        half = relax(instance, method="simplex", horizon=max(1, found.horizon // 2))
        assert half.value <= found.value * (1 + 1e-9)
        assert half.complete or half.horizon < found.horizon
        if not half.complete:
            shorter += half.value < found.value * (1 - 1e-6)
    assert shorter > 3


def test_horizon_is_doubled_until_it_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a horizon of one step it finds the value without any."""
    instance = sortedf.generate("mix", 12, seed=3, kv_tokens=5000)
    right = relax(instance, method="simplex")

    class Short:
        def makespan(self, instance: Instance) -> int:
            return 1

    monkeypatch.setattr(sortedf.lp.time_indexed, "best_in_order", lambda instance: Short())
    doubled = relax(instance, method="simplex")
    assert doubled.complete
    assert doubled.horizon & (doubled.horizon - 1) == 0
    assert doubled.value == pytest.approx(right.value)


@pytest.mark.parametrize("name", ["mix8020-50-s0"])
def test_mix_of_fifty(shared: Path, name: str) -> None:
    """The value of mix8020-50-s0 is 8,476.335 by both methods, which rounds up to the known one."""
    instance = sortedf.read_backlog(shared / "instances" / f"{name}.csv", kv_tokens=16492)
    for method in ("ipm", "simplex"):
        found = relax(instance, method=method)
        assert found.complete
        assert found.value == pytest.approx(8476.335076, rel=1e-7)
        assert -1e-6 < float(found.bound) / 8476.335076 - 1 < 1e-9
        assert found.starts is not None
        assert value_by_starts(instance, found.starts) == pytest.approx(found.value)
        assert max(usage(instance, found.starts)) <= 16492 * (1 + 1e-6)


def test_integer_program_is_the_optimum() -> None:
    """On 25 tiny instances it has the least latency of all, by a verified schedule."""
    rng = random.Random(43)
    for number in range(25):
        instance = random_instance(rng, 4, 3)
        found = solve_integer(instance)
        assert found.status == LpStatus.OPTIMAL
        assert found.schedule is not None
        assert found.value == found.schedule.total_latency(instance) == least_latency(instance)
        assert found.bound == pytest.approx(found.value), number


def test_integer_program_within_a_horizon() -> None:
    """A horizon that is too short for the backlog is infeasible; one more step is not."""
    instance = Instance([5, 5], [3, 3], 8)
    assert solve_integer(instance, horizon=5).status == LpStatus.INFEASIBLE
    found = solve_integer(instance, horizon=6)
    assert (found.status, found.value) == (LpStatus.OPTIMAL, 9)


def test_most_held_after_the_horizon() -> None:
    """It is the largest usage after T, counted step by step."""
    rng = np.random.default_rng(5)
    instance = sortedf.generate("chat", 30, seed=2, kv_tokens=4000)
    for T in (0, 5, 40, 90, 100_000):
        request = np.sort(rng.integers(0, 30, 80))
        starts = FractionalStarts(request, rng.integers(0, 60, 80), rng.random(80))
        after = max(usage(instance, starts)[T + 1 :], default=0.0)
        assert most_held_after(instance, starts, T) == pytest.approx(after)


def test_ample_memory_has_no_price() -> None:
    """Where all run at once the value is the sum of outputs and memory costs nothing."""
    instance = Instance([4, 9, 1], [7, 2, 5], 2**61, release=[0, 2, 0])
    for method in ("ipm", "simplex"):
        found = relax(instance, method=method)
        assert found.value == pytest.approx(14)
        assert found.bound == 14
        assert not found.prices.numerator.any()


def test_limits_give_valid_prices() -> None:
    """Stopped by time, or by a function, it says so and its prices prove what they prove."""
    instance = sortedf.generate("mix", 60, seed=1, kv_tokens=16492)
    for found in (
        relax(instance, seconds=0.05),
        relax(instance, method="simplex", stopped=lambda: True),
    ):
        assert found.status == LpStatus.STOPPED
        assert found.starts is None
        assert found.value == np.inf
        assert found.bound == price_bound(instance, found.prices)
        assert found.bound <= best_in_order(instance).total_latency(instance)


def test_what_cannot_be_solved_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests over the budget, options out of range and programs too large are named."""
    instance = Instance([1, 2], [2, 2], 5)
    with pytest.raises(InfeasibleError, match="'1'"):
        relax(Instance([1, 9], [1, 9], 10))
    with pytest.raises(InfeasibleError, match="'1'"):
        solve_integer(Instance([1, 9], [1, 9], 10))
    with pytest.raises(OptionError, match="no method 'magic'"):
        relax(instance, method="magic")
    with pytest.raises(OptionError, match="time limit is 0"):
        relax(instance, seconds=0, horizon=4)
    with pytest.raises(OptionError, match="horizon is step 0"):
        relax(instance, horizon=0)
    with pytest.raises(OptionError, match="does not take 'x' for 'solver'"):
        new_highs(solver="x")
    monkeypatch.setattr(program, "MOST_NONZEROS", 30)
    with pytest.raises(OptionError, match="more than 30"):
        relax(instance, horizon=9)
    with pytest.raises(OptionError, match="more than 30"):
        by_steps(instance, 9)


def test_nothing_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    """HiGHS greets nobody, on no file descriptor, and stdout is as before."""
    relax(Instance([1, 2], [2, 2], 5))
    solve_integer(Instance([1, 2], [2, 2], 5))
    print("data")
    assert capfd.readouterr() == ("data\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize("method", ["ipm", "simplex"])
def test_ctrl_c_stops_the_solver(method: str) -> None:
    """SIGINT amid a solve of minutes raises KeyboardInterrupt, and the process ends by itself."""
    code = f"""
import signal, sys, threading, time
import sortedf
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in the background
from sortedf.lp import highs, time_indexed
instance = sortedf.generate("mix", 220, seed=0, kv_tokens=16492)
run = highs.run
def told(*arguments):
    threading.Timer(1.0, lambda: print("solving", file=sys.stderr, flush=True)).start()
    run(*arguments)
highs.run = told
try:
    time_indexed.relax(instance, method="{method}")
except KeyboardInterrupt:
    print("interrupted", file=sys.stderr)
    sys.exit(130)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "solving\n"
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")
    # Unhindered it would take a minute or more; a loaded machine still gets there in time.
    assert time.monotonic() - begin < 45
