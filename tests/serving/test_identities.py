"""What the policies are in their limits, and what they must never do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_workloads import MODEL, in_whole_steps, small

import sortedf
from sortedf.engine import EngineSettings
from sortedf.engine.replaying import replay
from sortedf.errors import SortedfError
from sortedf.kernels.replay_log import new_log
from sortedf.kernels.replay_state import GOAL, PROMPT
from sortedf.kernels.replay_steps import new_progress, run_steps
from sortedf.kernels.standing import ATTAINED, CHANGES, FIXED, SCORE, Scoring
from sortedf.orders.one_bit import Proxies
from sortedf.serving.front import simulate
from sortedf.serving.gamma import boosted_arrivals
from sortedf.serving.knowledge import exact, interval, noisy, one_bit
from sortedf.serving.online_policy import OnlinePolicy
from sortedf.serving.policies import POLICIES, policy
from sortedf.serving.replaying import PolicyReplay
from sortedf.serving.served import Served
from sortedf.serving.workloads import Workload
from sortedf.solvers.a_min import plan_with_bounds

SEEDS = range(12)


def serve(seed: int, chosen: OnlinePolicy, **options: float) -> Served | None:
    """Serve a small workload; None if it never ends."""
    return serve_workload(*small(seed, **options), chosen)  # type: ignore[arg-type]


def serve_workload(
    workload: Workload, engine: EngineSettings, chosen: OnlinePolicy
) -> Served | None:
    """Serve a workload; None if it never ends."""
    try:
        return simulate(workload, chosen, engine, MODEL)
    except SortedfError:
        return None


def assert_same(ours: Served | None, theirs: Served | None) -> None:
    if ours is None or theirs is None:
        assert ours is theirs
        return
    for name in ("admitted", "first_token", "completion", "preemptions", "recomputed"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)


@pytest.mark.parametrize("displaces", [False, True])
def test_small_gamma_is_least_attained_service(displaces: bool) -> None:
    """Gamma to 0: the work alone decides. No two prompts are alike, so that no work is a tie."""
    ended = 0
    tiny = policy("uniboost-space", gamma=1e-9, hysteresis=0.0, displaces=displaces)
    for seed in SEEDS:
        workload, engine = small(seed)
        prompts = np.random.default_rng(seed).permutation(len(workload)) * 3 + 1
        workload = replace(workload, instance=workload.instance.replace(prompt_tokens=prompts))
        found = serve_workload(workload, engine, tiny)
        least = policy("las", displaces=displaces)
        assert_same(found, serve_workload(workload, engine, least))
        ended += found is not None
    assert ended > 3


@pytest.mark.parametrize("displaces", [False, True])
@pytest.mark.parametrize("gamma", [1e9, np.inf])
def test_great_gamma_is_first_come(displaces: bool, gamma: float) -> None:
    """Gamma to infinity: the arrival decides, who came last is the tail of running."""
    preempting = 0
    for seed in SEEDS:
        great = policy("uniboost-space", gamma=gamma, hysteresis=0.0, displaces=displaces)
        found, first_come = serve(seed, great), serve(seed, policy("fcfs"))
        assert found is not None
        assert first_come is not None
        np.testing.assert_allclose(found.completion, first_come.completion, rtol=1e-12)
        np.testing.assert_array_equal(found.preemptions, first_come.preemptions)
        preempting += bool(found.preemptions.any())
    assert preempting > 3


@pytest.mark.parametrize("gamma", [1e-4, 0.01, 0.3, 1.0])
def test_equal_arrivals_are_least_work_first(gamma: float) -> None:
    """All at once: by work, whatever gamma."""
    for seed in SEEDS:
        boost = serve(seed, policy("uniboost-dist", gamma=gamma), span=0.0)
        assert_same(boost, serve(seed, policy("las", displaces=False), span=0.0))


@given(
    st.floats(1e-6, 2.0),
    st.lists(st.integers(1, 5000), min_size=2, max_size=9, unique=True),
    st.floats(0, 1e3),
)
def test_equal_arrivals_are_in_the_order_of_work(
    gamma: float, work: list[int], arrival: float
) -> None:
    """For every gamma, of requests that came at once, the one of less work has the lesser score."""
    seconds = np.sort(work) / 1000.0
    scores = boosted_arrivals(np.full(len(seconds), arrival), seconds, gamma)
    assert (np.diff(scores) > 0).all()


@pytest.mark.parametrize("guard", [1, 4, 16])
def test_memguard_scores_stand_still(guard: int) -> None:
    """Seen from outside, after every step: a score changes so often at most, at thresholds only."""
    moved = 0
    for seed in SEEDS:
        workload, engine = small(seed)
        chosen = policy("uniboost-guard", guard=guard)
        prepared = PolicyReplay(workload, chosen, engine, MODEL, exact(workload.instance))
        whole = prepared.run(MODEL, log=True).log
        assert whole is not None
        state, progress = prepared._engine(), new_progress(len(workload), workload.arrivals[0])
        changes = np.zeros(len(workload), np.int64)
        before, sampled = state.standing.copy(), state.requests.copy()
        for end in whole.end:
            run_steps(prepared._rules, state, MODEL.seconds, new_log(0, 0, 0), progress, end)
            after = state.standing[:, SCORE]
            # A score is 0 until its request comes.
            changed = np.flatnonzero((after != before[:, SCORE]) & (before[:, SCORE] != 0))
            reached = state.requests[changed, GOAL] - state.requests[changed, PROMPT]
            previous = sampled[changed, GOAL] - sampled[changed, PROMPT]
            assert (np.log2(reached / guard) % 1 == 0).all()
            assert (reached > previous).all()
            changes[changed] += 1
            before, sampled = state.standing.copy(), state.requests.copy()
        ratio = np.maximum(workload.instance.output_tokens / guard, 0.5)
        assert (changes <= 1 + np.log2(ratio)).all()
        moved += int(changes.sum())
    assert moved > 100


@pytest.mark.parametrize("guard", [1, 4, 16])
@pytest.mark.parametrize("hysteresis", [0.0, 0.5])
def test_memguard(guard: int, hysteresis: float) -> None:
    """At most 1 + log2(output / k) changes; nobody is evicted but at k, 2k, 4k, .. tokens."""
    evictions = 0
    for seed in SEEDS:
        workload, engine = small(seed)
        chosen = policy("uniboost-guard", guard=guard, hysteresis=hysteresis)
        prepared = PolicyReplay(workload, chosen, engine, MODEL, exact(workload.instance))
        log = prepared.run(MODEL, log=True).log
        assert log is not None
        output = workload.instance.output_tokens
        changes = prepared.standing[:, CHANGES]
        assert (changes[output < guard] == 0).all()
        large = output >= guard
        assert (changes[large] <= 1 + np.log2(output[large] / guard)).all()
        computed = np.zeros(len(output), np.int64)
        generated = np.zeros(len(output), np.int64)
        for step in range(len(log.begin)):
            for victim in log.victim[log.evictions[step] : log.evictions[step + 1]].tolist():
                ratio = generated[victim] / guard
                assert ratio >= 1
                assert np.log2(ratio) == int(np.log2(ratio))
                computed[victim] = 0
                evictions += 1
            for entry in range(log.entries[step], log.entries[step + 1]):
                request = log.request[entry]
                computed[request] += log.tokens[entry]
                known = workload.instance.prompt_tokens[request] + generated[request]
                generated[request] += computed[request] == known
    assert evictions > 20


def test_work_is_the_seconds_of_the_engine() -> None:
    """The shares of a step add up to it: all work attained is the time in which anything ran."""
    for seed in SEEDS:
        workload, engine = small(seed)
        prepared = PolicyReplay(
            workload, policy("uniboost-dist"), engine, MODEL, exact(workload.instance)
        )
        log = prepared.run(MODEL, log=True).log
        assert log is not None
        busy = (log.end - log.begin).sum()
        np.testing.assert_allclose(prepared.standing[:, ATTAINED].sum(), busy, rtol=1e-9)


def test_one_exact_bit_is_volume_order() -> None:
    """Two lengths, told apart by the bit, proxies exact: SVF, in seconds and in steps."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        workload, engine = small(seed)
        lengths = rng.choice([5, 90], len(workload))
        instance = workload.instance.replace(output_tokens=lengths)
        both = replace(workload, instance=instance)
        bit = policy("svf-1bit", proxies=Proxies(5, 5, 90))
        assert_same(simulate(both, bit, engine, MODEL), simulate(both, "svf", engine, MODEL))
        told = one_bit(instance, Proxies(5, 5, 90))
        ours = simulate(both, "svf-1bit", engine, MODEL, known=told)
        assert_same(ours, simulate(both, "svf", engine, MODEL))
        steps = both.arriving(np.floor(100 * both.arrivals))
        ours = simulate(steps, bit, engine="steps")
        np.testing.assert_array_equal(
            ours.completion, simulate(steps, "svf", engine="steps").completion
        )


@pytest.mark.parametrize("select", ["quantile-greedy", "local-swap", "exact-dp"])
def test_horizon_on_a_backlog_is_the_offline_plan(select: str) -> None:
    """Everything known and there: planned once, and carried out as the solver would."""
    for seed in SEEDS:
        workload = in_whole_steps(seed, span=0)
        found = simulate(workload, "sorted-f", engine="steps", select=select)
        plan = sortedf.solve(workload.instance, solver=select, bound=False)
        np.testing.assert_array_equal(
            found.completion, plan.schedule.starts + workload.instance.output_tokens
        )


def test_first_come_is_the_engines() -> None:
    """Exactly the replay under the engine's own policy."""
    for seed in SEEDS:
        workload, engine = small(seed)
        found = simulate(workload, "fcfs", engine, MODEL)
        theirs = replay(workload.instance, engine, MODEL, arrivals=workload.arrivals)
        np.testing.assert_array_equal(found.completion, theirs.completion)
        np.testing.assert_array_equal(found.first_token, theirs.first_token)
        np.testing.assert_array_equal(found.preemptions, theirs.preemptions)


@pytest.mark.parametrize("name", ["sjf", "svf-2", "boost-volume", "mcsf", "a-max"])
def test_a_static_policy_is_a_priority(name: str) -> None:
    """Exactly the replay under vLLM's priorities, or `planned` where it looks ahead."""
    for seed in SEEDS:
        workload, engine = small(seed)
        chosen = policy(name)
        found = simulate(workload, chosen, engine, MODEL)
        prepared = PolicyReplay(workload, chosen, engine, MODEL, exact(workload.instance))
        keys = chosen.key(prepared.given).tolist()
        places = sorted(range(len(keys)), key=lambda index: (keys[index], index))
        changes = {"policy": "planned" if chosen.side.future else "priority"}
        theirs = replay(
            workload.instance,
            engine.replace(**changes, watermark=chosen.side.watermark),
            MODEL,
            arrivals=workload.arrivals,
            priorities=np.argsort(places),
        )
        np.testing.assert_array_equal(found.completion, theirs.completion)
        np.testing.assert_array_equal(found.first_token, theirs.first_token)
        np.testing.assert_array_equal(found.preemptions, theirs.preemptions)


@pytest.mark.parametrize("name", ["fcfs", "sjf", "svf", "svf-1bit", "boost-volume"])
@pytest.mark.parametrize("late", [False, True])
def test_scores_that_stand_still_are_ranks(name: str, late: bool) -> None:
    """The queue by scores and that by ranks are the same, with predictions that are wrong."""
    for seed in SEEDS:
        workload, engine = small(seed, late=late)
        known = noisy(workload.instance, 0.7, seed=seed)
        ranked = policy(name, victim="worst")
        scored = replace(ranked, scoring=Scoring(kind=FIXED))
        ours = simulate(workload, scored, engine, MODEL, known=known)
        theirs = simulate(workload, ranked, engine, MODEL, known=known)
        np.testing.assert_allclose(ours.completion, theirs.completion, rtol=1e-9)
        np.testing.assert_array_equal(ours.preemptions, theirs.preemptions)
        np.testing.assert_array_equal(ours.recomputed, theirs.recomputed)


@pytest.mark.parametrize("name", ["fcfs", "mcsf", "svf", "sjf"])
def test_the_engine_in_steps_is_the_model(name: str) -> None:
    """The list-scheduling kernel with releases, and the replayed engine on tokens and steps."""
    for seed in SEEDS:
        workload = in_whole_steps(seed)
        listed = simulate(workload, name, engine="steps")
        stepped = simulate(
            workload, replace(policy(name), scoring=Scoring(kind=FIXED)), engine="steps"
        )
        for figure in ("admitted", "first_token", "completion", "steps"):
            np.testing.assert_array_equal(getattr(listed, figure), getattr(stepped, figure))
        instance = workload.instance.replace(release=workload.arrivals.astype(np.int64))
        report = sortedf.verify.verify(
            instance.prompt_tokens.tolist(),
            instance.output_tokens.tolist(),
            instance.release.tolist(),
            instance.kv_tokens,
            listed.admitted.astype(int).tolist(),
        )
        assert report.ok


def test_a_min_in_steps_is_the_planner() -> None:
    """By its bounds as the planner runs it; exact bounds evict nobody, and are MC-SF, as A_max."""
    evicting = 0
    for seed in SEEDS:
        workload = in_whole_steps(seed, span=0 if seed % 2 else 1500, budget=300)
        known = interval(workload.instance, 1.5, seed=seed)
        assert known.lower is not None
        assert known.upper is not None
        found = simulate(workload, "a-min", engine="steps", known=known)
        instance = workload.instance.replace(release=workload.arrivals.astype(np.int64))
        plan = plan_with_bounds(instance, known.lower, known.upper)
        ends = plan.schedule.starts + instance.output_tokens
        np.testing.assert_array_equal(found.completion, ends)
        assert (found.admitted <= plan.schedule.starts).all()
        assert found.recomputed.sum() == plan.lost_tokens
        evicting += bool(found.preemptions.any())
        shortest = simulate(workload, "mcsf", engine="steps").completion
        for name in ("a-min", "a-max"):
            exactly = simulate(workload, name, engine="steps")
            np.testing.assert_array_equal(exactly.completion, shortest)
    assert evicting > 5


@st.composite
def any_workload(draw: st.DrawFn) -> tuple[Workload, EngineSettings]:
    requests = draw(
        st.lists(
            st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 200)),
            min_size=1,
            max_size=14,
        )
    )
    requests.sort(key=lambda request: request[2])
    prompt, output, arrival = zip(*requests, strict=True)
    size = draw(st.integers(1, 9))
    needed = max(-(-(p + o) // size) for p, o, _ in requests)
    seats = draw(st.integers(1, 8))
    engine = EngineSettings(
        num_gpu_blocks=1 + needed + draw(st.integers(0, 2 * needed)),
        block_size=size,
        max_num_seqs=seats,
        max_num_batched_tokens=draw(st.integers(max(seats, 10), 100)),
        scheduler_reserve_full_isl=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
    )
    instance = sortedf.Instance(prompt, output, needed * size)
    return Workload(instance, np.array(arrival) / 50), engine


@settings(max_examples=200)
@given(any_workload(), st.sampled_from(sorted(POLICIES)), st.floats(0, 2), st.integers(0, 99))
def test_everybody_is_served_once(
    drawn: tuple[Workload, EngineSettings], name: str, spread: float, seed: int
) -> None:
    """All tokens of all requests are computed in order, once or again; memory is never over."""
    workload, engine = drawn
    instance = workload.instance
    known = interval(instance, spread, seed=seed)
    options = {"guard": 4} if "guard" in name or name == "uniboost" else {}
    if name == "uniboost":
        options |= {"window": 3, "every": 1}
    prepared = PolicyReplay(workload, policy(name, **options), engine, MODEL, known)
    try:
        found = prepared.run(MODEL, log=True)
    except SortedfError:
        assert prepared.policy.side.displaces  # nobody else goes round in circles
        return
    log = found.log
    assert log is not None
    assert (log.used <= engine.usable_blocks).all()
    assert (found.admitted >= workload.arrivals).all()
    assert (found.first_token > found.admitted).all()
    assert (found.completion >= found.first_token).all()
    tokens = np.bincount(log.request, log.tokens, len(instance))
    if prepared.policy.side.eviction == "recompute":
        useful = instance.prompt_tokens + instance.output_tokens - 1
        np.testing.assert_array_equal(tokens - found.recomputed, useful)
