"""A twin that is told of its engine's steps stays with it, however long they take.

The engine is the plain replay with its log of every step, which knows nothing of twins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from small_fleets import TASK, instance

import sortedf
from sortedf.engine import Replay, StepTimeModel
from sortedf.engine.replaying import Replayed
from sortedf.kernels.replay_log import Log
from sortedf.routing.instances import EngineInstance
from sortedf.routing.lengths import as_predicted
from sortedf.routing.router import Event, Router, RouteRequest

N = 60


def truth(one: EngineInstance, factor: float, seed: int) -> tuple[sortedf.Instance, Replayed]:
    """Serve a workload, steps ``factor`` times as long as the instance says."""
    rng = np.random.default_rng(seed)
    work = sortedf.Instance(rng.integers(1, 60, N), rng.integers(1, 30, N), one.settings.kv_tokens)
    seconds = one.step_time.seconds * factor
    model = StepTimeModel.of_form("six-term", [seconds[k] for k in (0, 1, 2, 3, 5, 6)])
    arrivals = np.cumsum(rng.exponential(0.02 * factor, N))
    return work, Replay(work, one.settings, arrivals=arrivals).run(model, log=True)


def tokens_of(work: sortedf.Instance, log: Log) -> Iterator[tuple[float, list[Event]]]:
    """Give the end of every step and the tokens that it brought."""
    computed, sampled = np.zeros(N, np.int64), np.zeros(N, np.int64)
    for step, end in enumerate(log.end):
        for victim in log.victim[log.evictions[step] : log.evictions[step + 1]]:
            computed[victim] = 0
        events = []
        for row in range(log.entries[step], log.entries[step + 1]):
            request = int(log.request[row])
            computed[request] += log.tokens[row]
            if computed[request] == work.prompt_tokens[request] + sampled[request]:
                sampled[request] += 1
                ended = bool(sampled[request] == work.output_tokens[request])
                events.append(Event(str(request), float(end), int(sampled[request]), ended))
        yield float(end), events


def followed(
    one: EngineInstance, work: sortedf.Instance, real: Replayed, every_step: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Give the errors of a router's estimates, as shares, and where its twin counts right."""
    router = Router([one], "round-robin", lengths=as_predicted(), longest_output=40,
                    every_step=every_step)  # fmt: skip
    assert real.log is not None
    told = [event for _, events in tokens_of(work, real.log) for event in events]
    twin = router.fleet.engines[0]
    errors, agree = np.empty(N), np.empty((N, 2), bool)
    arrivals = real.arrivals
    for j in range(N):
        while told and told[0].at <= arrivals[j]:
            router.observe(told.pop(0))
        request = RouteRequest(
            id=str(j),
            arrival=float(arrivals[j]),
            prompt_tokens=int(work.prompt_tokens[j]),
            predicted=float(work.output_tokens[j]),
            limit=1.0,
            task=TASK,
        )
        ttft = real.first_token[j] - arrivals[j]
        errors[j] = abs(router.estimates(request)[0] / ttft - 1)
        step = int(np.searchsorted(real.log.begin, arrivals[j], side="left")) - 1
        if step >= 0 and arrivals[j] < real.log.end[step]:
            came = np.count_nonzero(arrivals[:j] > real.log.begin[step])
            counts = real.log.running[step], real.log.waiting[step] + came
        else:
            counts = 0, 0
        agree[j] = np.equal((twin.n_present - twin.n_waiting, twin.n_waiting), counts)
        assert router.route(request).instance == 0
    return errors, agree


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.3])
@pytest.mark.parametrize("seed", range(3))
def test_twins_keep_step_and_learn_the_speed(factor: float, seed: int) -> None:
    one = instance("one", 400, 50.0, asynchronous=False)
    work, real = truth(one, factor, seed)
    assert real.log is not None
    assert (real.log.waiting > 0).mean() > 0.5
    errors, agree = followed(one, work, real, every_step=True)
    assert agree.all()
    assert np.median(errors) < 0.05
    if factor != 1.0:
        alone, agree = followed(one, work, real, every_step=False)
        assert not agree.all()
        assert np.median(alone) > 0.2


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.3])
def test_asynchronous_engines_too(factor: float) -> None:
    one = instance("one", 400, 50.0, asynchronous=True)
    work, real = truth(one, factor, 0)
    errors, _ = followed(one, work, real, every_step=True)
    alone, _ = followed(one, work, real, every_step=False)
    assert np.median(errors) < min(0.1, np.median(alone))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_steps_that_nobody_tells_of_end_by_themselves(asynchronous: bool) -> None:
    one = instance("one", 400, 50.0, asynchronous=asynchronous)

    def asked(name: str, now: float) -> RouteRequest:
        return RouteRequest(
            id=name, arrival=now, prompt_tokens=30, predicted=20, limit=1.0, task=TASK
        )

    def router() -> Router:
        return Router([one], lengths=as_predicted(), longest_output=40, every_step=True)

    told = router()
    told.route(asked("a", 0.0))
    alone = router().estimates(asked("b", 5.0))
    for tick in range(5_000):
        told.due(tick / 1000)
    assert told.fleet.engines[0].n_present == 0
    assert np.allclose(told.estimates(asked("b", 5.0)), alone)
