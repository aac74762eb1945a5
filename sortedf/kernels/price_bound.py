"""The price bound in exact integers: the cheapest start of every request, cell by cell.

Prices are numerators over a common denominator D, linear on each piece: the price of step t on
piece j, ``nodes[j] < t <= nodes[j + 1]``, is ``(value[j] + slope[j] (t - nodes[j] - 1)) / D``.
The last piece is without a price and reaches past every step that a request can touch. With
d(p) the sum of the prices of the steps p + 1 .. p + o, the cost of a start p,

    F(p) = p + o + sum_{k=1..o} price(p + k) (s + k),

is a cubic in p wherever neither p + 1 nor p + o + 1 leaves its piece (a *cell*): with la, lb the
prices of these two steps and Ba, Bb the slopes there, its differences are

    D1(p) = F(p + 1) - F(p) = 1 + lb (s + o) - la s - d(p),
    D2 = Bb (s + o) - Ba s - lb + la   (at the cell's first step),    D3 = Ba - Bb,

and Newton's form F(p + x) = F + x D1 + C(x, 2) D2 + C(x, 3) D3 is exact at every integer. The least
value in a cell is at an end, or where D1 turns from negative to non-negative, which a quadratic
does once: a binary search over the part where it rises finds it. Derived for this project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sortedf.kernels.jit import jit

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]


def exact_minima_in_python(
    nodes: Any,
    value: Any,
    slope: Any,
    denominator: Any,
    prompt_tokens: Any,
    output_tokens: Any,
    release: Any,
    least: Any,
) -> None:
    """Write into ``least`` the minimum of D (F(p) - a) over all starts a <= p <= max(T, a).

    Parameters
    ----------
    nodes
        Ends of the pieces, ascending, from 0; ``nodes[-2]`` is T, ``nodes[-1]`` is beyond
        T + max(o) and max(a) + max(o). Length K + 2.
    value, slope
        Numerators at the first step of each piece and their increase by step, K + 1; the last
        piece has 0.
    denominator
        D.
    prompt_tokens, output_tokens, release
        s, o (tokens) and a (steps), one each a request.
    least
        Where the result goes.

    Notes
    -----
    O(K log T) a request at most; later starts are not looked at once p + o alone reaches the least
    cost found. Arrays are int64: sums and products may wrap in between, as integers modulo 2**64,
    but costs, first to third differences and products of three lengths, which are what is compared
    or divided, must fit; the caller sees to it. With lists of Python integers any size is exact.
    """
    horizon = nodes[len(nodes) - 2]
    for i in range(len(least)):
        s = prompt_tokens[i]
        o = output_tokens[i]
        p = release[i]
        released = p
        # The pieces of the steps p + 1 and p + o + 1: `here` and `there`.
        here = 0
        while nodes[here + 1] <= p:
            here += 1
        # Cost F and sum of prices d of the first start, piece by piece.
        cost = (p + o) * denominator
        held = denominator * 0
        there = here
        step = p
        while step < p + o:
            last = min(p + o, nodes[there + 1])
            m = last - step
            price = value[there] + slope[there] * (step - nodes[there])
            tokens = s + step + 1 - p
            pairs = m * (m - 1) // 2
            held += price * m + slope[there] * pairs
            cost += price * tokens * m + (price + slope[there] * tokens) * pairs
            cost += slope[there] * ((m - 1) * m * (2 * m - 1) // 6)
            step = last
            if last == nodes[there + 1]:
                there += 1
        best = cost
        while p < horizon and (p + o) * denominator < best:
            h = min(nodes[here + 1], nodes[there + 1] - o) - p
            la = value[here] + slope[here] * (p - nodes[here])
            lb = value[there] + slope[there] * (p + o - nodes[there])
            first = denominator + lb * (s + o) - la * s - held
            second = slope[there] * (s + o) - slope[here] * s - lb + la
            third = slope[here] - slope[there]
            if h > 1:
                # first + x second + C(x, 2) third rises on low..high.
                low = 0
                high = h - 1
                if third > 0:
                    low = min(h - 1, max(0, -(second // third)))
                elif third < 0:
                    high = min(h - 1, max(0, -(second // third)))
                below = first + low * second + low * (low - 1) // 2 * third
                above = first + high * second + high * (high - 1) // 2 * third
                if below < 0 and above >= 0:
                    while high - low > 1:
                        x = (low + high) // 2
                        if first + x * second + x * (x - 1) // 2 * third < 0:
                            low = x
                        else:
                            high = x
                    x = high
                    inside = cost + x * first + x * (x - 1) // 2 * second
                    inside += x * (x - 1) * (x - 2) // 6 * third
                    best = min(best, inside)
            pairs = h * (h - 1) // 2
            cost += h * first + pairs * second + h * (h - 1) * (h - 2) // 6 * third
            held += h * (lb - la) - pairs * third
            best = min(best, cost)
            p += h
            if p == nodes[here + 1]:
                here += 1
            if p + o == nodes[there + 1]:
                there += 1
        least[i] = best - released * denominator


exact_minima = jit(exact_minima_in_python)
