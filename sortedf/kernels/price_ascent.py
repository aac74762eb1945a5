"""Kernels of the price ascent, in floats: cheapest starts, and the load that they put on pieces.

The pieces, the cost F(p) of a start and its cubics are those of :mod:`sortedf.kernels.price_bound`;
what is computed here only proposes prices, whose bound is then taken in exact integers.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

from sortedf.kernels.jit import jit

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@jit
def _sums(first: float, slope: float, steps: int) -> tuple[float, float]:
    """Sum up first + slope u over u = 0..steps - 1, and u (first + slope u)."""
    m = float(steps)
    pairs = m * (m - 1) / 2
    return first * m + slope * pairs, first * pairs + slope * (pairs * (2 * m - 1) / 3)


@jit
def cheapest_starts(
    nodes: IntArray,
    value: FloatArray,
    slope: FloatArray,
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    release: IntArray,
    least: FloatArray,
    earliest: IntArray,
    latest: IntArray,
    tolerance: float,
) -> int:
    """Find the least cost F(p) - a of each request over its starts; returns the cells looked at.

    Parameters
    ----------
    nodes, value, slope
        The pieces, as for ``exact_minima`` with denominator 1.
    prompt_tokens, output_tokens, release
        s, o (tokens), a (steps), shape (n,).
    least, earliest, latest
        Results, shape (n,): the least cost; the first and the last start within ``tolerance``
        (relative) of it among the ends of cells and the integers beside interior minima.

    Notes
    -----
    O(K) a request; it ends where p + o alone exceeds the least cost found.
    """
    pieces = len(value)
    horizon = nodes[pieces - 1]
    # Prices, and prices times step, summed up to each node.
    total = np.zeros(pieces + 1)
    moment = np.zeros(pieces + 1)
    for j in range(pieces):
        part, off = _sums(value[j], slope[j], nodes[j + 1] - nodes[j])
        total[j + 1] = total[j] + part
        moment[j + 1] = moment[j] + (nodes[j] + 1) * part + off
    cells = 0
    for i in range(len(least)):
        s = float(prompt_tokens[i])
        o = output_tokens[i]
        p = release[i]
        here = np.searchsorted(nodes, p, side="right") - 1
        there = np.searchsorted(nodes, p + o, side="right") - 1
        part, off = _sums(value[here], slope[here], p - nodes[here])
        held = -total[here] - part
        weighed = -moment[here] - (nodes[here] + 1) * part - off
        part, off = _sums(value[there], slope[there], p + o - nodes[there])
        held += total[there] + part
        weighed += moment[there] + (nodes[there] + 1) * part + off
        cost = p + o + (s - p) * held + weighed
        best = cost
        begin = end = p
        limit = best + tolerance * best
        while p < horizon and p + o <= limit:
            cells += 1
            h = min(nodes[here + 1], nodes[there + 1] - o) - p
            base = nodes[here]
            la = value[here] + slope[here] * (p - base)
            lb = value[there] + slope[there] * (p + o - nodes[there])
            third = slope[here] - slope[there]
            first = 1.0 + lb * (s + o) - la * s - held
            second = slope[there] * (s + o) - slope[here] * s - lb + la
            if h > 1:
                # The root of first + x second + x (x - 1) / 2 third at which it rises.
                b = second - third / 2
                square = b * b - 2 * third * first
                x = -1.0
                if square >= 0.0:
                    root = sqrt(square)
                    if b > 0.0:
                        x = -2 * first / (b + root)
                    elif third > 0.0:
                        x = (root - b) / third
                if -0.5 < x < h - 0.5:
                    # The least is at the first integer from x on, and at the next one if x is
                    # whole; one before them is taken in against the rounding of x.
                    for k in range(max(int(x), 1), min(int(x) + 3, h)):
                        c = cost + k * (first + (k - 1) * 0.5 * (second + (k - 2) * (third / 3)))
                        if c <= limit:
                            end = p + k
                            if c < best:
                                if c < best - tolerance * best:
                                    begin = p + k
                                best = c
                                limit = best + tolerance * best
            cost += h * (first + (h - 1) * 0.5 * (second + (h - 2) * (third / 3)))
            held += h * ((lb - la) - (h - 1) * 0.5 * third)
            p += h
            if cost <= limit:
                end = p
                if cost < best:
                    if cost < best - tolerance * best:
                        begin = p
                    best = cost
                    limit = best + tolerance * best
            if p == nodes[here + 1]:
                here += 1
            if p + o == nodes[there + 1]:
                there += 1
        least[i] = best - release[i]
        earliest[i] = begin
        latest[i] = end
    return cells


@jit
def piece_loads(
    nodes: IntArray,
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    weight: FloatArray,
    starts: IntArray,
    load: FloatArray,
    moment: FloatArray,
) -> None:
    """Add up what starts occupy on each piece: the derivative of the cost by ``value, slope``.

    Parameters
    ----------
    nodes
        As for :func:`cheapest_starts`.
    prompt_tokens, output_tokens, weight, starts
        s, o, how often the request counts, and its start, shape (n,).
    load, moment
        Results, one a piece: tokens held, summed over the steps of the piece, and the same with
        each step t weighed by t - nodes[j] - 1.

    Notes
    -----
    A request counts as if it held s + t - p on the whole of its first and last piece, by
    differences over the pieces; the steps of these two that it does not use are taken off again.
    O(n log K + K).
    """
    pieces = len(load)
    count = np.zeros(pieces + 1)
    base = np.zeros(pieces + 1)
    load[:] = 0.0
    moment[:] = 0.0
    for i in range(len(starts)):
        p = starts[i]
        q = p + output_tokens[i]
        w = weight[i]
        tokens = float(prompt_tokens[i] - p)  # held at step t: tokens + t
        a = np.searchsorted(nodes, p, side="right") - 1
        b = np.searchsorted(nodes, q, side="left") - 1
        count[a] += w
        base[a] += w * tokens
        count[b + 1] -= w
        base[b + 1] -= w * tokens
        part, off = _sums(tokens + nodes[a] + 1, 1.0, p - nodes[a])
        load[a] -= w * part
        moment[a] -= w * off
        if b < pieces - 1:
            # Steps q + 1 .. the end of the piece: up to the end less up to q.
            part, off = _sums(tokens + nodes[b] + 1, 1.0, nodes[b + 1] - nodes[b])
            load[b] -= w * part
            moment[b] -= w * off
            part, off = _sums(tokens + nodes[b] + 1, 1.0, q - nodes[b])
            load[b] += w * part
            moment[b] += w * off
    held_by = 0.0
    held = 0.0
    for j in range(pieces - 1):
        held_by += count[j]
        held += base[j]
        steps = nodes[j + 1] - nodes[j]
        part, off = _sums(held + held_by * (nodes[j] + 1), held_by, steps)
        load[j] += part
        moment[j] += off
    load[pieces - 1] = 0.0
    moment[pieces - 1] = 0.0


@jit
def cost_at(total: FloatArray, moment: FloatArray, prompt: int, output: int, start: int) -> float:
    """Cost F(p) of one start, release not deducted, from sums of prices by step; O(1).

    ``total`` and ``moment`` (T + 1,) are the sums of the prices and of price times step up to each
    step: F(p) = p + o + (s - p) (L(p + o) - L(p)) + Q(p + o) - Q(p). Its error is about 1e-15
    times the last moment.
    """
    last = len(total) - 1
    begin = min(start, last)
    end = min(start + output, last)
    held = total[end] - total[begin]
    return float(start + output + (prompt - start) * held + moment[end] - moment[begin])
