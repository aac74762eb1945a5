"""What a solver is: a plain object with a name, the options it takes, and a function that plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import inf
from typing import Any, NamedTuple

from sortedf.errors import OptionError, whole_number
from sortedf.model import Instance, Schedule, StopReason
from sortedf.model.result import BoundKind, Proof
from sortedf.model.workers import identical_workers
from sortedf.solvers.stop import MaxIterations


class Planned(NamedTuple):
    """What a solver hands back: a schedule, not yet verified, and what is known of it.

    ``bound`` is a lower bound on the total latency of every schedule, of the given kind; a solver
    that has searched everything hands the value of its schedule as an exhaustive bound. ``proof``
    is what a certificate can be made of.
    """

    schedule: Schedule
    parameters: Mapping[str, Any]
    stop_reason: StopReason = StopReason.FINISHED
    bound: Fraction | None = None
    bound_kind: BoundKind | None = None
    proof: Proof | None = None


class Progress(NamedTuple):
    """Where a search stands: iterations so far, best total latency, and bound if there is one."""

    iterations: int
    best: int
    bound: Fraction | None


@dataclass(frozen=True)
class Solver:
    """One entry of the registry.

    Parameters
    ----------
    name, title
        How it is called, and what it is in a few words.
    plan
        ``plan(instance, seed, **options)``; an ``anytime`` solver also gets ``stop``, a
        :class:`~sortedf.solvers.stop.Stop`, and ``report``, to be called with :class:`Progress`
        now and then. Every request fits the budget alone. KeyboardInterrupt in an anytime solver
        ends the search, not the program: it hands back its best with that stop reason.
    options
        Keyword options that ``plan`` takes.
    anytime
        Searches for as long as it is let.
    exact
        Proves its result optimal if it is let run to the end.
    deterministic
        Same instance, same plan, whatever the seed.
    limit_seconds
        Default time limit of an anytime solver; with ``None`` it gets no stop unless one is given.
    fast_up_to
        Requests up to which it plans within about a second; ``compare`` takes those by default.
    supports
        Whether it can plan this instance at all, in reasonable time and memory.
    scope, instead
        In words, what it supports, and the solver to take for the rest.
    several_workers
        Whether it plans for several workers too.
    """

    name: str
    title: str
    plan: Callable[..., Planned]
    options: tuple[str, ...] = ()
    anytime: bool = False
    exact: bool = False
    deterministic: bool = True
    limit_seconds: float | None = 60.0
    fast_up_to: float = inf
    supports: Callable[[Instance], bool] = field(default=lambda instance: True)
    scope: str = "any backlog"
    instead: str = "auto"
    several_workers: bool = True

    def check_options(self, options: Iterable[str]) -> None:
        """Refuse the first option that this solver does not take, as an :class:`OptionError`."""
        for name in options:
            if name not in self.options:
                takes = ", ".join(self.options) or "none"
                raise OptionError(
                    f"solver {self.name!r} takes no option {name!r} (it takes: {takes})"
                )

    def check_seed(self, seed: int) -> None:
        """Refuse a seed, as an :class:`OptionError`, when nothing is drawn at random; 0 is none."""
        whole_number("seed", seed, 0)
        if seed and self.deterministic:
            raise OptionError(f"solver {self.name!r} draws nothing at random; it takes no seed")

    def takes(self, instance: Instance) -> bool:
        """Whether this solver plans such an instance: that size, so many workers."""
        return (self.several_workers or len(instance.workers) == 1) and self.supports(instance)

    def check_instance(self, instance: Instance) -> None:
        """Refuse a backlog that this solver does not support, as an :class:`OptionError`."""
        if not self.several_workers and len(instance.workers) > 1:
            raise OptionError(f"{self.name} plans for one worker; for several, take {self.instead}")
        if not self.supports(instance):
            raise OptionError(
                f"{self.name} takes {self.scope}; this backlog is larger, use {self.instead}"
            )

    def check_stop(self, stop: object) -> None:
        """Refuse a limit, as an :class:`OptionError`, when this solver does not search."""
        if stop is not None and not self.anytime:
            raise OptionError(f"solver {self.name!r} does not search; it takes no limit")


@cache
def compile_kernels(solver: Solver, workers: int = 1) -> None:
    """Have what the solver needs compiled, so that the seconds of a result are its own.

    ``workers`` is 1, or 2 for any more.
    """
    instance = Instance(range(1, 25), [3 + 5 * i % 17 for i in range(24)], 60)
    instance = instance.on_workers(identical_workers(workers, 60))
    if not solver.anytime:
        solver.plan(instance, 0)
        return
    planned = solver.plan(instance, 0, stop=MaxIterations(4), report=lambda progress: None)
    if planned.stop_reason is StopReason.INTERRUPTED:
        # Ctrl-C was meant for the backlog to come, of which there is no plan yet.
        raise KeyboardInterrupt
