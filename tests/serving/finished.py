"""Finished requests drawn from a known law, for the tests of predictors."""

from __future__ import annotations

import numpy as np

from sortedf.instances.traits import History, Traits


def drawn_history(seed: int, n: int, *, noise: float = 0.4, informative: bool = True) -> History:
    """Draw independent requests: outputs about three times the prompt, noisier where it is long."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(200, 5_000, n)
    factor = np.exp(noise * (1 + prompt / 5_000) * rng.standard_normal(n))
    output = np.maximum(np.rint(3 * prompt * factor), 1).astype(np.int64)
    if not informative:
        prompt = rng.permutation(prompt)
    return History(traits=Traits(prompt_tokens=prompt), output_tokens=output, source="drawn")


def of_two_kinds(seed: int, n: int) -> History:
    """Draw requests whose column, hour and words tell whether about 50 or 800 tokens come."""
    rng = np.random.default_rng(seed)
    long = rng.random(n) < 0.5
    output = np.maximum(np.rint(np.where(long, 800, 50) * np.exp(0.1 * rng.standard_normal(n))), 1)
    traits = Traits(
        prompt_tokens=rng.integers(10, 100, n),
        hours=np.where(long, 3.0, 15.0) + rng.random(n),
        columns={"task": ["essay" if is_long else "label" for is_long in long]},
        texts=[
            "Write an essay on queues." if is_long else "Which label fits? yes or no?"
            for is_long in long
        ],
    )
    return History(traits=traits, output_tokens=output.astype(np.int64))
