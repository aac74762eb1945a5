"""Every solver by name."""

from __future__ import annotations

from difflib import get_close_matches

from sortedf.errors import OptionError
from sortedf.solvers import auto, exact, improve, in_order, sorted_f, sorted_lp
from sortedf.solvers.solver import Solver

SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        *auto.SOLVERS,
        *in_order.SOLVERS,
        *sorted_f.SOLVERS,
        *sorted_lp.SOLVERS,
        *improve.SOLVERS,
        *exact.SOLVERS,
    )
}


def find_solver(name: str) -> Solver:
    """Look a solver up; an unknown name is an :class:`OptionError` that lists the known ones."""
    if not isinstance(name, str):
        raise OptionError(f"the solver is {name!r}; it must be a name: {', '.join(SOLVERS)}")
    if name in SOLVERS:
        return SOLVERS[name]
    close = get_close_matches(name, SOLVERS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise OptionError(f"there is no solver {name!r}; {hint}choose from {', '.join(SOLVERS)}")


def find_solvers(names: str) -> list[Solver]:
    """Look up a list of solvers: ``fast``, ``all``, or names with commas between them.

    ``fast`` are those that build a schedule by a rule and do not search.
    """
    if names in ("fast", "all"):
        # `auto` only repeats others beside which it would stand.
        return [
            solver
            for solver in SOLVERS.values()
            if solver.name != "auto" and (names == "all" or not solver.anytime)
        ]
    chosen = [find_solver(name.strip()) for name in names.split(",")]
    if len({solver.name for solver in chosen}) < len(chosen):
        raise OptionError(f"a solver is named twice in {names!r}")
    return chosen
