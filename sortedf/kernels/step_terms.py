"""What a step is made of: the terms that its time is a weighted sum of."""

from __future__ import annotations

from sortedf.kernels.jit import jit
from sortedf.kernels.replay_state import FloatArray

# A query of one token is a decode, whatever it computes; a longer one is a prefill.
STEPS = 0  # 1 for a step in which anything runs
PREFILL_TOKENS = 1
DECODE_TOKENS = 2
CONTEXT = 3  # sum over decodes of the tokens that are there before the step
PREFILL_WORK = 4  # sum over chunks of n tokens after c: n c + n (n + 1) / 2
CHUNK_SQUARED = 5  # sum over chunks of n^2
CONTEXT_SQUARED = 6  # sum over decodes of the context squared
TERMS = 7


@jit
def step_seconds(seconds: FloatArray, work: FloatArray) -> float:
    """Duration of a step from seconds per unit of each term, both of shape (TERMS,)."""
    total = 0.0
    for term in range(TERMS):
        total += seconds[term] * work[term]
    return total
