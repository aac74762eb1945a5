"""Naive twins for the report: everything step by step, and every schedule."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from hypothesis import strategies as st

import sortedf
from sortedf import Instance
from sortedf.lp import Prices

Starts = list[int]


@st.composite
def plans(draw: st.DrawFn, most: int = 12, releases: bool = False) -> tuple[Instance, Starts]:
    """Draw a small instance and a feasible schedule of it, by some order."""
    budget = draw(st.integers(4, 60))
    n = draw(st.integers(1, most))
    requests = []
    for _ in range(n):
        prompt = draw(st.integers(1, budget - 1))
        requests.append((prompt, draw(st.integers(1, budget - prompt))))
    release = [draw(st.integers(0, 30)) for _ in range(n)] if releases else [0] * n
    prompts, outputs = zip(*requests, strict=True)
    instance = Instance(prompts, outputs, budget, release=release)
    order = draw(st.sampled_from(["fcfs", "svf", "longest", "random"]))
    return instance, sortedf.solve(instance, solver=order).schedule.starts.tolist()


def held_by(instance: Instance, starts: Starts, step: int) -> dict[int, int]:
    """Tokens that each request holds at a step, by the definition, of those that hold any."""
    return {
        i: int(instance.prompt_tokens[i]) + step - start
        for i, start in enumerate(starts)
        if start < step <= start + int(instance.output_tokens[i])
    }


def price_by_step(prices: Prices) -> dict[int, Fraction]:
    """Price of each priced step, as a fraction."""
    return {
        step: Fraction(numerator + slope * (step - first), prices.denominator)
        for first, last, numerator, slope in prices.pieces()
        for step in range(first, last + 1)
    }


def least_latency(instance: Instance) -> int:
    """Least total latency over all start vectors up to the sum of outputs; tiny instances only."""
    horizon = int(instance.output_tokens.sum())
    best = None
    for starts in product(range(horizon), repeat=len(instance)):
        latency = sum(starts) + int(instance.output_tokens.sum())
        if best is not None and latency >= best:
            continue
        if all(
            sum(held_by(instance, list(starts), step).values()) <= instance.kv_tokens
            for step in range(1, 2 * horizon + 1)
        ):
            best = latency
    assert best is not None
    return best
