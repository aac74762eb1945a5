"""Every solver by name: what it is, which options it takes, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any, NamedTuple

from sortedf.errors import OptionError
from sortedf.model import Instance, Schedule
from sortedf.orders import Proxies, burst_proxies
from sortedf.solvers.in_order import schedule_by, shortest_of_orders


class Planned(NamedTuple):
    """What a solver hands back: a schedule, not yet verified, and the parameters it settled on."""

    schedule: Schedule
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Solver:
    """One entry of the registry.

    ``plan(instance, seed, **options)`` takes any of ``options``. ``fast`` solvers build schedules
    by a rule; they do not search.
    """

    name: str
    title: str
    plan: Callable[..., Planned]
    options: tuple[str, ...]
    fast: bool

    def check_options(self, options: Iterable[str]) -> None:
        """Refuse the first option that this solver does not take, as an :class:`OptionError`."""
        for name in options:
            if name not in self.options:
                takes = ", ".join(self.options) or "none"
                raise OptionError(
                    f"solver {self.name!r} takes no option {name!r} (it takes: {takes})"
                )


def find_solver(name: str) -> Solver:
    """Look a solver up; an unknown name is an :class:`OptionError` that lists the known ones."""
    if name in SOLVERS:
        return SOLVERS[name]
    close = get_close_matches(name, SOLVERS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise OptionError(f"there is no solver {name!r}; {hint}choose from {', '.join(SOLVERS)}")


def find_solvers(names: str) -> list[Solver]:
    """Look up a list of solvers: ``fast``, ``all``, or names with commas between them."""
    if names in ("fast", "all"):
        # `auto` only repeats others beside which it would stand.
        return [s for s in SOLVERS.values() if s.name != "auto" and (s.fast or names == "all")]
    chosen = [find_solver(name.strip()) for name in names.split(",")]
    if len({solver.name for solver in chosen}) < len(chosen):
        raise OptionError(f"a solver is named twice in {names!r}")
    return chosen


def _in_order(name: str, instance: Instance, seed: int, lookahead: int = 1) -> Planned:
    options = {"seed": seed} if name == "random" else {}
    return Planned(schedule_by(name, instance, lookahead, **options), {"lookahead": lookahead})


def _one_bit(
    instance: Instance, seed: int, lookahead: int = 1, proxies: Proxies | None = None
) -> Planned:
    used = burst_proxies(instance) if proxies is None else Proxies(*proxies)
    schedule = schedule_by("svf-1bit", instance, lookahead, proxies=used)
    return Planned(schedule, {"lookahead": lookahead, "proxies": list(used)})


def _auto(instance: Instance, seed: int, lookahead: int = 1) -> Planned:
    order, schedule = shortest_of_orders(instance, lookahead)
    return Planned(schedule, {"lookahead": lookahead, "order": order})


def _order(name: str, title: str) -> Solver:
    return Solver(name, title, partial(_in_order, name), ("lookahead",), fast=True)


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver("auto", "the best of the simple orders", _auto, ("lookahead",), True),
        _order("fcfs", "first come, first served"),
        _order("mcsf", "shortest output first (MC-SF)"),
        _order("size", "smallest total size first"),
        _order("svf", "smallest volume first (SVF)"),
        Solver(
            "svf-1bit",
            "smallest volume first, outputs known by one bit",
            _one_bit,
            ("lookahead", "proxies"),
            True,
        ),
        _order("longest", "longest output first"),
        _order("random", "random order"),
    )
}
