"""A lower bound where requests are large: few of them fit beside each other, by formula.

A function f of sizes is dual-feasible if sizes that fit into M, whatever they are, have values that
fit into M as well (Lueker; Fekete and Schepers, "New classes of fast lower bounds for bin packing
problems"). So at every step the values of what the requests hold add up to M at most, and what the
mean-busy-time bound says of tokens holds for values. That a mean of two such functions is one again
lets small requests count. Taking all this over to growing requests is derived for this project.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sortedf.lp.closed_forms import output_bound
from sortedf.lp.distinct import Distinct, distinct
from sortedf.lp.fluid import mean_times, pieces_by_rank, sum_of_fractions
from sortedf.model import Instance
from sortedf.model.instance import IntArray

THRESHOLDS = 32
"""Most thresholds that are tried."""

PARTS = range(2, 11)
"""Numbers k for the functions that round to k-ths of the budget."""

QUARTERS = (1, 2, 3, 4)
"""How much of the value is that of the function, the rest is the size itself."""


class Piece(NamedTuple):
    """Sizes first..last have the value constant + slope * size."""

    first: int
    last: int
    constant: int
    slope: int


class Values(NamedTuple):
    """A dual-feasible function, in pieces; 0 elsewhere. The budget counts ``times`` M."""

    times: int
    pieces: list[Piece]


class Weighed(NamedTuple):
    """Values that requests take up: w, 2 w d, o, a of each kind (floats, or Python's integers).

    ``budget`` is what M counts, ``number`` how many are of each kind.
    """

    w: Any
    twice: Any
    o: Any
    release: Any
    budget: int
    number: IntArray


def packing_bound(instance: Instance) -> Fraction:
    """Bound by what fits beside each other: sum_j [(P_<j + w_j / 2) / f(M) + d_j], w ascending.

    w_i = sum_{k=1..o} f(s + k) takes the place of the volume, P_<j is the sum of the smaller ones,
    d_i = (1 / w_i) sum_{k=1..o} f(s + k)(o - k + 1/2); a request without value counts o. The best
    of some dual-feasible functions; where no request exceeds M / 11, the sum of outputs. Releases
    as in the mean-busy-time bound. O(n log n) for each function.
    """
    best = output_bound(instance)
    M = instance.kv_tokens
    if (max(PARTS) + 1) * int((instance.prompt_tokens + instance.output_tokens).max()) <= M:
        return best
    kinds = distinct(instance)
    tried = [
        (_approximately(mixed), values, quarters)
        for values in functions(M, kinds)
        for quarters, mixed in zip(QUARTERS, weighed(kinds, M, values, np.float64), strict=True)
    ]
    _, values, quarters = max(tried, key=lambda found: found[0])
    chosen = weighed(kinds, M, values, object)[QUARTERS.index(quarters)]
    return max(best, exact_value(chosen) - int(instance.release.sum()))


def functions(M: int, kinds: Distinct) -> Iterator[Values]:
    """Give the functions that are worth a try: thresholds at sizes that occur, and roundings.

    Threshold e <= M / 2: sizes above M - e count M, sizes below e nothing.
    """
    begin = kinds.prompt_tokens + 1
    end = kinds.prompt_tokens + kinds.output_tokens
    # A size x counts M from e = M - x + 1 on, and something up to e = x.
    sizes = np.concatenate([begin, end])
    at = np.unique(np.concatenate([sizes, M - sizes + 1, [M // 2]]))
    at = at[(at > M - int(end.max())) & (at <= M // 2)]
    places = np.unique(np.linspace(0, len(at) - 1, min(len(at), THRESHOLDS)).astype(np.int64))
    for e in at[places].tolist():
        yield Values(1, [Piece(e, M - e, 0, 1), Piece(M - e + 1, M, M, 0)])
    for k in PARTS:
        yield rounding(M, k)


def rounding(M: int, k: int) -> Values:
    """Round down to k-ths of the budget: values times k, floor((k + 1) x / M) M.

    Sizes x for which that is a whole number before it is rounded keep their own value, k x.
    """
    pieces = []
    for j in range(1, k + 1):
        first, last = j * M // (k + 1) + 1, -(-(j + 1) * M // (k + 1)) - 1
        if first <= last:
            pieces.append(Piece(first, last, j * M, 0))
    for j in range(1, k + 2):
        x, rest = divmod(j * M, k + 1)
        if not rest:
            pieces.append(Piece(x, x, k * x, 0))
    return Values(k, pieces)


def weighed(kinds: Distinct, M: int, values: Values, number: Any) -> list[Weighed]:
    """Weigh each kind by the function in each of ``QUARTERS`` and by the rest of its size."""
    s, o, a = (column.astype(number) for column in kinds[:3])
    by_value = _sums(s, o, values.pieces)
    by_size = _sums(s, o, [Piece(1, M, 0, 1)])
    mixed = []
    for quarters in QUARTERS:
        rest = (4 - quarters) * values.times
        w, twice = (quarters * a + rest * b for a, b in zip(by_value, by_size, strict=True))
        mixed.append(Weighed(w, twice, o, a, 4 * values.times * M, kinds.weight))
    return mixed


def _sums(s: Any, o: Any, pieces: list[Piece]) -> tuple[Any, Any]:
    """Sum f(s + k), and f(s + k) (2 (o - k) + 1), over k = 1..o; shape (n,) each."""
    columns = np.array(pieces, s.dtype).T[:, :, np.newaxis]  # pieces by kinds
    first, last, constant, slope = columns
    k = np.maximum(first - s, 1)
    count = np.maximum(np.minimum(last - s, o) - k + 1, 0)
    value, left = constant + slope * (s + k), 2 * (o - k) + 1
    pairs = count * (count - 1) // 2
    squares = pairs * (2 * count - 1) // 3
    w = value * count + slope * pairs
    twice = value * left * count + (slope * left - 2 * value) * pairs - 2 * slope * squares
    return w.sum(axis=0), twice.sum(axis=0)


def _approximately(weighed: Weighed) -> float:
    """Evaluate in floats, to choose by."""
    w, twice, o, a, budget, count = weighed
    some = w > 0
    alone = float((count * (o + a))[~some].sum())
    w, twice, a, count = w[some], twice[some], a[some], count[some]
    job, begin, length = pieces_by_rank(a * float(budget), count * w, w)
    half = float((length * (2 * begin + length) / w[job]).sum())
    means = float((count * twice / w).sum()) / 2
    return half / (2 * budget) + means + alone


def exact_value(weighed: Weighed) -> Fraction:
    """Evaluate in integers; releases not deducted."""
    w, twice, o, a, budget, count = weighed
    some = w > 0
    total = Fraction(sum((count * (o + a))[~some].tolist()))
    if not some.any():
        return total
    w, twice, a, count = w[some], twice[some], a[some], count[some]
    gathered: dict[int, int] = {}  # by w: the sum of 2 w d
    for weight, each in zip(w.tolist(), (twice * count).tolist(), strict=True):
        gathered[weight] = gathered.get(weight, 0) + each
    tails = sum_of_fractions([(each, 2 * weight) for weight, each in gathered.items()])
    return total + mean_times(a, w, w * count, budget) + tails
