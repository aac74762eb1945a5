"""Three ways to decide a small 3-Partition problem that share no code.

As a clique (networkx), as an exact cover (CP-SAT), and as a backlog (the exact solver of this
project). All are exponential in the worst case.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import combinations

from sortedf.model import Result, StopReason
from sortedf.proofs_check.three_partition import Partition, Reduction, ThreePartition
from sortedf.solvers import AnyOf, MaxIterations, solve

ITERATIONS = 20_000
"""Of the exact solver, some ms each; one-token outputs take it below 100 up to m = 7."""


def by_clique(problem: ThreePartition) -> Partition | None:
    """Look for m disjoint triples as a clique; ``None`` when there is no partition.

    Nodes are the triples that sum to B, edges join those that share no number. A clique of m covers
    all numbers, so it has one of the triples of the number that is in the fewest: maximal cliques
    with these are enumerated [Bron and Kerbosch 1973, by networkx].
    """
    import networkx as nx

    a, n = problem.numbers, len(problem.numbers)
    triples = [t for t in combinations(range(n), 3) if sum(a[i] for i in t) == problem.target]
    graph = nx.Graph()
    graph.add_nodes_from(triples)
    graph.add_edges_from(
        pair for pair in combinations(triples, 2) if set(pair[0]).isdisjoint(pair[1])
    )
    for triple in min(([t for t in triples if i in t] for i in range(n)), key=len):
        for clique in nx.find_cliques(graph, nodes=[triple]):
            if len(clique) == problem.m:
                return tuple(sorted(clique))
    return None


def by_exact_cover(problem: ThreePartition) -> Partition | None:
    """Have CP-SAT choose triples that hold each number once; ``None`` when there are none.

    Proved by one thread, the same answer each time.
    """
    from ortools.sat.python import cp_model

    places = defaultdict(list)
    for k, number in enumerate(problem.numbers):
        places[number].append(k)
    model = cp_model.CpModel()
    chosen = {}
    covers: dict[int, list[cp_model.IntVar]] = {i: [] for i in range(len(problem.numbers))}
    for i, one in enumerate(problem.numbers):
        for j, two in enumerate(problem.numbers[:i]):
            for k in places[problem.target - one - two]:
                if k < j:
                    chosen[k, j, i] = model.new_bool_var(f"{k},{j},{i}")
                    for place in (i, j, k):
                        covers[place].append(chosen[k, j, i])
    for variables in covers.values():
        model.add_exactly_one(variables)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # It would take Ctrl-C over, and not give it back: the next one would kill the program.
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"CP-SAT ended with the status {solver.status_name(status)}")
    return tuple(sorted(triple for triple, variable in chosen.items() if solver.value(variable)))


def by_schedule(
    reduction: Reduction, *, optimum: bool = True, iterations: int = ITERATIONS
) -> Result:
    """Plan the backlog with the exact solver; :func:`answer_of` reads the answer off the result.

    Until the optimum is proved or, without ``optimum``, until the answer is: a schedule reaches the
    target, or a bound is above it.
    """
    limit = MaxIterations(iterations)
    stop = limit if optimum else AnyOf(_Decided(reduction.target_latency), limit)
    return solve(reduction.instance, solver="exact", stop=stop)


def answer_of(reduction: Reduction, result: Result) -> bool | None:
    """Whether there is a partition, by the schedule found or the bound; ``None``: not known yet."""
    if result.total_latency <= reduction.target_latency:
        return True
    bound = result.lower_bound
    return False if bound is not None and bound > reduction.target_latency else None


class _Decided:
    """Stop when the best schedule reaches the target, or the bound is above it."""

    def __init__(self, target: int) -> None:
        self.target = target

    def __call__(self, iterations: int, best: int, bound: Fraction | None) -> StopReason | None:
        """Compare."""
        if best <= self.target or (bound is not None and bound > self.target):
            return StopReason.FINISHED
        return None

    def share(self, iterations: int) -> float:
        """Nobody knows how long it takes."""
        return 0.0
