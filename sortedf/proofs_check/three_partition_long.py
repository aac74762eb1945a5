"""The reduction with outputs of many tokens, all lengths different: hard in general position.

One-token outputs (:mod:`sortedf.proofs_check.three_partition`) are a corner of the model: no
request ever grows. Here all outputs are longer, and no two requests have the same prompt or the
same output. What the paper [1] reduces to could not be found out, so this is no reconstruction of
it: construction and proof are derived for this project.

*Reduction.* Numbers a_i with target B as there; any x_i >= 0 (tokens that outputs differ by), d the
largest x_i, h = k + d with

    k > 3 d m (m + 1) / 2,    o_i = k + x_i,    s_i = L a_i + i  (i = 0..n-1, n = 3m),
    L = 3 (n - 1 + h) - 2,    M = L B + 3 (n - 1 + h).

Is there a schedule of total latency T = 3 h m (m + 1) / 2 at most? With x_i = 0 for all i and any k
the outputs are all k tokens: hard for each fixed output length.

*Memory.* A set of active requests fits at a step just if their numbers sum to B at most. For
request i holds L a_i + i + y tokens, 1 <= y <= h. If the sum is B at most, there are three at most,
and they hold at most L B + 3 (n - 1 + h) = M. If it is more than B, there are three at least (two
numbers are less than B), and they hold at least L (B + 1) + 3 = M + 1.

*Partition -> schedule.* The triples start at 0, h, 2h, ...; each completes by the start of the
next. The total latency is 3 h (0 + 1 + ... + m - 1) + sum o_i <= T.

*Schedule -> partition.* Look at the last k steps of each request alone. At most three are active at
once, so three machines can take them (each takes the next to start when it is idle). Of the first
j to complete one machine has j/3, rounded up, one after the other, each k steps long: the j-th
completes at C_j >= k ceil(j/3). These sum to 3 k m (m + 1) / 2, and T is less than k more. So no
C_j is k later than that: requests 3r - 2, 3r - 1 and 3r in order of completion complete in r k ..
r k + k - 1, and so are all active at step r k, the last k steps of each. Their numbers sum to B at
most, for each r = 1..m, and to m B together: each to B, a partition.

With d <= n, lengths and budget are O(m^3 B): NP-hard in the strong sense.
"""

from __future__ import annotations

from collections.abc import Sequence

from sortedf.errors import OptionError, whole_number
from sortedf.model import Instance
from sortedf.proofs_check.three_partition import Reduction, ThreePartition


def reduce_to_long_outputs(
    problem: ThreePartition, beyond: Sequence[int] | None = None, *, least: int = 2
) -> Reduction:
    """Give a backlog of longer outputs, see the top of this file. O(m).

    Parameters
    ----------
    problem
        What is reduced.
    beyond
        x_i, tokens by which each output is beyond k, shape (3m,), at least 0; 0, 1, 2, ... if left
        out: no two outputs are the same.
    least
        k is at least this many tokens; otherwise the least that the proof allows.

    Raises
    ------
    OptionError
        For ``beyond`` of another length, or what is no whole number, or too small.
    InvalidRequestError
        When the backlog would have more than 2^40 tokens.
    """
    n, m = len(problem.numbers), problem.m
    x = list(range(n) if beyond is None else beyond)
    if len(x) != n:
        raise OptionError(f"beyond has {len(x)} values for {n} numbers")
    for value in x:
        whole_number("beyond", value, 0)
    whole_number("least", least, 1)
    half = m * (m + 1) // 2
    k = max(least, 3 * max(x) * half + 1)
    room = 3 * (n - 1 + k + max(x))
    scale = room - 2
    instance = Instance(
        prompt_tokens=[scale * a + i for i, a in enumerate(problem.numbers)],
        output_tokens=[k + value for value in x],
        kv_tokens=scale * problem.target + room,
    )
    return Reduction(problem, instance, 3 * (k + max(x)) * half)
