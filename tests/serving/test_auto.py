"""The policy that is recommended: what it is for what is known, why, and what it promises."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from small_workloads import MODEL, in_whole_steps, small

from sortedf.errors import OptionError
from sortedf.kernels.standing import PROMOTED
from sortedf.serving.aged import LEAST_PATIENCE, among_largest, first_come_waits
from sortedf.serving.front import simulate
from sortedf.serving.knowledge import Knowledge, exact, interval, noisy, nothing, one_bit
from sortedf.serving.online_policy import Given
from sortedf.serving.policies import policy
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.workloads import Workload

SEEDS = range(12)


def lengths(workload: Workload, prompt: int, output: int) -> Workload:
    """Let prompts and outputs have these means or about."""
    n = len(workload)
    rng = np.random.default_rng(n)
    return replace(
        workload,
        instance=workload.instance.replace(
            prompt_tokens=rng.integers(1, 2 * prompt, n),
            output_tokens=rng.integers(1, 2 * output, n),
        ),
    )


@pytest.mark.parametrize(
    ("kind", "prompt", "output", "name", "side", "reason"),
    [
        ("exact", 100, 20, "svf-aged", "watermark 0 %; future check, lookahead 4", "and exact"),
        ("exact", 20, 100, "svf-aged", "watermark 3 %; no future check", "far peak"),
        ("noisy", 100, 20, "svf-aged", "watermark 1 %; no future check", "not exact"),
        ("interval", 20, 100, "svf-aged", "watermark 3 %; no future check", "far peak"),
        ("one-bit", 100, 20, "boost-volume", "watermark 3 %; no future check", "one bit"),
        ("nothing", 100, 20, "uniboost-dist", "watermark 1 %; no future check", "nothing is known"),
    ],
)
def test_what_is_known_decides(
    kind: str, prompt: int, output: int, name: str, side: str, reason: str
) -> None:
    """Policy, side and reason; the result says them, and is that of the chosen one, twice."""
    workload, engine = small(3)
    workload = lengths(workload, prompt, output)
    instance = workload.instance
    known = {
        "exact": exact(instance),
        "noisy": noisy(instance, 0.5),
        "interval": interval(instance, 0.5),
        "one-bit": one_bit(instance),
        "nothing": nothing(instance),
    }[kind]
    found = simulate(workload, "auto", engine, MODEL, known=known)
    assert found.policy == name
    assert str(found.side).endswith(side)
    assert reason in found.reason
    assert found.describe().startswith(name)
    assert f"auto: {found.reason}" in found.describe()
    by_name = simulate(workload, policy(name, **found.side.to_dict()), engine, MODEL, known=known)
    again = simulate(workload, "auto", engine, MODEL, known=known)
    for served in (by_name, again):
        np.testing.assert_array_equal(served.completion, found.completion)
    assert by_name.reason == ""


def test_in_steps() -> None:
    """Chosen in the model of the theory too."""
    workload = in_whole_steps(1)
    found = simulate(workload, "auto", engine="steps")
    chosen = simulate(workload, "svf-aged", engine="steps", lookahead=found.side.lookahead)
    np.testing.assert_array_equal(found.completion, chosen.completion)
    assert found.reason


def test_outputs_are_not_looked_at() -> None:
    """With predictions that say nothing of it, another output changes neither choice nor order."""
    workload, engine = small(5)
    known = Knowledge(kind="noisy", predicted=np.full(len(workload), 40.0))
    longer = replace(workload, instance=workload.instance.replace(output_tokens=[77] * 40))
    chosen = [policy("auto").settled(each, known) for each in (workload, longer)]
    assert chosen[0].reason == chosen[1].reason
    given = [Given(each, known, engine, MODEL) for each in (workload, longer)]
    for name in ("key", "patience"):
        ours, theirs = (getattr(chosen[0], name)(each) for each in given)
        np.testing.assert_array_equal(ours, theirs)


def test_promises_do_not_look_ahead() -> None:
    """What a request is promised depends on those before it alone, with their predictions."""
    waiting = 0
    for seed in SEEDS:
        workload, engine = small(seed, n=150, span=8.0)
        whole = Given(workload, noisy(workload.instance, 0.5, seed=seed), engine, MODEL)
        waits = first_come_waits(whole)
        waiting += int((waits > LEAST_PATIENCE).sum())
        part = Workload(workload.instance.select(np.arange(90)), workload.arrivals[:90])
        known = replace(whole.known, predicted=whole.known.outputs[:90])
        first = Given(part, known, engine, MODEL)
        np.testing.assert_allclose(first_come_waits(first), waits[:90], atol=1e-12)
        size = whole.prefill_seconds
        np.testing.assert_array_equal(among_largest(size[:90], 0.1), among_largest(size, 0.1)[:90])
    assert waiting > 100


def test_the_largest() -> None:
    """About the share asked for, and only those larger than all but so many before them."""
    size = np.random.default_rng(4).permutation(5000).astype(np.float64)
    large = among_largest(size, 0.02)
    assert large.mean() == pytest.approx(0.02, rel=0.25)
    assert size[large].min() > np.quantile(size[:50], 0.9)
    assert not large[:50].any()
    assert not among_largest(size, 0.0).any()


def test_nobody_waits_for_longer_than_promised_in_vain() -> None:
    """Who has waited for its patience goes before all who have not, until its end."""
    promoted = 0
    for seed in SEEDS:
        workload, engine = small(seed, n=150, span=8.0)
        chosen = policy("svf-aged", share=0.5, exempt=0.0, lookahead=1)
        prepared = PolicyReplay(workload, chosen, engine, MODEL, exact(workload.instance))
        found = prepared.serve()
        patience = chosen.patience(prepared.given)
        late = found.admitted - workload.arrivals > patience
        np.testing.assert_array_equal(prepared.standing[:, PROMOTED] > 0, late)
        promoted += int(late.sum())
        # Of two that both wait promoted, the one that came first is admitted first.
        due, admitted = workload.arrivals + patience, found.admitted
        for one, other in itertools.combinations(np.flatnonzero(late), 2):
            if due[one] <= due[other] < admitted[one]:
                assert admitted[one] <= admitted[other]
    assert promoted > 100


def test_the_tail_of_first_come_and_the_mean_of_size() -> None:
    """Against SVF the longest wait falls; against first come the mean does."""
    waits, means = [], []
    for seed in SEEDS:
        workload, engine = small(seed, n=400, span=30.0)
        runs = [
            simulate(workload, name, engine, MODEL, **options)  # type: ignore[arg-type]
            for name, options in (("fcfs", {}), ("svf-2", {}), ("svf-aged", {"exempt": 0.0}))
        ]
        waits.append([float((run.admitted - workload.arrivals).max()) for run in runs])
        means.append([float(run.latency.mean()) for run in runs])
    longest, mean = np.mean(waits, axis=0), np.mean(means, axis=0)
    assert longest[2] < 0.8 * longest[1]
    assert mean[2] < 0.9 * mean[0]


def test_refused() -> None:
    """The side is auto's to choose; predictions are needed to age by."""
    workload, engine = small(0)
    with pytest.raises(OptionError, match="auto chooses the engine's side itself"):
        policy("auto", watermark=0.1)
    with pytest.raises(OptionError, match="needs predicted outputs"):
        simulate(workload, "svf-aged", engine, MODEL, known=nothing(workload.instance))
