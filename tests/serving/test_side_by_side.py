"""Rows of policies side by side, against what one finds by serving each alone and by sorting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from small_workloads import MODEL, in_whole_steps, small

from sortedf.engine import EngineSettings
from sortedf.errors import SortedfError
from sortedf.serving.ablation import ablation
from sortedf.serving.distributions import at_shares, attained, shares, slowdowns, targets
from sortedf.serving.front import simulate
from sortedf.serving.known_texts import read_known
from sortedf.serving.metrics import figures
from sortedf.serving.policy_texts import read_policies
from sortedf.serving.served import Served
from sortedf.serving.side_by_side import SideBySide, missing, plain, with_unit

ENGINE = EngineSettings.for_budget(600, max_num_batched_tokens=64, max_num_seqs=12)


def on_engine(seeds: int = 2, known: str = "exact") -> SideBySide:
    """Put some seeds on one small engine."""
    return SideBySide(
        workloads=[small(seed)[0] for seed in range(seeds)],
        seeds=range(seeds),
        known=read_known(known),
        settings=ENGINE,
        step_time=MODEL,
    )


def served(policy: str, seed: int) -> Served:
    return simulate(small(seed)[0], policy, ENGINE, MODEL)


def test_a_row_is_what_the_policy_does_alone() -> None:
    """Figures by seed are those of each run, their means and Student's intervals by hand."""
    side_by_side = on_engine(3)
    for named in read_policies("fcfs,svf,uniboost-space:hysteresis=1"):
        row = side_by_side.serve(named)
        options: dict[str, Any] = {"hysteresis": 1.0} if ":" in named.text else {}
        alone = [
            figures(simulate(small(seed)[0], named.policy.name, ENGINE, MODEL, **options))
            for seed in range(3)
        ]
        for name in ("mean_ttlt", "p99.9_ttft", "p90_tbt", "throughput", "recomputed_share"):
            values = [found[name] for found in alone]
            key = with_unit(name, "seconds")
            assert [one[key] for one in row["by_seed"]] == values
            assert row["figures"][key] == pytest.approx(sum(values) / 3)
            half = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / math.sqrt(3)
            low, high = row["intervals"][key]
            assert (high - low) / 2 == pytest.approx(half)
            assert (high + low) / 2 == pytest.approx(sum(values) / 3)


def test_units_are_in_the_names() -> None:
    """Seconds on the engine, steps in the model; no name has a dot."""
    row = on_engine(1).serve(*read_policies("svf"))
    assert row["intervals"] is None
    names = set(row["figures"])
    assert {"mean_ttlt_seconds", "p99_9_ttft_seconds", "p50_seconds_per_token"} <= names
    assert {"output_tokens_per_second", "requests_per_second", "longest_wait_seconds"} <= names
    workload = in_whole_steps(0)
    steps = SideBySide(workloads=[workload], seeds=[0], known=read_known("exact"))
    row = steps.serve(*read_policies("svf"))
    assert row["figures"].keys() == {
        name.replace("_seconds", "_steps").replace("per_second", "per_step")
        if "seconds_per_token" not in name
        else name.replace("seconds", "steps")
        for name in names
    }
    alone = figures(simulate(workload, "svf", engine="steps"))
    assert row["figures"]["mean_ttlt_steps"] == alone["mean_ttlt"]
    assert row["side"]["future"]
    assert not any("." in name for name in names)


def test_who_never_ends_has_a_row() -> None:
    """Restarted requests that evict each other for ever: no figures, but the reason."""
    side_by_side = on_engine(1)
    (named,) = read_policies("las:eviction=restart")
    with pytest.raises(SortedfError):
        simulate(small(0)[0], named.policy, ENGINE, MODEL)
    row = side_by_side.serve(named)
    assert "never ends" in row["error"]
    assert "restart" in row["carried_out"]
    assert "figures" not in row
    document = side_by_side.document([row, side_by_side.serve(*read_policies("fcfs"))], None, None)
    assert [one["policy"] for one in document["rows"]] == ["las:eviction=restart", "fcfs"]
    assert document["ablation"] == []


@pytest.mark.parametrize(
    ("policy", "known", "settings", "message"),
    [
        ("svf", "nothing", {}, "needs predicted outputs"),
        ("a-min", "noisy:1", {}, "needs bounds"),
        ("fcfs:eviction=swap", "exact", {"enable_prefix_caching": True}, "recompute alone"),
    ],
)
def test_what_cannot_be_carried_out(
    policy: str, known: str, settings: dict[str, Any], message: str
) -> None:
    """Known before anything is served; `uniboost` and first come need to know nothing."""
    engine = ENGINE.replace(**settings)
    (named,) = read_policies(policy)
    why = missing(named, read_known(known), engine, MODEL, in_steps=False)
    assert why is not None
    assert message in why
    for free in read_policies("fcfs,uniboost,las"):
        assert missing(free, read_known("nothing"), engine, MODEL, in_steps=False) is None


def test_what_the_model_in_steps_decides() -> None:
    """A watermark there is refused, not ignored."""
    (named,) = read_policies("fcfs", {"watermark": 0.1})
    why = missing(named, read_known("exact"), None, None, in_steps=True)
    assert why is not None
    assert "watermark" in why
    (named,) = read_policies("srpt", {"eviction": "swap"})
    assert missing(named, read_known("exact"), None, None, in_steps=True) is None


@given(st.integers(1, 10_000))
def test_shares(n: int) -> None:
    """Ascending, from 1 % to all; the last but one leaves a request or more."""
    points = shares(n)
    assert (np.diff(points) > 0).all()
    assert points[0] == pytest.approx(0.01)
    assert points[-1] == 1
    assert 1 - points[-2] >= 1 / n - 1e-12 or n <= 10


def test_distributions_are_those_of_the_sorted_times() -> None:
    """The time at a share is the least within which so many are; targets by counting."""
    runs = [served("srpt", seed) for seed in range(2)]
    times = np.concatenate([run.latency for run in runs])
    points = shares(len(times))
    found = at_shares(runs, points)["ttlt"]
    for share, time in zip(points, found, strict=True):
        assert (times <= time).mean() >= share - 1e-12
        assert (times < time).mean() < share
    first = np.concatenate([run.ttft for run in runs])
    goals = targets("seconds")
    assert goals[0] == pytest.approx(1e-3)
    assert goals[-1] == pytest.approx(1e5)
    for goal, share in zip(goals, attained(runs, goals)["ttft"], strict=True):
        assert share == pytest.approx((first <= goal).mean())


def test_slowdown_in_steps_is_over_the_output() -> None:
    """A request alone takes a step for each output token."""
    run = simulate(in_whole_steps(1), "fcfs", engine="steps")
    instance = run.workload.instance
    rows = slowdowns([run], None, classes=1)
    by_hand = (run.completion - run.workload.arrivals) / instance.output_tokens
    assert rows[0]["mean_slowdown"] == pytest.approx(by_hand.mean())
    assert rows[0]["worst_slowdown"] == by_hand.max()
    assert rows[0]["most_tokens"] == (instance.prompt_tokens + instance.output_tokens).max()


def test_each_step_is_held_against_the_one_before() -> None:
    """In UniBoost's order, whatever the order of the rows; the first text of a step counts."""
    means = {"uniboost": 2.0, "fcfs": 8.0, "u:1": 4.0, "u:2": 1.0, "svf": 0.1}
    names = {"u:1": "uniboost-dist", "u:2": "uniboost-dist"}
    served = {text: [{"mean_ttlt": mean}, {"mean_ttlt": 4 * mean}] for text, mean in means.items()}
    rows = ablation(served, {text: names.get(text, text) for text in means})
    assert [(row["step"], row["against"]) for row in rows] == [("u:1", "fcfs"), ("uniboost", "u:1")]
    for row in rows:
        assert row["ratios"]["mean_ttlt"] == pytest.approx({"mean": 0.5, "low": 0.5, "high": 0.5})
        assert "throughput" not in row["ratios"]
    single = {text: runs[:1] for text, runs in served.items()}
    (row, _) = ablation(single, {text: names.get(text, text) for text in means})
    assert row["ratios"]["mean_ttlt"] == {"mean": 0.5, "low": None, "high": None}
    assert ablation({"svf": served["svf"]}, {"svf": "svf"}) == []


def test_plain() -> None:
    """What JSON has no number for is written in words."""
    assert plain({"a": math.inf, "b": 1, "c": True, "d": 0.5, "e": None, "f": (1, 2)}) == {
        "a": "inf",
        "b": 1,
        "c": True,
        "d": 0.5,
        "e": None,
        "f": "(1, 2)",
    }
