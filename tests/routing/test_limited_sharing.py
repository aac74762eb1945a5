"""The formula of limited processor sharing against a queue that is simulated request by request."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sortedf.errors import OptionError
from sortedf.routing.limited_sharing import LimitedSharing, SaturatedError


def simulated_wait(alpha: float, mu: float, sharers: int, n: int, seed: int) -> float:
    """Mean wait of n requests: work left of each sharer is counted down, event by event."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / alpha, n)).tolist()
    work = rng.exponential(1 / mu, n).tolist()
    left: list[float] = []
    queue: deque[int] = deque()
    now = total = 0.0
    come = 0
    while come < n or left:
        ends = now + min(left) * len(left) if left else float("inf")
        arrives = arrivals[come] if come < n else float("inf")
        moment = min(ends, arrives)
        done = (moment - now) / len(left) if left else 0.0
        left = [one - done for one in left]
        now = moment
        if arrives <= ends:
            queue.append(come)
            come += 1
        else:
            left.remove(min(left))
        while queue and len(left) < sharers:
            first = queue.popleft()
            total += now - arrivals[first]
            left.append(work[first])
    return total / n


@pytest.mark.parametrize(
    ("alpha", "mu", "sharers"), [(0.5, 1.0, 1), (0.8, 1.0, 3), (3.0, 4.0, 2), (0.7, 1.0, 8)]
)
def test_the_formula_is_the_mean_of_the_simulated_queue(
    alpha: float, mu: float, sharers: int
) -> None:
    runs = [simulated_wait(alpha, mu, sharers, 4_000, seed) for seed in range(16)]
    mean, error = np.mean(runs), stats.sem(runs)
    expected = LimitedSharing(arrival_rate=alpha, service_rate=mu, sharers=sharers).wait
    assert abs(mean - expected) < 4 * error
    assert error < 0.15 * expected  # so that a wrong formula would be seen


@given(st.floats(0.01, 0.95), st.floats(0.1, 50), st.integers(1, 500))
def test_one_more_sharer_shortens_the_wait_by_the_load(
    load: float, mu: float, sharers: int
) -> None:
    alpha = load * mu
    one = LimitedSharing(arrival_rate=alpha, service_rate=mu, sharers=sharers)
    more = LimitedSharing(arrival_rate=alpha, service_rate=mu, sharers=sharers + 1)
    assert more.wait == pytest.approx(alpha / mu * one.wait, rel=1e-9, abs=1e-300)


def test_one_sharer_is_the_queue_of_one_server() -> None:
    # M/M/1: rho / (mu - alpha).
    assert LimitedSharing(arrival_rate=3, service_rate=4, sharers=1).wait == pytest.approx(0.75)


def test_the_first_token_comes_after_wait_prompt_and_step() -> None:
    queue = LimitedSharing(arrival_rate=3, service_rate=4, sharers=1)
    assert queue.ttft(1000, 50_000, 0.01) == pytest.approx(0.75 + 0.02 + 0.01)


@pytest.mark.parametrize("alpha", [4.0, 4.5])
def test_at_saturation_there_is_no_average(alpha: float) -> None:
    with pytest.raises(SaturatedError, match="grows without end"):
        LimitedSharing(arrival_rate=alpha, service_rate=4, sharers=10)


@pytest.mark.parametrize(
    ("alpha", "mu", "sharers"),
    [(-1.0, 4.0, 1), (float("nan"), 4.0, 1), (1.0, 0.0, 1), (1.0, 4.0, 0)],
)
def test_what_is_no_queue_is_refused(alpha: float, mu: float, sharers: int) -> None:
    with pytest.raises(OptionError):
        LimitedSharing(arrival_rate=alpha, service_rate=mu, sharers=sharers)


def test_a_prefill_without_rate_is_refused() -> None:
    queue = LimitedSharing(arrival_rate=1, service_rate=2, sharers=1)
    with pytest.raises(OptionError, match="prefill_rate"):
        queue.ttft(10, 0.0)
