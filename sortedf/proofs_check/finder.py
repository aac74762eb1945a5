"""A search over backlogs for the largest proven ratio of a policy to the optimum.

The ratio is proven from below throughout: total latency of the policy over that of the best simple
order, a feasible schedule. A poor good schedule only makes the ratio smaller than it truly is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from random import Random
from typing import NamedTuple

from sortedf.errors import OptionError, whole_number
from sortedf.model import Instance, StopReason
from sortedf.model.instance import MAX_TOKENS
from sortedf.proofs_check.moves import LEAST, Backlog, changed, drawn
from sortedf.solvers import Solver, Stop, find_solver
from sortedf.solvers.in_order import shortest_of_orders

STARTS = 3
"""Random backlogs that are climbed from; then once more from the best of them."""

HEAT = 0.02
"""Loss of ratio, as a share, that is taken with probability 1 / e at the beginning of a climb."""

MOST_REQUESTS = 100

REPORT_EVERY = 50


class Found(NamedTuple):
    """The worst backlog found: its proven ratio, and the search it took."""

    instance: Instance
    ratio: float
    iterations: int
    stop_reason: StopReason


class Climb(NamedTuple):
    """A backlog with the ratio that is proven for it."""

    ratio: float
    backlog: Backlog


def find_policy(name: str) -> Solver:
    """Look up a solver that builds one schedule by a rule, whose ratio can be asked for.

    Raises
    ------
    OptionError
        For a solver that searches or draws at random.
    """
    entry = find_solver(name)
    if entry.anytime or not entry.deterministic:
        raise OptionError(
            f"{name} is no fixed rule; choose a policy such as mcsf, fcfs, size, svf, exact-dp"
        )
    return entry


def proven_ratio(policy: Solver, instance: Instance) -> float:
    """Divide a policy's total latency by that of the best simple order; requests fit the budget."""
    latency = policy.plan(instance, 0).schedule.total_latency(instance)
    return latency / shortest_of_orders(instance)[1].total_latency(instance)


def find_worst(
    policy: str,
    kv_tokens: int,
    *,
    seed: int = 0,
    stop: Stop,
    most_requests: int = MOST_REQUESTS,
    report: Callable[[int, float, int], None] = lambda iterations, ratio, n: None,
) -> Found:
    """Climb to a backlog on which a policy does badly.

    From a backlog of lengths drawn uniformly, small changes (:mod:`sortedf.proofs_check.moves`) are
    tried one after the other; one that raises the ratio is kept, one that lowers it with a
    probability that falls to nothing. So from three starts, then again from the best, for a quarter
    of what ``stop`` allows each. A stop that knows no share of what is allowed climbs on from the
    first start. KeyboardInterrupt ends the search, with the best so far. Derived for this project.

    Parameters
    ----------
    policy
        A solver by name that builds its schedule by a rule.
    kv_tokens
        The budget M in tokens, at least 2.
    seed
        Same arguments and iterations, same backlog.
    stop
        Asked at every backlog that is tried, with the ratio's denominator as best.
    most_requests
        Requests of a backlog at most, at least 2.
    report
        Told iterations, best ratio and the requests of its backlog now and then.

    Raises
    ------
    OptionError
        For a policy that is none, or numbers out of range.
    """
    entry = find_policy(policy)
    whole_number("kv_tokens", kv_tokens, 2)
    whole_number("seed", seed, 0)
    whole_number("most_requests", most_requests, LEAST)
    if kv_tokens * most_requests > MAX_TOKENS:
        raise OptionError(
            f"{most_requests} requests of up to {kv_tokens} tokens are over 2^40 tokens in all; "
            f"take a smaller budget or fewer requests"
        )
    rng = Random(seed)
    entry.check_instance(_instance(drawn(Random(seed), most_requests, kv_tokens), kv_tokens))
    iterations = 0
    climb: Climb | None = None
    best: Climb | None = None

    def rated(backlog: Backlog) -> Climb:
        return Climb(proven_ratio(entry, _instance(backlog, kv_tokens)), backlog)

    reason: StopReason | None = None
    try:
        # Compiled before the clock of a stop starts.
        rated(drawn(Random(seed), LEAST, kv_tokens))
        start_of = -1
        while reason is None:
            share = stop.share(iterations) * (STARTS + 1)
            if int(share) > start_of and start_of < STARTS:
                start_of += 1
                if start_of == STARTS and best is not None:
                    climb = best
                else:
                    climb = rated(drawn(rng, max(LEAST, most_requests * 3 // 5), kv_tokens))
            assert climb is not None
            heat = HEAT * max(0.0, 1 - (share - start_of))
            tried = rated(changed(rng, climb.backlog, kv_tokens, most_requests))
            if tried.ratio >= climb.ratio * (1 + heat * log(1 - rng.random())):
                climb = tried
            if best is None or climb.ratio > best.ratio:
                best = climb
            iterations += 1
            if iterations % REPORT_EVERY == 0:
                report(iterations, best.ratio, len(best.backlog))
            reason = stop(iterations, 0, None)
    except KeyboardInterrupt:
        if best is None:
            raise
        reason = StopReason.INTERRUPTED
    assert best is not None
    return Found(_instance(best.backlog, kv_tokens), best.ratio, iterations, reason)


def _instance(backlog: Backlog, kv_tokens: int) -> Instance:
    prompt, output = zip(*backlog, strict=True)
    return Instance(prompt, output, kv_tokens)
