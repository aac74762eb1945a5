"""How fast the ratio of 1-bit SVF grows with T: a family of backlogs, derived for this project.

The burst theory of [2] sets the threshold to sqrt T. Outputs of T - 1 and of floor(sqrt T) + 1
tokens are both long to it, so that with equal prompts they are of equal proxy volume and run in the
order of the input: 16 requests (1, T - 1), then 16 floor(sqrt T) requests (1, floor(sqrt T) + 1),
M = T. The former hold all memory for about 8 T steps, while the latter could be through in about
8 sqrt T. So the ratio grows as sqrt T; the theorem says that none grows faster than T.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from sortedf.model import Instance
from sortedf.proofs_check.curves import Curves
from sortedf.solvers.front import verified_latency
from sortedf.solvers.in_order import schedule_by, shortest_of_orders

LONG = 16


def one_bit_family(largest: int) -> Instance:
    """Build the backlog of a size T of at least 4 tokens."""
    root = isqrt(largest)
    many = LONG * root
    outputs = [largest - 1] * LONG + [root + 1] * many
    return Instance([1] * (LONG + many), outputs, largest)


def one_bit_growth(sizes: Sequence[int] = (16, 64, 256, 1024, 4096)) -> Curves:
    """Ratios of 1-bit SVF and of SVF on the family, by T; proved from below.

    Total latencies are those of verified schedules, and are divided by the least of the simple
    orders, which is at least the optimum.
    """
    points: dict[str, list[tuple[float, float]]] = {"svf-1bit": [], "svf": []}
    for size in sizes:
        instance = one_bit_family(size)
        _, schedule = shortest_of_orders(instance)
        least = verified_latency(instance, schedule)
        for name, reached in points.items():
            latency = verified_latency(instance, schedule_by(name, instance))
            reached.append((size, latency / least))
    return Curves(
        "1-bit SVF where all outputs look alike to it",
        "Ratio of the total latency to that of the best verified schedule of the simple orders.",
        "T = max(s + o) (tokens)",
        {name: tuple(reached) for name, reached in points.items()},
        growing=True,
    )
