"""How long requests take alone on an empty engine, in closed form."""

from __future__ import annotations

import numpy as np

from sortedf.engine.settings import EngineSettings
from sortedf.engine.step_time import StepTimeModel
from sortedf.kernels.step_terms import (
    CHUNK_SQUARED,
    CONTEXT,
    CONTEXT_SQUARED,
    DECODE_TOKENS,
    PREFILL_TOKENS,
    PREFILL_WORK,
    STEPS,
)
from sortedf.model import Instance
from sortedf.model.instance import IntArray
from sortedf.serving.arrivals import FloatArray


def prefill_seconds(
    instance: Instance, settings: EngineSettings, step_time: StepTimeModel
) -> FloatArray:
    """Seconds that each prompt takes alone, shape (n,); see :func:`prompt_seconds`."""
    chunk = settings.max_num_batched_tokens
    return prompt_seconds(instance.prompt_tokens, chunk, step_time.seconds)


def prompt_seconds(prompt_tokens: IntArray, chunk: int, seconds: FloatArray) -> FloatArray:
    """Seconds that each prompt takes alone, in chunks of so many tokens, shape (n,).

    A last chunk of one token is a decode to the engine. ``seconds`` per unit of each term of a
    step, shape (TERMS,).
    """
    s = prompt_tokens.astype(np.float64)
    whole, rest = np.divmod(s, chunk)
    single = rest == 1
    n = s - single
    before = s - 1
    total: FloatArray = (
        seconds[STEPS] * np.ceil(s / chunk)
        + seconds[PREFILL_TOKENS] * n
        + seconds[PREFILL_WORK] * n * (n + 1) / 2
        + seconds[CHUNK_SQUARED] * (whole * chunk * chunk + np.where(single, 0, rest * rest))
        + single
        * (
            seconds[DECODE_TOKENS]
            + seconds[CONTEXT] * before
            + seconds[CONTEXT_SQUARED] * before * before
        )
    )
    return total


def seconds_alone(
    instance: Instance, settings: EngineSettings, step_time: StepTimeModel
) -> FloatArray:
    """Seconds from the arrival at an empty engine to the last token, shape (n,)."""
    seconds = step_time.seconds
    s = instance.prompt_tokens.astype(np.float64)
    k = instance.output_tokens - 1.0  # decodes, the first of them after s tokens
    first, second = k * (k - 1) / 2, (k - 1) * k * (2 * k - 1) / 6
    decodes: FloatArray = (
        k * (seconds[STEPS] + seconds[DECODE_TOKENS])
        + seconds[CONTEXT] * (k * s + first)
        + seconds[CONTEXT_SQUARED] * (k * s * s + 2 * s * first + second)
    )
    return prefill_seconds(instance, settings, step_time) + decodes
